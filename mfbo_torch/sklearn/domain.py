"""Between the distributions of a search of scikit-learn and a :class:`~mfbo_torch.space.Space`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from mfbo_torch.space import Parameter, Space
from mfbo_torch.utils.errors import SettingError

TAIL = 1e-3
"""A distribution is searched from this quantile to the one as far from its other end: bounds need not be allowed."""
WHICH = "which"
"""Which of several dictionaries it is."""
DRAWS = 1000
"""So many values stand for a distribution that can only be drawn from."""


class Searched(ABC):
    """What a strategy has for one parameter.

    Attributes:
        parameter: What it searches.
    """

    parameter: Parameter

    @abstractmethod
    def value(self, x: float) -> Any:
        """The value of the estimator's parameter that a strategy's number stands for."""


class Whole(Searched):
    """Whole numbers, alike however likely they are."""

    def __init__(self, name: str, lower: int, upper: int) -> None:
        self.parameter = Parameter(name, lower, upper, integer=True)

    def value(self, x: float) -> int:
        return round(x)


class Quantiles(Searched):
    """A continuous distribution: its quantiles, so that each part is searched as it is likely."""

    def __init__(self, name: str, distribution: Any) -> None:
        self.parameter, self.distribution = Parameter(name, TAIL, 1.0 - TAIL), distribution

    def value(self, x: float) -> float:
        return float(self.distribution.ppf(x))


class Values(Searched):
    """Some values: by rank where they are numbers, else without an order."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        numeric = all(isinstance(v, Real) and not isinstance(v, bool | np.bool_) for v in values)
        self.values = sorted(values) if numeric else list(values)
        # by number: they may be anything
        self.parameter = Parameter(name, choices=tuple(range(len(values))), ordered=numeric)

    def value(self, x: float) -> Any:
        return self.values[round(x)]


class Domain:
    """What the parameters of a search mean to a strategy.

    Continuous distributions become their quantiles, a uniform one thus its range and a log-uniform one that of the
    logarithm; discrete ones become their range; lists the ranks of their numbers, or choices. A distribution that can
    only be drawn from is a list of what :data:`DRAWS` draws give. What has a single value is not searched. Where there
    are several dictionaries, which one it is is a choice, and the parameters of each are there under that condition.

    Args:
        distributions: Lists of values, or distributions with an ``rvs`` such as those of :mod:`scipy.stats`, by the
            names of an estimator's parameters; or a list of such dictionaries, alternatives.
        random_state: For distributions that can only be drawn from.

    Raises:
        SettingError: One of them is neither.
    """

    def __init__(
        self,
        distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        random_state: np.random.RandomState,
    ) -> None:
        several = [distributions] if isinstance(distributions, Mapping) else list(distributions)
        if not several or not all(isinstance(each, Mapping) for each in several):
            raise SettingError("param_distributions", distributions, "a dictionary, or a list of some")
        self.names = sorted({name for each in several for name in each})
        self.alternatives = [_Alternative(each, random_state) for each in several]

    @property
    def free(self) -> list[Parameter]:
        """What a strategy searches."""
        if len(self.alternatives) == 1:
            return [each.parameter for each in self.alternatives[0].searched]
        which = Parameter(WHICH, choices=tuple(range(len(self.alternatives))))
        parts = enumerate(self.alternatives)
        return [
            which,
            *(
                replace(each.parameter, name=f"{i} {each.parameter.name}", when=((WHICH, (i,)),))
                for i, part in parts
                for each in part.searched
            ),
        ]

    def space(self, costs: Sequence[float]) -> Space:
        """The space with so many fidelities."""
        return Space(tuple(self.free), tuple(costs))

    def parameters(self, x: Sequence[float]) -> dict[str, Any]:
        """The estimator's parameters at a design."""
        if len(self.alternatives) == 1:
            return self.alternatives[0].parameters(x)
        which, start = round(x[0]), 1
        for part in self.alternatives[:which]:
            start += len(part.searched)
        found = self.alternatives[which]
        return found.parameters(x[start : start + len(found.searched)])


class _Alternative:
    """One dictionary of distributions."""

    def __init__(self, distributions: Mapping[str, Any], random_state: np.random.RandomState) -> None:
        self.searched: list[Searched] = []
        self.fixed: dict[str, Any] = {}
        for name in sorted(distributions):  # as scikit-learn draws
            given = distributions[name]
            found = _distribution(name, given, random_state) if hasattr(given, "rvs") else _values(name, given)
            if isinstance(found, Searched):
                self.searched.append(found)
            else:
                self.fixed[name] = found[0]

    def parameters(self, x: Sequence[float]) -> dict[str, Any]:
        pairs = zip(self.searched, x, strict=True)
        return {**self.fixed, **{each.parameter.name: each.value(number) for each, number in pairs}}


def _values(name: str, given: Any) -> Searched | list[Any]:
    """Of a list; itself, where it is a single value."""
    if isinstance(given, str | bytes | Mapping) or not (isinstance(given, Sequence) or hasattr(given, "__array__")):
        raise SettingError(f"param_distributions[{name!r}]", given, "a list of values, or a distribution with rvs")
    found = [v.item() if isinstance(v, np.generic) else v for v in given]
    if not found:
        raise SettingError(f"param_distributions[{name!r}]", found, "a list of at least one value")
    return Values(name, found) if len(found) > 1 else found


def _distribution(name: str, given: Any, random_state: np.random.RandomState) -> Searched | list[Any]:
    """Of a distribution; its value, where there is only one."""
    if not hasattr(given, "ppf"):
        draws = [given.rvs(random_state=random_state) for _ in range(DRAWS)]
        return _values(name, list(dict.fromkeys(draws)))
    if not hasattr(given, "pmf"):
        return Quantiles(name, given)
    lower, upper = map(int, given.ppf([TAIL, 1.0 - TAIL]))
    return Whole(name, lower, upper) if lower < upper else [lower]
