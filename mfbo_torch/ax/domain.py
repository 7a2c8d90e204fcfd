"""Between an Ax search space and a :class:`~mfbo_torch.space.Space`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.parameter import Parameter as AxParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace

from mfbo_torch.history import Query
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.fidelities import Fidelities
from mfbo_torch.space.outcome_constraints import Limit
from mfbo_torch.utils.errors import SettingError

PARTS = ("lower", "upper", "log", "integer", "choices", "when")
"""What Ax knows of a parameter."""


class Domain:
    """What an Ax search space with a fidelity parameter means to a strategy, and back.

    The fidelity is an integer range parameter from 0, the cheapest, to ``M - 1``, its target value (a
    fixed parameter where ``M`` is 1); or an ordered choice among its values, the target last. Range
    parameters stay as they are, an ordered choice becomes the rank of its value, another one a parameter with choices,
    and a fixed parameter is not searched. What depends on a choice's value has a condition. Parameter constraints
    become those of the space.

    Args:
        search_space: Of the Ax experiment.
        costs: ``M`` increasing positive costs.
        continues: Whether a trial goes on from the one at the highest fidelity below at its design, and costs what is
            missing.
        limits: Bounds on metrics beside the objective's.

    Raises:
        SettingError: There is no fidelity parameter or several, it is of another kind or has another
            target, the costs are missing or others, or a parameter or constraint is of a kind
            that strategies do not know.
    """

    def __init__(
        self,
        search_space: SearchSpace,
        costs: Sequence[float] | None,
        continues: bool = False,
        limits: Sequence[Limit] = (),
    ) -> None:
        self.search_space = search_space
        parameters = list(search_space.parameters.values())
        self.fidelity = _fidelity(parameters, costs)
        rest = [p for p in parameters if p is not self.fidelity]
        self.fixed = {p.name: p.value for p in rest if isinstance(p, FixedParameter)}
        self.searched = [p for p in rest if not isinstance(p, FixedParameter)]
        conditions = _conditions(self.searched)
        bounds = tuple(_parameter(p, conditions) for p in self.searched)
        constraints = tuple(map(self._constraint, search_space.parameter_constraints))
        self.space = Space(
            bounds,
            tuple(costs or ()),
            constraints=constraints,
            fidelities=_values(self.fidelity),
            continues=continues,
            limits=tuple(limits),
        )

    def query(self, parameters: Mapping[str, Any], meta: Mapping[str, Any]) -> Query | None:
        """The query of an arm, ``None`` where it lies outside the search space or breaks a constraint."""
        if not self.search_space.check_membership(parameters):
            return None
        x, resting = [], self.space.resting
        for parameter, bounds, rest in zip(self.searched, self.space.parameters, resting, strict=True):
            if parameter.name not in parameters:
                x.append(rest)
                continue
            value = parameters[parameter.name]
            if isinstance(parameter, ChoiceParameter):
                value = parameter.values.index(value)
            x.append(float(min(max(value, bounds.lower), bounds.upper)))  # Ax allows a little more
        level, named = parameters[self.fidelity.name], self.space.fidelities
        return Query(tuple(x), int(level) if named is None else named.level(level), dict(meta))

    def parameters(self, query: Query) -> dict[str, Any]:
        """The Ax parameters of a query."""
        values, there = dict(self.fixed), self.space.named(query.x)
        for parameter, value in zip(self.searched, query.x, strict=True):
            if parameter.name not in there:
                continue
            chosen = parameter.values[round(value)] if isinstance(parameter, ChoiceParameter) else value
            values[parameter.name] = parameter.cast(chosen)
        return {**values, **(self.space.fidelity_value(query.fidelity) or {self.fidelity.name: query.fidelity})}

    def check(self, own: Space) -> None:
        """Check that a strategy's own space is this one in all that Ax knows; it may know more.

        Raises:
            SettingError: Other parameters (names, bounds, log, integer), costs, constraints or limits, or measured
                costs.
        """
        given = _known(own)
        for name, wanted in _known(self.space).items():
            if given.get(name) != wanted:
                raise SettingError(f"strategy.space.{name}", given.get(name), f"{wanted!r}, as in the Ax experiment")

    def _constraint(self, constraint: ParameterConstraint) -> tuple[tuple[float, ...], float]:
        """A parameter constraint as weights of the space's parameters and a bound."""
        named = {name: float(weight) for name, weight in constraint.constraint_dict.items()}
        text, bound = str(constraint), float(constraint.bound)
        if constraint.is_equality:
            raise SettingError("parameter_constraints", text, "inequalities")
        if named.pop(self.fidelity.name, 0.0):
            raise SettingError("parameter_constraints", text, f"on other parameters than {self.fidelity.name!r}")
        weights = []
        for parameter in self.searched:
            weight = named.get(parameter.name, 0.0)
            if weight and isinstance(parameter, ChoiceParameter):
                first, step = _grid(parameter)
                bound, weight = bound - weight * first, weight * step
            weights.append(weight)
        return tuple(weights), bound


