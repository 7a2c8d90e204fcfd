r"""Maximising acquisition functions where some parameters have choices: climbs alternate with changes of one choice.

As BoTorch's ``optimize_acqf_mixed_alternating`` does, but all restarts at once, each with its own choices fixed, and in
a bounded number of evaluations.
"""

from __future__ import annotations

import botorch.optim
import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.acquisition.fused import Fused, fused
from mfbo_torch.acquisition.optimize import climbed
from mfbo_torch.ops.posterior.fused import plain
from mfbo_torch.ops.prepared import Array
from mfbo_torch.space import Space

MOST_CHANGES = 8
"""Largest number of changes of a choice from a start."""
MOST_STEPS = 50
"""Largest number of steps of a climb."""
MIN_GAIN = 1e-9
"""Smallest gain of the acquisition for which a choice is changed."""
CONSTRAINED_STARTS = 4
"""Number of starts where there are constraints, with which a climb is slow."""
BACK = (1 - 1e-6, 1 - 1e-3, 0.9, 0.5)
"""Shares of a climb that are tried in turn where its end violates the constraints."""

Inequalities = list[tuple[Tensor, Tensor, float]] | None


def alternated(
    acquisition: AcquisitionFunction, raw: Tensor, space: Space, num_restarts: int, inequalities: Inequalities = None
) -> tuple[Tensor, float]:
    """The best design found, ``1 x D``, and its value under an acquisition of ``b x 1 x D`` points of the unit cube.
    The best ``num_restarts`` of ``raw``, ``n x D`` designs that meet the constraints of the space, are where climbs
    start; ``inequalities`` are these constraints, where the acquisition lives."""
    search = _Search(acquisition, space, raw, inequalities)
    scores = search.values(raw)
    starts = raw[scores.topk(min(num_restarts if inequalities is None else CONSTRAINED_STARTS, len(raw))).indices]
    points = search.climb(starts)
    values = search.values(points)
    for _ in range(MOST_CHANGES):
        changed = search.changed(points)
        if not changed.shape[1]:
            break
        gains = search.values(changed.flatten(0, 1)).view(changed.shape[:2])
        best, which = gains.max(-1)
        better = best > values + MIN_GAIN
        if not better.any():
            break
        moved = search.climb(changed[better, which[better]])
        points[better], values[better] = moved, search.values(moved)
    best = values.argmax()
    return points[best].unsqueeze(0), values[best].item()


class _Search:
    """An acquisition over designs with choices."""

    def __init__(
        self, acquisition: AcquisitionFunction, space: Space, like: Tensor, inequalities: Inequalities
    ) -> None:
        self.acquisition, self.space, self.like, self.inequalities = acquisition, space, like, inequalities
        self.form: Fused | None = fused(acquisition) if plain(like) else None

    def values(self, X: Tensor) -> Tensor:
        """Values ``n`` at ``n x D`` designs; minus infinity where the constraints are not met."""
        if not len(X):
            return X.new_zeros(0)
        with torch.no_grad():
            points = X.unsqueeze(-2)
            found = (
                self.form.at(points) if self.form is not None and self.form.takes(points) else self.acquisition(points)
            )
        return found if self.inequalities is None else found.masked_fill(~self.space.allows(X), -torch.inf)

    def changed(self, X: Tensor) -> Tensor:
        """``n x c x D`` designs, one choice changed."""
        return self.space.choice_neighbours(X.to("cpu", torch.double)).to(self.like)

    def climb(self, X: Tensor) -> Tensor:
        """Local maximisers from ``n x D`` designs, their choices fixed, whole numbers whole again."""
        held = self.space.fixed_columns(X.to("cpu", torch.double))
        if held.all():
            return X.clone()
        found = self._in_box(X, held.numpy()) if self.inequalities is None else self._constrained(X, held)
        snapped = self._snapped(found)
        if self.inequalities is not None:
            for share in BACK:  # a climb ends on the boundary, or a rounding error beyond it
                bad = ~self.space.allows(snapped)
                snapped[bad] = self._snapped(X[bad] + share * (found[bad] - X[bad]))
        worse = (self.values(snapped) < self.values(X)).unsqueeze(-1)
        return torch.where(worse, X, snapped)

    def _snapped(self, X: Tensor) -> Tensor:
        return self.space.snap(X.to("cpu", torch.double)).to(self.like)

    def _in_box(self, X: Tensor, held: Array) -> Tensor:
        descent = self._descent if self.form is None else self.form.descent
        return torch.from_numpy(climbed(descent, X.to("cpu", torch.double).numpy(), held, MOST_STEPS)).to(self.like)

    def _descent(self, points: Array) -> tuple[Array, Array]:
        """Minus the acquisition and its gradient, by autograd, on arrays."""
        X = torch.from_numpy(points).to(self.like).requires_grad_()
        with torch.enable_grad():
            value = self.acquisition(X.unsqueeze(-2))
            (gradient,) = torch.autograd.grad(value.sum(), X)
        return tuple(-part.detach().to("cpu", torch.double).numpy() for part in (value, gradient))  # type: ignore

    def _constrained(self, X: Tensor, held: Tensor) -> Tensor:
        """One climb at a time by BoTorch, which keeps to the constraints."""
        bounds = torch.stack([torch.zeros_like(X[0]), torch.ones_like(X[0])])
        found = []
        for start, fixed in zip(X, held, strict=True):
            values = {i: start[i].item() for i in fixed.nonzero().view(-1).tolist()}
            point, _ = botorch.optim.optimize_acqf(
                self.acquisition,
                bounds,
                q=1,
                num_restarts=1,
                batch_initial_conditions=start.view(1, 1, -1),
                options={"maxiter": MOST_STEPS},
                fixed_features=values,
                inequality_constraints=self.inequalities,
            )
            found.append(point.view(-1))
        return torch.stack(found)
