"""Between the distributions of a search of scikit-learn and a :class:`~mfbo_torch.space.Space`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import joblib
import numpy as np

from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.codec import Coordinate
from mfbo_torch.utils.errors import SettingError

TAIL = 1e-3
"""A distribution is searched between its quantiles at this probability and at one minus it: its ends may be infinite,
or not allowed."""
WHICH = "which"
"""The parameter that is the index of one of several dictionaries."""
DRAWS = 1000
"""The number of draws that stand for a distribution without quantiles."""
WIDEST = 10_000
"""The longest range of a discrete distribution that is looked through for values that it never has."""


class SearchCodec:
    """Designs of a space as candidates of a search.

    A continuous distribution becomes its quantiles, a uniform one thus its range and a log-uniform one that of the
    logarithm; a discrete one becomes its range, or the list of its values where that has gaps; a list the ranks of its
    numbers, or choices. A distribution that can only be drawn from becomes the list of :data:`DRAWS` draws. A parameter
    with a single value is not searched. One of several dictionaries is a choice, and the parameters of each have that
    choice as their condition.
    """

    def __init__(
        self, distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]], random_state: np.random.RandomState
    ) -> None:
        several = [distributions] if isinstance(distributions, Mapping) else list(distributions)
        if not several or not all(isinstance(each, Mapping) for each in several):
            raise SettingError("param_distributions", distributions, "a dictionary, or a list of some")
        self.names = {name for each in several for name in each}
        self.free: list[Parameter] = []
        self._fixed: list[dict[str, Any]] = [{} for _ in several]
        self._searched: list[tuple[int, str, Coordinate]] = []
        if len(several) > 1:
            self.free.append(Parameter(WHICH, choices=tuple(range(len(several)))))
        for i, each in enumerate(several):
            own, when = (f"{i} ", {WHICH: i}) if len(several) > 1 else ("", {})
            for name in sorted(each):  # as scikit-learn draws
                given = each[name]
                settings = {"name": own + name, "when": when}
                kind = _distribution if hasattr(given, "rvs") else _values
                found = kind(f"param_distributions[{name!r}]", given, settings, random_state)
                if isinstance(found, Coordinate):
                    self._searched.append((i, name, found))
                    self.free.append(found.parameter)
                else:
                    self._fixed[i][name] = found[0]

    def space(self, costs: Sequence[float]) -> Space:
        """The space of the candidates, with a fidelity for each cost."""
        return Space(self.free, costs)

    def decode(self, x: Sequence[float]) -> dict[str, Any]:
        """The estimator's parameters at a design."""
        which = round(x[0]) if len(self._fixed) > 1 else 0
        numbers = x[len(self.free) - len(self._searched) :]
        pairs = zip(self._searched, numbers, strict=True)
        return {**self._fixed[which], **{name: c.decode(number) for (i, name, c), number in pairs if i == which}}


Settings = dict[str, Any]
Found = Coordinate | list[Any]
"""A coordinate; or the only value, in a list."""


def _values(setting: str, given: Any, settings: Settings, random_state: Any = None) -> Found:
    """A list: numbers by rank, else without an order."""
    if isinstance(given, str | bytes | Mapping) or not (isinstance(given, Sequence) or hasattr(given, "__array__")):
        raise SettingError(setting, given, "a list of values, or a distribution with rvs")
    found = [v.item() if isinstance(v, np.generic) else v for v in given]
    if not found:
        raise SettingError(setting, found, "a list of at least one value")
    if len(found) == 1:
        return found
    ordered = all(isinstance(v, Real) and not isinstance(v, bool) for v in found)
    indices = Parameter(choices=tuple(range(len(found))), ordered=ordered, **settings)  # the values may be anything
    return Coordinate.among(indices, sorted(found) if ordered else found)


def _distribution(setting: str, given: Any, settings: Settings, random_state: np.random.RandomState) -> Found:
    """A distribution: its quantiles where it is continuous, its range where it is discrete, or draws."""
    if not hasattr(given, "ppf"):
        draws = [given.rvs(random_state=random_state) for _ in range(DRAWS)]
        return _values(setting, list({joblib.hash(draw): draw for draw in draws}.values()), settings)
    if not hasattr(given, "pmf"):
        quantiles = Parameter(lower=TAIL, upper=1.0 - TAIL, **settings)
        return Coordinate(quantiles, given.cdf, lambda x: float(given.ppf(x)))
    lower, upper = map(int, given.ppf([TAIL, 1.0 - TAIL]))
    if lower == upper:
        return [lower]
    if upper - lower <= WIDEST:
        found = np.arange(lower, upper + 1)
        if not (possible := given.pmf(found) > 0).all():
            return _values(setting, found[possible], settings)
    return Coordinate(Parameter(lower=lower, upper=upper, integer=True, **settings), float, round)
