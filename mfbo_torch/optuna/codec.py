"""Between a search space of Optuna and a :class:`~mfbo_torch.space.Space`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from mfbo_torch.history import Query
from mfbo_torch.optuna.conditions import When
from mfbo_torch.space import Parameter
from mfbo_torch.space.codec import Codec, Coordinate
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, several

RATIO = 3
"""Without costs, the value of each fidelity is about this many times that of the fidelity below."""
LEVELS = 4
"""Without costs, the largest number of fidelities."""
ONE_AT_A_TIME = threading.Lock()
"""Of the threads of ``n_jobs``: each sees what the others were given, and leaves the process as it found it."""

Costs = Sequence[float] | Mapping[int, float] | None


class StudyCodec(Codec):
    """The parameters of a study's trials as designs of a space.

    Ranges stay as they are, a range with a step becomes the rank of its values, and categories become choices. The
    values of the fidelity, in the order of their costs, are the fidelities ``0 ... M - 1``. No distribution may have a
    single value; ``fidelity`` and ``costs`` are as in :class:`~mfbo_torch.optuna.Sampler`, ``conditions`` as
    :func:`~mfbo_torch.optuna.conditions.conditions_of` finds them.
    """

    def __init__(
        self,
        distributions: Mapping[str, BaseDistribution],
        fidelity: str | None = None,
        costs: Costs = None,
        conditions: Mapping[str, When] | None = None,
    ) -> None:
        self.distributions, conditions = dict(distributions), conditions or {}
        self.always = {name for name in distributions if name not in conditions}
        levels, prices = ([None], (1.0,)) if fidelity is None else levels_of(fidelity, distributions, costs)
        plain = {name: _coordinate(name, d) for name, d in distributions.items() if name != fidelity}
        coordinates = [_under(coordinate, conditions.get(name, {}), plain) for name, coordinate in plain.items()]
        super().__init__(coordinates, fidelity, levels, costs=prices)

    def internal(self, query: Query) -> dict[str, float]:
        """The parameters of a query's trial as Optuna stores them."""
        found = self.decode(query.x, query.fidelity)
        return {name: self.distributions[name].to_internal_repr(value) for name, value in found.items()}

    def misfit(self, parameters: Mapping[str, Any]) -> str:
        """The first parameter that keeps some parameters out of the search space, in words."""
        for coordinate in self.coordinates:
            name = coordinate.parameter.name
            if name not in parameters:
                return f"no {name}"
            try:
                coordinate.parameter.encode(coordinate.encode(parameters[name]))
            except ValueError:
                return f"{name} = {parameters[name]!r}"
        if self.fidelity is None or self.fidelity not in parameters:
            return f"no {self.fidelity}"
        return f"{self.fidelity} = {parameters[self.fidelity]!r}, none of {', '.join(map(str, self.levels))}"

    def external(self, stored: Mapping[str, float]) -> dict[str, Any]:
        """Those of the stored parameters that are searched."""
        return {k: self.distributions[k].to_external_repr(x) for k, x in stored.items() if k in self.distributions}


def checked(costs: Any) -> Costs:
    """Costs as far as they can be checked before the values of the fidelity are known."""
    if costs is None:
        return None
    prices = costs.values() if isinstance(costs, Mapping) else costs
    several("costs", prices, partial(number, above=0), "a mapping from values of the fidelity to positive numbers")
    return dict(costs) if isinstance(costs, Mapping) else list(costs)


def levels_of(
    name: str, distributions: Mapping[str, BaseDistribution], costs: Costs
) -> tuple[list[Any], tuple[float, ...]]:
    """The values that a fidelity takes, the cheapest first, and their costs."""
    distribution = distributions.get(name)
    if not isinstance(distribution, IntDistribution):
        names = [other for other, given in distributions.items() if isinstance(given, IntDistribution)]
        known = " or ".join(map(repr, names)) or "none is there"
        raise SettingError("fidelity", name, f"a parameter of every trial, by suggest_int and free to vary ({known})")
    allowed = range(distribution.low, distribution.high + 1, distribution.step)
    extent = f"{allowed[0]} to {allowed[-1]}" + (f" in steps of {allowed.step}" if allowed.step > 1 else "")
    if costs is None:
        if distribution.low < 1:
            raise SettingError("costs", None, f"given, as {name} = {distribution.low} cannot be what it costs")
        wanted = [distribution.high / RATIO**k for k in range(LEVELS)]
        some = {allowed.start + allowed.step * round((w - allowed.start) / allowed.step) for w in wanted}
        found = {value: float(value) for value in some if value in allowed}
    elif isinstance(costs, Mapping):
        found = dict(costs)
        if wrong := [value for value in found if value not in allowed]:
            raise SettingError("costs", wrong[0], f"a value of {name}, {extent}")
    else:
        if len(costs) != len(allowed):
            each = f"one for each {name}, {extent}; or name some, as in {{{allowed[-1]}: 1.0}}"
            raise SettingError("costs", list(costs), each)
        found = dict(zip(allowed, costs, strict=True))
    ordered = sorted(found, key=lambda value: found[value])
    return ordered, tuple(float(found[value]) for value in ordered)


def _under(coordinate: Coordinate, when: When, others: Mapping[str, Coordinate]) -> Coordinate:
    """A coordinate under a condition on another one."""
    if not when:
        return coordinate
    places = {name: tuple(round(others[name].encode(value)) for value in values) for name, values in when.items()}
    return coordinate._replace(parameter=replace(coordinate.parameter, when=tuple(places.items())))


def _coordinate(name: str, distribution: BaseDistribution) -> Coordinate:
    """The coordinate of a parameter."""

    def internal(value: Any) -> float:
        found = distribution.to_internal_repr(value)
        if not distribution._contains(found):
            raise ValueError(f"{value!r} is not in {distribution}")
        return float(found)

    if isinstance(distribution, CategoricalDistribution):
        by_index = Parameter(name, choices=tuple(range(len(distribution.choices))))  # their texts may be alike
        return Coordinate(by_index, internal, lambda x: distribution.to_external_repr(round(x)))
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise SettingError(name, type(distribution).__name__, "a float, an int or a categorical distribution")
    integer = isinstance(distribution, IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    typed = round if integer else float
    if step is None or (integer and step == 1):
        return Coordinate(Parameter(name, low, high, distribution.log, integer), internal, typed)
    return Coordinate(
        Parameter(name, 0, round((high - low) / step), integer=True),
        lambda value: float(round((internal(value) - low) / step)),
        lambda x: typed(min(low + round(x) * step, high)),
    )
