"""Between an Ax search space and a :class:`~mfbo_torch.space.Space`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.parameter import Parameter as AxParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace

from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.codec import Codec, Coordinate
from mfbo_torch.space.fidelities import Fidelities
from mfbo_torch.space.objectives import Objective
from mfbo_torch.space.outcome_constraints import Limit
from mfbo_torch.utils.errors import SettingError

SHARED = ("fidelities", "continues", "limits", "costs", "measured", "constraints")
"""The settings of a space that Ax has too."""
PARTS = ("lower", "upper", "log", "integer", "choices", "when")
"""Those of a parameter."""


class AxCodec(Codec):
    """Arms of an Ax search space with a fidelity parameter as designs of a space.

    The fidelity is an integer range parameter from 0, the cheapest, to ``M - 1``, its target value (a fixed parameter
    where ``M`` is 1); or an ordered choice among its values, the target last. Range parameters stay as they are, an
    ordered choice becomes the rank of its value, another one a parameter with choices, and a fixed parameter is not
    searched. A parameter that depends on the value of a choice has a condition. Parameter constraints become those of
    the space. ``costs``, ``continues``, ``limits`` and ``objectives`` are as in :class:`~mfbo_torch.space.Space`.
    """

    fidelity: str

    def __init__(
        self,
        search_space: SearchSpace,
        costs: Sequence[float] | None,
        continues: bool = False,
        limits: Sequence[Limit] = (),
        objectives: Sequence[Objective] = (),
    ) -> None:
        self.search_space = search_space
        parameters = list(search_space.parameters.values())
        found = [p for p in parameters if p.is_fidelity]
        if len(found) != 1:
            names = [p.name for p in found]
            raise SettingError("fidelity parameters", names, "one integer range parameter with is_fidelity=True")
        (fidelity,) = found
        levels = _levels(fidelity, costs)
        rest = [p for p in parameters if p is not fidelity]
        searched = [p for p in rest if not isinstance(p, FixedParameter)]
        conditions = _conditions(searched)
        numbered = isinstance(fidelity, RangeParameter) or levels == (0,)
        super().__init__(
            [_coordinate(p, conditions.get(p.name, ())) for p in searched],
            fidelity.name,
            levels,
            {p.name: p.value for p in rest if isinstance(p, FixedParameter)},
            costs=costs,
            constraints=tuple(_constraint(c, searched, fidelity.name) for c in search_space.parameter_constraints),
            fidelities=None if numbered else Fidelities(fidelity.name, levels),
            continues=continues,
            limits=tuple(limits),
        )
        self.space = replace(self.space, objectives=tuple(objectives))

    def encode(self, parameters: Mapping[str, Any]) -> tuple[tuple[float, ...], int] | None:
        """The design and the fidelity of an arm, ``None`` where it is outside the search space."""
        return super().encode(parameters) if self.search_space.check_membership(parameters) else None

    def check(self, own: Space) -> None:
        """Check that a strategy's own space agrees with this one in every setting that Ax has too."""
        theirs = _known(own)
        for name, wanted in _known(self.space).items():
            if theirs.get(name) != wanted:
                raise SettingError(f"strategy.space.{name}", theirs.get(name), f"{wanted!r}, as in the Ax experiment")


def _known(space: Space) -> dict[str, Any]:
    """The settings of a space that Ax has too, by name: first the names of the parameters."""
    each = {f"{p.name}.{part}": getattr(p, part) for p in space.parameters for part in PARTS}
    return {"parameters": [p.name for p in space.parameters], **each, **{name: getattr(space, name) for name in SHARED}}