def _known(space: Space) -> dict[str, Any]:
    """What Ax knows of a space, by name: first which parameters there are."""
    known: dict[str, Any] = {"parameters": [p.name for p in space.parameters]}
    for p in space.parameters:
        known |= {f"{p.name}.{part}": getattr(p, part) for part in PARTS}
    known |= {"fidelities": space.fidelities, "continues": space.continues, "limits": space.limits}
    return {**known, "costs": space.costs, "measured": space.measured, "constraints": space.constraints}


def _fidelity(parameters: Sequence[AxParameter], costs: Sequence[float] | None) -> AxParameter:
    """The fidelity parameter among some, checked."""
    found = [p for p in parameters if p.is_fidelity]
    if len(found) != 1:
        names = [p.name for p in found]
        raise SettingError("fidelity parameters", names, "one integer range parameter with is_fidelity=True")
    (fidelity,) = found
    if named := _values(fidelity):
        values = list(named.values)
        if isinstance(costs, str) or not isinstance(costs, Sequence) or len(costs) != len(values):
            raise SettingError("costs", costs, f"{len(values)} numbers, one for each {fidelity.name} of {values}")
        if fidelity.target_value != values[-1]:
            raise SettingError(f"{fidelity.name}.target_value", fidelity.target_value, f"{values[-1]}, the last one")
        return fidelity
    if isinstance(fidelity, FixedParameter):
        lower = upper = fidelity.value
    elif isinstance(fidelity, RangeParameter) and fidelity.parameter_type is ParameterType.INT:
        lower, upper = fidelity.lower, fidelity.upper
    else:
        kind = f"{type(fidelity).__name__} of type {fidelity.parameter_type.name.lower()}"
        raise SettingError(fidelity.name, kind, "a RangeParameter of type int, or an ordered choice")
    if lower != 0:
        raise SettingError(f"{fidelity.name}.lower", lower, "0, the cheapest fidelity")
    if isinstance(costs, str) or not isinstance(costs, Sequence) or len(costs) != upper + 1:
        raise SettingError("costs", costs, f"{upper + 1} numbers, one for each {fidelity.name} from 0 to {upper}")
    if fidelity.target_value != upper:
        raise SettingError(f"{fidelity.name}.target_value", fidelity.target_value, f"{upper}, the last fidelity")
    return fidelity


def _values(fidelity: AxParameter) -> Fidelities | None:
    """The name and the values of a fidelity that has values."""
    if isinstance(fidelity, ChoiceParameter) and fidelity.is_ordered:
        return Fidelities(fidelity.name, tuple(fidelity.values))
    if isinstance(fidelity, FixedParameter) and fidelity.value != 0:
        return Fidelities(fidelity.name, (fidelity.value,))
    return None


def _conditions(parameters: Sequence[AxParameter]) -> dict[str, dict[str, list[Any]]]:
    """For each parameter that depends on choices, their names, and the values with which it is there."""
    found: dict[str, dict[str, list[Any]]] = {}
    for parent in parameters:
        if not parent.is_hierarchical:
            continue
        for value, names in parent.dependents.items():
            for name in names:
                found.setdefault(name, {}).setdefault(parent.name, []).append(value)
    return found


def _parameter(parameter: AxParameter, conditions: Mapping[str, Mapping[str, list[Any]]]) -> Parameter:
    """What a strategy searches for an Ax parameter."""
    when: Any = conditions.get(parameter.name, ())
    if isinstance(parameter, RangeParameter):
        if parameter.logit_scale:
            raise SettingError(f"{parameter.name}.logit_scale", True, "False: scales are linear or logarithmic")
        integer = parameter.parameter_type is ParameterType.INT
        return Parameter(parameter.name, parameter.lower, parameter.upper, parameter.log_scale, integer, when=when)
    if not isinstance(parameter, ChoiceParameter):
        raise SettingError(parameter.name, type(parameter).__name__, "a range, a choice or fixed")
    if parameter.is_task:
        raise SettingError(parameter.name, parameter.values, "no task (is_task=False)")
    if parameter.is_ordered and not parameter.is_hierarchical:
        return Parameter(parameter.name, 0, len(parameter.values) - 1, integer=True, when=when)
    return Parameter(parameter.name, choices=tuple(parameter.values), ordered=parameter.is_ordered, when=when)


def _grid(parameter: ChoiceParameter) -> tuple[float, float]:
    """First value and step of a choice between evenly spaced numbers."""
    values = [float(value) for value in parameter.values]
    step = (values[-1] - values[0]) / (len(values) - 1)
    if any(abs(v - values[0] - i * step) > 1e-9 * abs(values[-1] - values[0]) for i, v in enumerate(values)):
        raise SettingError(f"{parameter.name} in a constraint", parameter.values, "evenly spaced")
    return values[0], step
