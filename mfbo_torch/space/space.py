"""The search space: named parameters and the cost of each fidelity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from mfbo_torch.space.constraints import parse_constraints
from mfbo_torch.space.continuous_fidelity import stretches
from mfbo_torch.space.encoding import Encoding
from mfbo_torch.space.fidelities import Fidelities, Value, checked_costs, checked_zeta, epoch_rungs, named_fidelities
from mfbo_torch.space.objectives import Objective, checked_objectives
from mfbo_torch.space.outcome_constraints import UNLIMITED, Limit, limits_of
from mfbo_torch.space.parameter import LEAST_LOG, Label, Parameter, one_among, plain
from mfbo_torch.space.shorthand import parameters_of
from mfbo_torch.utils import html_table
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import are_numbers

PARAMETERS = 'a list of Parameter, or a mapping, as in {"rate": (0.1, 1.0), "kernel": ["rbf", "linear"]}'
MOST_LABELS = 1000
"""Largest number of choices without order: models have a column for each."""


@dataclass(frozen=True)
class Space:
    """The designs ``x`` of ``d`` parameters, and ``M`` fidelities with their costs.

    Fidelity ``0`` is the cheapest, ``M - 1`` the target. Models work on the unit cube, users in their own units;
    :meth:`to_unit` and :meth:`from_unit` go between them.

    Args:
        parameters: The ``d`` parameters, or by name as :func:`~mfbo_torch.space.shorthand.parameters_of` has them,
            ``{"x": (0, 1), "kernel": ["rbf", "linear"]}``.
        costs: ``M`` increasing positive costs; the values of ``fidelities`` if not given. Where they are measured these
            are guesses that only set the order and the scale before anything has run.
        measured: Whether a query costs the seconds it took instead of ``costs``.
        constraints: Linear inequalities ``w · x <= b`` in the user's units, each as ``(w, b)`` with one weight a
            parameter, or as a text such as ``"width + 2 depth <= 100"``.
        zeta: Known bounds on ``|f^(M) - f^(m)|``, one a fidelity, decreasing to 0 at the target.
        candidates: The only designs allowed, ``m x d`` in the user's units; the whole box where there are none.
        fidelities: What the fidelities are called, such as ``{"epochs": [3, 9, 27]}``; or the ends of a continuous one,
            ``{"share": {"lower": 0.05, "upper": 1.0}}``. With more than 20 values, two costs are those of its ends, and
            between them they go as a power of it; one that is given by no costs is proportional to it.
        continues: Whether an evaluation goes on from the one at the highest fidelity below at the same design, and
            costs what is missing (:mod:`~mfbo_torch.history.continuation`); ``True`` where there are ``epochs``.
        limits: Bounds on what is measured beside the value, as in ``{"latency": "<= 20"}``.
        objectives: What is optimised where there are several (:class:`~mfbo_torch.space.objectives.Objective`): each is
            measured as an outcome, and the value is that of the first one.
        epochs: How long a training is whose value after each epoch is observed. Its fidelities are ``epochs``, a third,
            a ninth and so on of it down to one, where a training may pause; costs are counted in epochs.

    Raises:
        SettingError: No parameter, two of one name, costs that are not positive and increasing, ``zeta`` that does not
            decrease to 0, a constraint without a weight that counts or with one on a log scale, a choice or a
            condition, a candidate outside the box, a condition that cannot be, or over 1,000 choices without order.
    """

    parameters: Any  # a sequence or a mapping; tuples once they are here, like all that follow
    costs: Sequence[float] = ()
    measured: bool = False
    constraints: tuple[Any, ...] = ()
    zeta: tuple[float, ...] | None = None
    candidates: tuple[tuple[float, ...], ...] = ()
    fidelities: Fidelities | None = field(default=None, kw_only=True)
    continues: bool | None = field(default=None, kw_only=True)  # a bool once it is here
    limits: tuple[Limit, ...] = field(default=(), kw_only=True)
    epochs: int | None = field(default=None, kw_only=True)
    objectives: tuple[Objective, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        given = self.parameters
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise SettingError("parameters", given, PARAMETERS)
        object.__setattr__(self, "parameters", parameters_of(given) if isinstance(given, Mapping) else tuple(given))
        if not all(isinstance(part, Parameter) for part in self.parameters):
            wrong = [part for part in self.parameters if not isinstance(part, Parameter)]
            raise SettingError("parameters", wrong[0], PARAMETERS)
        names = [parameter.name for parameter in self.parameters]
        if self.epochs is not None:
            rungs = epoch_rungs(self.epochs)
            if self.fidelities not in (None, rungs):
                raise SettingError("fidelities", self.fidelities, "left out where epochs are given")
            object.__setattr__(self, "fidelities", rungs)
        object.__setattr__(self, "continues", self.epochs is not None if self.continues is None else self.continues)
        if self.fidelities is not None:
            object.__setattr__(self, "fidelities", named_fidelities(self.fidelities, names, self.costs))
        given = self.costs if self.fidelities is None else self.fidelities.costs_of(self.costs) or self.costs
        object.__setattr__(self, "costs", checked_costs(given))
        if not names or len(set(names)) < len(names):
            raise SettingError("parameters", names, "at least one, each with its own name")
        if (labels := sum(p.columns for p in self.parameters if p.columns > 1)) > MOST_LABELS:
            wanted = f"at most {MOST_LABELS} without order in all; give ordered=True, or a whole number in their place"
            raise SettingError("choices", labels, wanted)
        object.__setattr__(self, "constraints", parse_constraints(self.constraints, self.parameters))
        object.__setattr__(self, "limits", limits_of(self.limits, "limits"))
        object.__setattr__(self, "objectives", checked_objectives(self.objectives))
        if self.objectives and self.epochs is not None:
            several = f"in place of epochs, fidelities={{'epochs': {[*rungs.values]}}} and continues=True take several"
            raise SettingError("objectives", [str(one) for one in self.objectives], f"one with epochs; {several}")
        if self.zeta is not None:
            object.__setattr__(self, "zeta", checked_zeta(self.zeta, len(self.costs)))
        rows = self.candidates.tolist() if hasattr(self.candidates, "tolist") else self.candidates
        for candidate in rows:
            if not self.contains(candidate):
                wanted = f"{len(names)} numbers each, between the bounds, whole where the parameter is"
                raise SettingError("candidates", candidate, wanted)
        object.__setattr__(self, "candidates", tuple(dict.fromkeys(tuple(map(plain, row)) for row in rows)))

    def __repr__(self) -> str:
        names = ", ".join([p.name for p in self.parameters[:8]] + [f"{self.dim - 8} more"] * (self.dim > 8))
        return f"{type(self).__name__}({names}; costs {', '.join(f'{c:g}' for c in self.costs[:8])})"

    def _repr_html_(self) -> str:
        return html_table.fields(repr(self), self.parameters)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` are ``d`` numbers in the user's units, between the bounds and whole where they have to be."""
        if not isinstance(x, (tuple, list)) or len(x) != len(self.parameters):
            return False
        pairs = zip(x, self.parameters, strict=True)
        return all(_finite(v) and p.lower <= v <= p.upper and not (p.integer and v != round(v)) for v, p in pairs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the cached tensors, which need not travel to other processes."""
        return _made, (type(self), {field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def box(cls, bounds: Tensor | Sequence[Sequence[float]], costs: Sequence[float]) -> Space:
        """Continuous parameters ``x1 ... xd`` between ``2 x d`` bounds (rows lower, upper)."""
        if len(bounds) != 2:
            raise SettingError("bounds", bounds, "two rows, the lower and the upper bounds")
        lower, upper = torch.as_tensor(bounds, dtype=torch.double).tolist()
        pairs = zip(lower, upper, strict=True)
        return cls(tuple(Parameter(f"x{i}", lo, hi) for i, (lo, hi) in enumerate(pairs, 1)), tuple(costs))

    @classmethod
    def finite(cls, candidates: Tensor | Sequence[Sequence[float]], costs: Sequence[float]) -> Space:
        """Some ``m x d`` designs and no others; their parameters ``x1 ... xd`` span what they do. A ``SettingError``
        for no candidate, candidates that are no rows of finite numbers, or of different lengths, or a column that is
        constant."""
        if not all(map(are_numbers, candidates)):
            raise SettingError("candidates", list(candidates)[:3], "rows of finite numbers, as in [[0.1, 3], [0.2, 5]]")
        rows = [tuple(map(float, row)) for row in candidates]
        if not rows or not rows[0] or len(set(map(len, rows))) > 1:
            raise SettingError("candidates", sorted(set(map(len, rows))), "at least one row, all of one length")
        if any(len({*column}) == 1 for column in zip(*rows, strict=True)):
            raise SettingError("candidates", rows[:3], "columns of at least two values: leave constant ones out")
        box = cls.box([list(map(end, zip(*rows, strict=True))) for end in (min, max)], costs)
        return cls(box.parameters, box.costs, candidates=tuple(rows))

    @property
    def dim(self) -> int:
        return len(self.parameters)

    @cached_property
    def outcomes(self) -> tuple[Limit, ...]:
        """The limits of all that is measured by its name, objectives without any included."""
        limited = {limit.name for limit in self.limits}
        free = [Limit(one.name, UNLIMITED) for one in self.objectives if one.name not in limited]
        return (*self.limits, *free)

    @cached_property
    def mixed(self) -> bool:
        """Whether there are choices or conditions."""
        return any(p.choices or p.when for p in self.parameters)

    @cached_property
    def _encoding(self) -> Encoding | None:
        return Encoding(self.parameters) if self.mixed else None

    @cached_property
    def unit_dim(self) -> int:
        """Number ``D`` of columns of the unit cube; ``d``, and more where there are choices without order."""
        return sum(p.columns for p in self.parameters)

    @property
    def groups(self) -> tuple[int, ...] | None:
        """For each column of the unit cube its parameter, which has one lengthscale; ``None`` where that is plain."""
        return None if self.unit_dim == self.dim or self._encoding is None else self._encoding.groups

    @property
    def num_fidelities(self) -> int:
        return len(self.costs)

    @property
    def target(self) -> int:
        return len(self.costs) - 1

    @cached_property
    def bounds(self) -> Tensor:
        """``2 x d`` bounds in the user's units."""
        rows = [[p.lower for p in self.parameters], [p.upper for p in self.parameters]]
        return torch.tensor(rows, dtype=torch.double)

    @cached_property
    def _allowed_designs(self) -> Tensor:
        return torch.tensor(self.candidates, dtype=torch.double)

    @cached_property
    def unit_candidates(self) -> Tensor:
        """The candidates in the unit cube, ``m x D``; ``0 x D`` where all of the box is allowed."""
        return self.to_unit(self._allowed_designs.reshape(-1, self.dim))

    @cached_property
    def _log(self) -> Tensor:
        return torch.tensor([p.log for p in self.parameters])

    @cached_property
    def _integer(self) -> Tensor:
        return torch.tensor([p.integer for p in self.parameters])

    @cached_property
    def _search_bounds(self) -> Tensor:
        return torch.where(self._log, self.bounds.clamp_min(LEAST_LOG).log(), self.bounds)

    def to_unit(self, X: Tensor) -> Tensor:
        """Map ``... x d`` points from the user's units to the unit cube, ``... x D``; others are a ``SettingError``."""
        if X.shape[-1:] != (self.dim,):
            raise SettingError("X", tuple(X.shape), f"n x {self.dim}, a column for each parameter")
        return self._shares(X) if self._encoding is None else self._encoding.columns(self._shares(self._filled(X)))

    def _shares(self, X: Tensor) -> Tensor:
        lower, upper = self._search_bounds
        searched = torch.where(self._log, X.clamp_min(LEAST_LOG).log(), X)
        return (searched - lower) / (upper - lower)

    def _filled(self, X: Tensor) -> Tensor:
        """Designs with what is not there at rest."""
        return X if self._encoding is None else self._encoding.filled(X, self._resting)

    @property
    def resting(self) -> tuple[float, ...]:
        """The value of each parameter in a design without it."""
        return tuple(self._resting.tolist())

    @cached_property
    def _resting(self) -> Tensor:
        return self.bounds[0] if self._encoding is None else self.along(self._encoding.resting)

    def from_unit(self, U: Tensor) -> Tensor:
        """Map ``... x D`` points of the unit cube to allowed values (the nearest candidates) in the user's units."""
        if not self.candidates:
            return self.in_box(U)
        points = U.reshape(-1, self.unit_dim)
        distances = torch.cdist(points, self.unit_candidates, compute_mode="donot_use_mm_for_euclid_dist")
        return self._allowed_designs[distances.argmin(dim=-1)].reshape(*U.shape[:-1], self.dim)

    def in_box(self, U: Tensor) -> Tensor:
        """Map ``... x D`` points of the unit cube to values of the box in the user's units, candidates or not."""
        return self.along(U) if self._encoding is None else self._filled(self.along(self._encoding.shares(U)))

    def along(self, V: Tensor) -> Tensor:
        """The values at ``... x d`` shares of the ranges, each parameter for itself."""
        lower, upper = self._search_bounds
        searched = lower + (upper - lower) * V
        X = torch.where(self._log, searched.exp(), searched)
        X = torch.where(self._integer, X.round(), X)
        return torch.maximum(torch.minimum(X, self.bounds[1]), self.bounds[0])

    def snap(self, U: Tensor) -> Tensor:
        """Move unit-cube points to the nearest ones that are allowed (whole numbers, choices, candidates)."""
        if self.candidates:
            return self.to_unit(self.from_unit(U))
        if self._encoding is not None:
            X = self.from_unit(U)
            moved = self._encoding.fixed_columns(X) | self._integer[list(self._encoding.groups)]
            return torch.where(moved, self.to_unit(X), U)
        if not self._integer.any():
            return U
        return torch.where(self._integer, self.to_unit(self.from_unit(U)), U)

    def designs(self, V: Tensor) -> Tensor:
        """The ``n x D`` points of the unit cube that stand for ``n x d`` points of a sequence that fills ``[0, 1]^d``,
        every choice equally often."""
        return V if self._encoding is None else self.snap(self._encoding.columns(self._encoding.balanced(V)))

    def fixed_columns(self, U: Tensor) -> Tensor:
        """The columns of ``n x D`` points of the unit cube that a local search must not change, as ``n x D`` flags."""
        if self._encoding is None:
            return torch.zeros_like(U, dtype=torch.bool)
        return self._encoding.fixed_columns(self.in_box(U))

    def choice_neighbours(self, U: Tensor) -> Tensor:
        """``n x c x D`` points of the unit cube with one choice changed, of ``n x D``; ``c`` is 0 without choices."""
        if self._encoding is None:
            return U.new_zeros(len(U), 0, self.unit_dim)
        return self.snap(self._encoding.columns(self._encoding.choice_neighbours(self._encoding.shares(U))))

    def allows(self, U: Tensor) -> Tensor:
        """Whether ``... x d`` points of the unit cube, moved as :meth:`snap` does, meet the constraints."""
        if not self.constraints:
            return torch.ones(U.shape[:-1], dtype=torch.bool, device=U.device)
        weights, bounds = self._unit_constraints
        lower, upper = self.bounds
        shares = (self.from_unit(U.to("cpu", torch.double)) - lower) / (upper - lower)
        return (shares @ weights.mT <= bounds + 1e-9).all(dim=-1).to(U.device)

    @cached_property
    def _unit_constraints(self) -> tuple[Tensor, Tensor]:
        """Weights ``c x d`` and bounds ``c`` of the constraints on shares of the ranges, the largest weight 1."""
        weights, bounds = (torch.tensor(part, dtype=torch.double) for part in zip(*self.constraints, strict=True))
        lower, upper = self.bounds
        scaled = weights * (upper - lower)
        largest = scaled.abs().amax(-1)
        return scaled / largest[:, None], (bounds - weights @ lower) / largest

    @property
    def inequalities(self) -> list[tuple[Tensor, Tensor, float]] | None:
        """The constraints on the unit cube as BoTorch's optimisers take them, ``(indices, coefficients, rhs)`` for
        ``Σ_i u[indices[i]] coefficients[i] >= rhs``; ``None`` where there are none."""
        found = []
        for w, bound in zip(*self._unit_constraints, strict=True) if self.constraints else ():
            used = w.nonzero().view(-1)
            columns = used if self._encoding is None else torch.tensor(self._encoding.starts)[used]
            found.append((columns, -w[used], -bound.item()))
        return found or None

    def fidelity_name(self, m: int) -> str:
        """The name of a fidelity in pictures and reports."""
        if self.fidelities is not None:
            return self.fidelities.label(m)
        return "target" if m == self.target else f"fidelity {m}"

    @cached_property
    def stretches(self) -> tuple[range, ...]:
        """The fidelities as pictures and reports show them, see
        :func:`~mfbo_torch.space.continuous_fidelity.stretches`."""
        return stretches(self.num_fidelities)

    def stretch_name(self, stretch: range) -> str:
        """The name of a stretch of fidelities in pictures and reports."""
        if len(stretch) == 1:
            return self.fidelity_name(stretch[0])
        if self.fidelities is None:
            return f"fidelities {stretch[0]} to {stretch[-1]}"
        first, last = (self.fidelities.values[m] for m in (stretch[0], stretch[-1]))
        parts = [value if isinstance(value, str) else f"{value:.3g}" for value in (first, last)]
        return f"{self.fidelities.name} = {' to '.join(parts)}"

    def fidelity_value(self, m: int) -> dict[str, Value]:
        """A fidelity by the name that it was given, such as ``{"epochs": 9}``; nothing where it has none."""
        return {} if self.fidelities is None else {self.fidelities.name: self.fidelities.values[m]}

    def arguments(self, x: Sequence[float], m: int) -> dict[str, Any]:
        """A query as an objective takes it by keywords: its parameters and ``epochs=9``, or else ``fidelity=1``."""
        return {**self.named(x), **(self.fidelity_value(m) or {"fidelity": m})}

    def named(self, x: Sequence[float]) -> dict[str, Any]:
        """A point as ``{name: value}``: integers as ``int``, choices by their labels, what is not there left out."""
        pairs = zip(self.parameters, x, strict=True)
        there = [True] * self.dim
        if self._encoding is not None:
            there = self._encoding.conditions.active(torch.tensor([*x], dtype=torch.double, device="cpu")).tolist()
        return {p.name: p.decode(value) for (p, value), active in zip(pairs, there, strict=True) if active}

    def point(self, named: Mapping[str, Label], setting: str = "parameters") -> tuple[float, ...]:
        """The point of ``{name: value}``, as :meth:`named` gives it; values of parameters that are not there are passed
        over. A ``SettingError`` for an unknown name, a value that is not allowed, or a missing parameter; ``setting``
        is what the user calls it."""
        names = [p.name for p in self.parameters]
        if not isinstance(named, Mapping):
            raise SettingError(setting, named, f"a mapping of {', '.join(names)} to their values")
        if unknown := [name for name in named if name not in names]:
            raise SettingError(setting, unknown[0], one_among(unknown[0], names))
        given = [p.encode(named[p.name], f"{setting}.{p.name}") if p.name in named else None for p in self.parameters]
        X = torch.tensor([r if x is None else x for x, r in zip(given, self.resting, strict=True)], dtype=torch.double)
        active = [True] * self.dim if self._encoding is None else self._encoding.conditions.active(X).tolist()
        if missing := [name for name, x, there in zip(names, given, active, strict=True) if there and x is None]:
            raise SettingError(setting, dict(named), f"given with {', '.join(missing)}")
        found = torch.tensor([x or 0.0 for x in given], dtype=torch.double)
        return tuple(self._filled(found).tolist())


def _made(kind: type[Space], settings: dict[str, Any]) -> Space:
    return kind(**settings)


def _finite(value: Any) -> bool:
    """Whether this is a finite number, also one of NumPy's."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
