"""Between a search space of Optuna and a :class:`~mfbo_torch.space.Space`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from mfbo_torch.history import Query
from mfbo_torch.space import Parameter, Space
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, several

RATIO, LEVELS = 3, 4
"""Where no costs are given: each level is so many times the one below, and there are so many at most."""

Costs = Sequence[float] | Mapping[int, float] | None


class Domain:
    """What the parameters of a study's trials mean to a strategy, and back.

    Ranges stay as they are, those with a step become the rank of a value, categories are choices. The fidelity is left
    out: its values, in the order of their costs, are the fidelities ``0 ... M - 1``.

    Args:
        distributions: Of the parameters, none of a single value.
        fidelity: The name of the fidelity among them; ``None``: there is only the target.
        costs: As in :class:`~mfbo_torch.optuna.Sampler`.

    Raises:
        SettingError: There is no such parameter, it takes no integers, or the costs do not fit it.
    """

    def __init__(
        self, distributions: Mapping[str, BaseDistribution], fidelity: str | None = None, costs: Costs = None
    ) -> None:
        self.fidelity, self._all = fidelity, dict(distributions)
        self.levels: list[int | None] = [None]
        prices: tuple[float, ...] = (1.0,)
        if fidelity is not None:
            self.levels, prices = levels(fidelity, distributions, costs)
        self.distributions = {name: distributions[name] for name in distributions if name != fidelity}
        self.space = Space(tuple(_parameter(*item) for item in self.distributions.items()), prices)

    def query(self, parameters: Mapping[str, Any], meta: Mapping[str, Any]) -> Query | None:
        """The query of a trial with these parameters; ``None`` where one is missing, or has a value not searched."""
        x = []
        for name, distribution in self.distributions.items():
            if name not in parameters or not contains(distribution, parameters[name]):
                return None
            x.append(_number(distribution, parameters[name]))
        level = None if self.fidelity is None else parameters.get(self.fidelity)
        if level not in self.levels:
            return None
        found = Query(tuple(x), self.levels.index(level), dict(meta))
        return found if self.space.contains(found.x) else None

    @property
    def names(self) -> set[str]:
        """Of every parameter, the fidelity included."""
        return {*self.distributions} | ({self.fidelity} if self.fidelity is not None else set())

    def internal(self, query: Query) -> dict[str, float]:
        """The parameters of a query's trial as Optuna stores them."""
        return {name: self._all[name].to_internal_repr(value) for name, value in self.parameters(query).items()}

    def external(self, stored: Mapping[str, float]) -> dict[str, Any]:
        """The parameters among those that were stored."""
        return {name: self._all[name].to_external_repr(x) for name, x in stored.items() if name in self._all}

    def parameters(self, query: Query) -> dict[str, Any]:
        """The parameters of a query's trial."""
        pairs = zip(self.distributions.items(), query.x, strict=True)
        found = {name: _value(distribution, x) for (name, distribution), x in pairs}
        return found if self.fidelity is None else {**found, self.fidelity: self.levels[query.fidelity]}


def checked(costs: Any) -> Costs:
    """Costs as far as they can be checked before the values of the fidelity are known.

    Raises:
        SettingError: They are neither a mapping nor a sequence of positive numbers.
    """
    if costs is None:
        return None
    prices = costs.values() if isinstance(costs, Mapping) else costs
    several("costs", prices, partial(number, above=0), "a mapping from values of the fidelity to positive numbers")
    return dict(costs) if isinstance(costs, Mapping) else list(costs)


def levels(
    name: str, distributions: Mapping[str, BaseDistribution], costs: Costs
) -> tuple[list[int | None], tuple[float, ...]]:
    """The values that a fidelity takes, the cheapest first, and what they cost.

    Raises:
        SettingError: It is none of the parameters, takes no integers, or the costs do not fit it.
    """
    distribution = _integer(name, distributions)
    allowed = range(distribution.low, distribution.high + 1, distribution.step)
    if costs is None:
        if distribution.low < 1:
            raise SettingError("costs", None, f"given, as {name} = {distribution.low} cannot be what it costs")
        wanted = [distribution.high / RATIO**k for k in range(LEVELS)]
        some = {allowed.start + allowed.step * round((w - allowed.start) / allowed.step) for w in wanted}
        found = {value: float(value) for value in some if value in allowed}
    elif isinstance(costs, Mapping):
        found = dict(costs)
        if wrong := [value for value in found if value not in allowed]:
            raise SettingError("costs", wrong[0], f"a value of {name}, {_range(allowed)}")
    else:
        if len(costs) != len(allowed):
            each = f"one for each {name}, {_range(allowed)}; or name some, as in {{{allowed[-1]}: 1.0}}"
            raise SettingError("costs", list(costs), each)
        found = dict(zip(allowed, costs, strict=True))
    ordered = sorted(found, key=lambda value: found[value])
    return [*ordered], tuple(float(found[value]) for value in ordered)


def contains(distribution: BaseDistribution, value: Any) -> bool:
    """Whether a distribution has a value."""
    try:
        return bool(distribution._contains(distribution.to_internal_repr(value)))
    except ValueError:  # no such category
        return False


def _range(allowed: range) -> str:
    step = f" in steps of {allowed.step}" if allowed.step > 1 else ""
    return f"{allowed[0]} to {allowed[-1]}{step}"


def _integer(name: str, distributions: Mapping[str, BaseDistribution]) -> IntDistribution:
    """The distribution of the fidelity, checked."""
    found = distributions.get(name)
    if not isinstance(found, IntDistribution):
        names = [other for other, distribution in distributions.items() if isinstance(distribution, IntDistribution)]
        known = " or ".join(map(repr, names)) or "none is there"
        raise SettingError("fidelity", name, f"a parameter of every trial, by suggest_int and free to vary ({known})")
    return found


def _parameter(name: str, distribution: BaseDistribution) -> Parameter:
    """What a strategy searches for a parameter."""
    if isinstance(distribution, CategoricalDistribution):
        return Parameter(name, choices=tuple(range(len(distribution.choices))))  # by number: their texts may be alike
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    if _ranked(distribution):
        steps = round((distribution.high - distribution.low) / distribution.step)
        return Parameter(name, 0, steps, integer=True)
    integer = isinstance(distribution, IntDistribution)
    return Parameter(name, distribution.low, distribution.high, distribution.log, integer)


def _ranked(distribution: FloatDistribution | IntDistribution) -> bool:
    """Whether its values are on a grid other than that of the whole numbers."""
    return distribution.step is not None and (distribution.step != 1 or isinstance(distribution, FloatDistribution))


def _number(distribution: BaseDistribution, value: Any) -> float:
    """The number that a strategy has for a value."""
    if isinstance(distribution, CategoricalDistribution):
        return float(distribution.to_internal_repr(value))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return float(round((value - distribution.low) / distribution.step) if _ranked(distribution) else value)


def _value(distribution: BaseDistribution, x: float) -> Any:
    """The value that a strategy's number stands for, of the type that Optuna expects."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.to_external_repr(round(x))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    value = min(distribution.low + round(x) * distribution.step, distribution.high) if _ranked(distribution) else x
    return round(value) if isinstance(distribution, IntDistribution) else float(value)