def _levels(fidelity: AxParameter, costs: Any) -> tuple[Any, ...]:
    """The values of the fidelity, the target last, one for each cost."""
    name = fidelity.name
    if isinstance(fidelity, ChoiceParameter) and fidelity.is_ordered:
        values = tuple(fidelity.values)
    elif isinstance(fidelity, FixedParameter):
        values = (fidelity.value,)
    elif isinstance(fidelity, RangeParameter) and fidelity.parameter_type is ParameterType.INT:
        if fidelity.lower != 0:
            raise SettingError(f"{name}.lower", fidelity.lower, "0, the cheapest fidelity")
        values = tuple(range(fidelity.upper + 1))
    else:
        kind = f"{type(fidelity).__name__} of type {fidelity.parameter_type.name.lower()}"
        raise SettingError(name, kind, "a RangeParameter of type int, or an ordered choice")
    if isinstance(costs, str) or not isinstance(costs, Sequence) or len(costs) != len(values):
        wanted = f"{len(values)} numbers, one for each {name} from {values[0]} to {values[-1]}"
        raise SettingError("costs", costs, wanted)
    if fidelity.target_value != values[-1]:
        raise SettingError(f"{name}.target_value", fidelity.target_value, f"{values[-1]}, the last fidelity")
    return values


def _conditions(parameters: Sequence[AxParameter]) -> dict[str, dict[str, list[Any]]]:
    """For each parameter that depends on choices, the names of these and the values that make it active."""
    found: dict[str, dict[str, list[Any]]] = {}
    for parent in parameters:
        if not parent.is_hierarchical:
            continue
        for value, names in parent.dependents.items():
            for name in names:
                found.setdefault(name, {}).setdefault(parent.name, []).append(value)
    return found


def _coordinate(parameter: AxParameter, when: Any) -> Coordinate:
    """The coordinate of an Ax parameter."""
    if isinstance(parameter, RangeParameter):
        if parameter.logit_scale:
            raise SettingError(f"{parameter.name}.logit_scale", True, "False: scales are linear or logarithmic")
        integer = parameter.parameter_type is ParameterType.INT
        own = Parameter(parameter.name, parameter.lower, parameter.upper, parameter.log_scale, integer, when=when)
        # Ax allows a value a little outside the bounds
        return Coordinate(own, lambda value: float(min(max(value, own.lower), own.upper)), parameter.cast)
    if not isinstance(parameter, ChoiceParameter):
        raise SettingError(parameter.name, type(parameter).__name__, "a range, a choice or fixed")
    if parameter.is_task:
        raise SettingError(parameter.name, parameter.values, "no task (is_task=False)")
    if parameter.is_ordered and not parameter.is_hierarchical:  # a rank may be in a constraint
        own = Parameter(parameter.name, 0, len(parameter.values) - 1, integer=True, when=when)
    else:
        own = Parameter(parameter.name, choices=tuple(parameter.values), ordered=parameter.is_ordered, when=when)
    return Coordinate.among(own, parameter.values)


def _constraint(
    constraint: ParameterConstraint, searched: Sequence[AxParameter], fidelity: str
) -> tuple[tuple[float, ...], float]:
    """A parameter constraint as weights of the space's parameters and a bound."""
    named = {name: float(weight) for name, weight in constraint.constraint_dict.items()}
    text, bound = str(constraint), float(constraint.bound)
    if constraint.is_equality:
        raise SettingError("parameter_constraints", text, "inequalities")
    if named.pop(fidelity, 0.0):
        raise SettingError("parameter_constraints", text, f"on other parameters than {fidelity!r}")
    weights = []
    for parameter in searched:
        weight = named.get(parameter.name, 0.0)
        if weight and isinstance(parameter, ChoiceParameter):
            first, step = _grid(parameter)
            bound, weight = bound - weight * first, weight * step
        weights.append(weight)
    return tuple(weights), bound


def _grid(parameter: ChoiceParameter) -> tuple[float, float]:
    """First value and step of a choice between evenly spaced numbers."""
    values = [float(value) for value in parameter.values]
    step = (values[-1] - values[0]) / (len(values) - 1)
    if any(abs(v - values[0] - i * step) > 1e-9 * abs(values[-1] - values[0]) for i, v in enumerate(values)):
        raise SettingError(f"{parameter.name} in a constraint", parameter.values, "evenly spaced")
    return values[0], step
