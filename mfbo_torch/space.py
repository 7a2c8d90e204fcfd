"""What can be queried: named parameters and the cost of each fidelity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from numbers import Real
from operator import gt, lt
from typing import Any

import torch
from torch import Tensor

from mfbo_torch.checks import number, several
from mfbo_torch.errors import SettingError


@dataclass(frozen=True)
class Parameter:
    """One input of the objective, in the user's own units.

    Args:
        name: Its name.
        lower: Smallest value.
        upper: Largest value.
        log: Whether to search its logarithm.
        integer: Whether only whole numbers are allowed.

    Raises:
        SettingError: ``lower`` is not below ``upper``, a bound is not finite, or a
            logarithm is asked for with ``lower <= 0``.
    """

    name: str
    lower: float
    upper: float
    log: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            value = getattr(self, bound)
            number(f"{self.name}.{bound}", value)
            object.__setattr__(self, bound, _plain(value))
        if self.lower >= self.upper:
            raise SettingError(f"{self.name}.lower", self.lower, f"below {self.name}.upper = {self.upper!r}")
        if self.log and self.lower <= 0:
            raise SettingError(f"{self.name}.lower", self.lower, "above 0 on a log scale")
        if self.integer and (self.lower != round(self.lower) or self.upper != round(self.upper)):
            raise SettingError(f"{self.name}.bounds", (self.lower, self.upper), "whole numbers where integer is true")


@dataclass(frozen=True)
class Space:
    """The designs ``x`` of ``d`` parameters, and ``M`` fidelities with their costs.

    Fidelity ``0`` is the cheapest, ``M - 1`` the target. Models work on the unit cube,
    users in their own units; :meth:`to_unit` and :meth:`from_unit` go between them.

    Args:
        parameters: The ``d`` parameters.
        costs: ``M`` increasing positive costs. Where they are measured these are guesses
            that only set the order and the scale before anything has run.
        measured: Whether a query costs the seconds it took instead of ``costs``.
        constraints: Linear inequalities ``w · x <= b`` in the user's units, each as ``(w, b)`` with one
            weight a parameter.
        zeta: Known bounds on ``|f^(M) - f^(m)|``, one a fidelity, decreasing to 0 at the target.
        candidates: The only designs allowed, ``m x d`` in the user's units; every point of the box
            where there are none.

    Raises:
        SettingError: No parameter, two of one name, no cost, costs that are not positive and
            increasing, a constraint with another number of weights, none that counts, or one
            on a log scale, ``zeta`` that does not decrease to 0, or a candidate that is no point of the box.
    """

    parameters: tuple[Parameter, ...]
    costs: tuple[float, ...]
    measured: bool = False
    constraints: tuple[tuple[tuple[float, ...], float], ...] = ()
    zeta: tuple[float, ...] | None = None
    candidates: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))
        object.__setattr__(self, "costs", checked_costs(self.costs))
        names = [parameter.name for parameter in self.parameters]
        if not names or len(set(names)) < len(names):
            raise SettingError("parameters", names, "at least one, each with its own name")
        object.__setattr__(self, "constraints", tuple((tuple(w), b) for w, b in self.constraints))
        for weights, bound in self.constraints:
            allowed = f"{self.dim} finite weights, one of them not 0, and a finite bound"
            numbers = several("constraints", (*weights, bound), number, allowed, size=self.dim + 1)
            if not any(numbers[:-1]):
                raise SettingError("constraints", (weights, bound), allowed)
            if any(w and p.log for w, p in zip(weights, self.parameters, strict=True)):
                raise SettingError("constraints", (weights, bound), "on parameters that are not on a log scale")
        if self.zeta is not None:
            object.__setattr__(self, "zeta", checked_zeta(self.zeta, len(self.costs)))
        rows = self.candidates.tolist() if hasattr(self.candidates, "tolist") else self.candidates
        for candidate in rows:
            if not self.contains(candidate):
                wanted = f"{len(names)} numbers each, between the bounds, whole where the parameter is"
                raise SettingError("candidates", candidate, wanted)
        object.__setattr__(self, "candidates", tuple(tuple(map(_plain, row)) for row in rows))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` are ``d`` numbers in the user's units, between the bounds and whole where they have to be."""
        return (
            isinstance(x, (tuple, list))
            and len(x) == len(self.parameters)
            and all(
                _finite(value) and p.lower <= value <= p.upper and not (p.integer and value != round(value))
                for value, p in zip(x, self.parameters, strict=True)
            )
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the cached tensors, which need not travel to other processes."""
        return _made, (type(self), {field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def box(cls, bounds: Tensor | Sequence[Sequence[float]], costs: Sequence[float]) -> Space:
        """Continuous parameters ``x1 ... xd`` between ``2 x d`` bounds (rows lower, upper)."""
        lower, upper = torch.as_tensor(bounds, dtype=torch.double).tolist()
        pairs = zip(lower, upper, strict=True)
        return cls(tuple(Parameter(f"x{i}", lo, hi) for i, (lo, hi) in enumerate(pairs, 1)), tuple(costs))

    @classmethod
    def finite(cls, candidates: Tensor | Sequence[Sequence[float]], costs: Sequence[float]) -> Space:
        """Some ``m x d`` designs and no others; their parameters ``x1 ... xd`` span what they do.

        Raises:
            SettingError: No candidate, candidates of different lengths, or a column that is constant.
        """
        rows = [tuple(map(float, row)) for row in candidates]
        if not rows or not rows[0] or len(set(map(len, rows))) > 1:
            raise SettingError("candidates", sorted(set(map(len, rows))), "at least one row, all of one length")
        box = cls.box([list(map(end, zip(*rows, strict=True))) for end in (min, max)], costs)
        return cls(box.parameters, box.costs, candidates=tuple(rows))

    @property
    def dim(self) -> int:
        return len(self.parameters)

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
        """The candidates in the unit cube, ``m x d``; ``0 x d`` where all of the box is allowed."""
        return self.to_unit(self._allowed_designs.reshape(-1, self.dim))

    @cached_property
    def _log(self) -> Tensor:
        return torch.tensor([p.log for p in self.parameters])

    @cached_property
    def _integer(self) -> Tensor:
        return torch.tensor([p.integer for p in self.parameters])

    @cached_property
    def _search_bounds(self) -> Tensor:
        return torch.where(self._log, self.bounds.clamp_min(1e-300).log(), self.bounds)

    def to_unit(self, X: Tensor) -> Tensor:
        """Map ``... x d`` points from the user's units to the unit cube."""
        lower, upper = self._search_bounds
        searched = torch.where(self._log, X.clamp_min(1e-300).log(), X)
        return (searched - lower) / (upper - lower)

    def from_unit(self, U: Tensor) -> Tensor:
        """Map ``... x d`` points of the unit cube to allowed values (the nearest candidates) in the user's units."""
        if not self.candidates:
            return self.in_box(U)
        distances = torch.cdist(
            U.reshape(-1, self.dim), self.unit_candidates, compute_mode="donot_use_mm_for_euclid_dist"
        )
        return self._allowed_designs[distances.argmin(dim=-1)].reshape(U.shape)

    def in_box(self, U: Tensor) -> Tensor:
        """Map ``... x d`` points of the unit cube to values of the box in the user's units, candidates or not."""
        lower, upper = self._search_bounds
        searched = lower + (upper - lower) * U
        X = torch.where(self._log, searched.exp(), searched)
        X = torch.where(self._integer, X.round(), X)
        return torch.maximum(torch.minimum(X, self.bounds[1]), self.bounds[0])

    def snap(self, U: Tensor) -> Tensor:
        """Move unit-cube points to the nearest ones that are allowed (whole numbers, candidates)."""
        if self.candidates:
            return self.to_unit(self.from_unit(U))
        if not self._integer.any():
            return U
        return torch.where(self._integer, self.to_unit(self.from_unit(U)), U)

    def allows(self, U: Tensor) -> Tensor:
        """Whether ``... x d`` points of the unit cube, moved as :meth:`snap` does, meet the constraints."""
        if not self.constraints:
            return torch.ones(U.shape[:-1], dtype=torch.bool, device=U.device)
        X = self.from_unit(U.to("cpu", torch.double))
        weights = torch.tensor([w for w, _ in self.constraints], dtype=torch.double)
        bound = torch.tensor([b for _, b in self.constraints], dtype=torch.double)
        return (X @ weights.mT <= bound + 1e-9).all(dim=-1).to(U.device)

    @property
    def inequalities(self) -> list[tuple[Tensor, Tensor, float]] | None:
        """The constraints on the unit cube as BoTorch's optimisers take them, ``None`` where there are none.

        Each is ``(indices, coefficients, rhs)`` and asks that ``Σ_i u[indices[i]] coefficients[i] >= rhs``.
        """
        found = []
        for weights, bound in self.constraints:
            w = torch.tensor(weights, dtype=torch.double)
            used = w.nonzero().view(-1)
            lower, upper = self.bounds[:, used]
            found.append((used, -w[used] * (upper - lower), (w[used] @ lower).item() - bound))
        return found or None

    def fidelity_name(self, m: int) -> str:
        """What pictures and reports call a fidelity."""
        return "target" if m == self.target else f"fidelity {m}"

    def named(self, x: Sequence[float]) -> dict[str, float | int]:
        """A point in the user's units as ``{name: value}``, integers as ``int``."""
        pairs = zip(self.parameters, x, strict=True)
        return {p.name: round(value) if p.integer else float(value) for p, value in pairs}


def _made(kind: type[Space], settings: dict[str, Any]) -> Space:
    return kind(**settings)


def checked_costs(costs: Sequence[float]) -> tuple[float, ...]:
    """The costs of ``M`` fidelities, positive and increasing.

    Raises:
        SettingError: They are not.
    """
    given = [*costs] if isinstance(costs, Iterable) else costs
    several("costs", given, partial(number, above=0), "one positive number a fidelity")
    several("costs", given, number, "increasing, the target fidelity last", order=lt)
    return tuple(map(_plain, given))


def _finite(value: Any) -> bool:
    """Whether this is a finite number, also one of NumPy's."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _plain(value: Any) -> Any:
    """A number of NumPy's as one of Python's."""
    return value.item() if hasattr(value, "item") else value


def checked_zeta(zeta: Sequence[float], num_fidelities: int) -> tuple[float, ...]:
    """Bounds on the bias of each fidelity as ``M`` floats that decrease to 0.

    Raises:
        SettingError: They are not.
    """
    wanted = f"{num_fidelities} numbers that decrease to 0, the target's"
    given = several("zeta", zeta, number, wanted, size=num_fidelities, order=gt)
    if given[-1] != 0:
        raise SettingError("zeta", zeta, wanted)
    return given
