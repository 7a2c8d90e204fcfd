"""The conditional of a space's queries, for a model on unit cubes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfbo_torch.models.indirect.conditionals import (
    Conditional,
    EmpiricalConditional,
    GaussianConditional,
    PolicyConditional,
    UniformConditional,
)
from mfbo_torch.models.indirect.conditionals.base import Embedding
from mfbo_torch.space.indirect import IndirectSpace, Policy, Samples, Window


def conditional_of(space: IndirectSpace) -> Conditional:
    """The distributions that the queries of a space average over; queries and inputs are scaled to unit cubes, but a
    conditional of the user's own keeps its inputs as they are."""
    feedback = space.feedback
    if isinstance(feedback, Samples):
        return EmpiricalConditional(_scaled(space, feedback.X), _to_unit(space, feedback.A))
    if isinstance(feedback, Window):
        return _window(space, feedback)
    if isinstance(feedback, Policy):
        given = feedback.probabilities
        policy = _Scaled(given, space) if hasattr(given, "predict_proba") else _in_user_units(space, given)
        return PolicyConditional(policy, unit_inputs(space))
    return _InUserUnits(feedback, space)


def unit_inputs(space: IndirectSpace) -> Tensor:
    """The ``n x d`` inputs as :func:`conditional_of` has them."""
    own = not isinstance(space.feedback, (Samples, Window, Policy))
    return space.inputs if own else _scaled(space, space.inputs)


def reach(space: IndirectSpace) -> tuple[Tensor, Tensor]:
    """The lower bounds and the extents of the inputs, one where they do not vary."""
    lower = space.inputs.amin(0)
    span = space.inputs.amax(0) - lower
    return lower, torch.where(span > 0, span, torch.ones_like(span))


def _scaled(space: IndirectSpace, X: Tensor) -> Tensor:
    lower, span = reach(space)
    return (X - lower.to(X)) / span.to(X)


def _to_unit(space: IndirectSpace, A: Tensor) -> Tensor:
    return torch.cat([space.to_unit(A[..., : space.dim]), A[..., space.dim :]], -1)


def _from_unit(space: IndirectSpace, U: Tensor) -> Tensor:
    """``... x p`` queries of the unit cube in the user's units, double, on the CPU."""
    U = U.to("cpu", torch.double)
    return torch.cat([space.in_box(U[..., : space.dim]), U[..., space.dim :]], -1)


def _in_user_units(space: IndirectSpace, function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda U: function(_from_unit(space, U)).to(U)


def _window(space: IndirectSpace, window: Window) -> Conditional:
    _, span = reach(space)
    widths = torch.stack([torch.as_tensor(w, dtype=torch.double).expand(span.shape) for w in window.widths]) / span
    several = len(space.costs) > 1

    def width(U: Tensor) -> Tensor:
        table = widths.to(U)
        return table[U[..., -1].detach().round().long()] if several else table[0].expand(*U.shape[:-1], -1)

    def location(U: Tensor) -> Tensor:
        A = _from_unit(space, U)[..., : space.dim]
        return _scaled(space, A if window.location is None else window.location(A)).to(U)

    kind = GaussianConditional if window.shape == "gaussian" else UniformConditional
    return kind(width, location)


class _InUserUnits(Conditional):
    """A conditional whose queries are in the user's units."""

    def __init__(self, inner: Conditional, space: IndirectSpace) -> None:
        super().__init__()
        self.inner, self.space = inner, space

    def embed(self, A: Tensor) -> Embedding:
        return self.inner.embed(_from_unit(self.space, A).to(A))

    def extent(self, A: Tensor) -> Tensor:
        return self.inner.extent(_from_unit(self.space, A).to(A))


class _Scaled:
    """A classifier whose inputs are in the unit cube."""

    def __init__(self, classifier: Any, space: IndirectSpace) -> None:
        self.classifier, self.space = classifier, space
        self.classes_ = classifier.classes_

    def predict_proba(self, U: np.ndarray) -> Any:
        return self.classifier.predict_proba(_from_unit(self.space, torch.from_numpy(U)).numpy())
