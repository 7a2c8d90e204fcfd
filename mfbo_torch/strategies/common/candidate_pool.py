"""Candidates whose joint posterior is known: beside them a query in flight costs a row of a matrix, and no search."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.models.gp.base import SingleOutputModel
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.strategies.common.deduplicate import are_clear
from mfbo_torch.utils.memo import Memo

Joint = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""From ``n x d`` designs to means ``n x M``, covariances ``n x M x n x M`` and noise variances ``M``."""
SAME = 1e-9
"""Largest distance in the unit cube of two designs that are one."""
LEAST_SHARE = 1e-12
"""Smallest variance that is left of a point in flight, as a part of what it had."""


class PoolPosterior:
    r"""Posterior of ``M`` fidelities at ``n`` designs. Points in flight, observed with the noise of their fidelity,
    shrink its variances one after another, and leave its means [Desautels2012gpbucb]_ (Sec. 3).

    With :math:`v_j = (k_j - \sum_{i < j} v_{ij} v_i) / s_j` the variances fall by :math:`v_j^2`, where :math:`k_j` are
    the covariances with point ``j`` given the data and :math:`s_j` is the deviation of what will be observed there.

    Args:
        mean: ``n x M`` means.
        covariance: ``n x M x n x M`` covariances.
        noise: ``M`` noise variances.
    """

    def __init__(self, mean: Tensor, covariance: Tensor, noise: Tensor) -> None:
        self.mean, self._noise = mean.to("cpu", torch.double), noise.to("cpu", torch.double).tolist()
        self._covariance = covariance.to("cpu", torch.double).reshape(mean.numel(), mean.numel())
        self._clear()

    def _clear(self) -> None:
        self._points: list[tuple[int, int]] = []
        self._rows = self._covariance[:0]
        self._variance = self._covariance.diagonal().clamp_min(0.0)

    def variance(self, points: Sequence[tuple[int, int]]) -> Tensor:
        """``n x M`` variances given points in flight, each the number of a design and a fidelity; points that they
        began with before cost nothing."""
        if [*points[: len(self._points)]] != self._points:
            self._clear()
        done = len(self._points)
        if len(points) > len(self._rows):
            room = self._covariance.new_empty(max(2 * len(points), 64), len(self._variance))
            room[:done] = self._rows[:done]
            self._rows = room
        for j, (design, fidelity) in enumerate(points[done:], done):
            at, before = design * self.mean.shape[-1] + fidelity, self._rows[:j]
            row = self._covariance[at] - before[:, at] @ before
            left = row[at].clamp_min(LEAST_SHARE * self._covariance[at, at]) + self._noise[fidelity]
            self._rows[j] = row / left.clamp_min(torch.finfo(row.dtype).tiny).sqrt()
            self._variance = (self._variance - self._rows[j].square()).clamp_min(0.0)
            self._points.append((design, fidelity))
        return self._variance.view_as(self.mean)


class PoolTarget(SingleOutputModel):
    """The target at the designs of a pool, in their order, for acquisition functions of one design; ``mean`` and
    ``variance`` are ``n``."""

    def __init__(self, mean: Tensor, variance: Tensor) -> None:
        super().__init__()
        self._mean, self._variance = mean, variance

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments at ``n x 1 x d`` designs, which are those of the pool."""
        mean = self._mean.unsqueeze(-1)
        return mean, self._variance[:, None, None], torch.zeros_like(mean)


class Pool:
    """``n x d`` designs of the unit cube, and their posteriors under models that stay the same.

    Designs in flight that are none of them are added behind them.
    """

    def __init__(self, designs: Tensor) -> None:
        self.designs = designs
        self._posteriors: defaultdict[str, Memo[PoolPosterior]] = defaultdict(Memo)
        nothing = torch.ones(len(designs), dtype=torch.bool)
        self._clear: defaultdict[int, tuple[Tensor, Tensor]] = defaultdict(lambda: (designs[:0], nothing))

    def moments(self, name: str, joint: Joint, points: Tensor) -> tuple[Tensor, Tensor]:
        """Mean given the data and variance given points in flight too, ``n x M`` each.

        Args:
            name: Of a model.
            joint: Its moments: from ``n x d`` designs to the arguments of :class:`PoolPosterior`.
            points: ``p x (d + 1)`` points in flight, the fidelity last.
        """
        count, U = len(self.designs), points[:, :-1]
        apart, near = torch.cdist(U, self.designs, p=math.inf).min(-1)
        strange = apart > SAME
        places = torch.where(strange, count - 1 + strange.cumsum(0), near).tolist()
        designs = torch.cat([self.designs, U[strange]])
        with torch.no_grad():
            made = self._posteriors[name](designs.tolist(), lambda: PoolPosterior(*joint(designs)))
        variance = made.variance([*zip(places, points[:, -1].long().tolist(), strict=True)])
        return made.mean[:count], variance[:count]

    def clear(self, fidelity: int, taken: Tensor, observed: Tensor) -> Tensor:
        """:func:`~mfbo_torch.strategies.common.deduplicate.are_clear` of its designs at a fidelity, as long as nothing
        more has been observed; designs taken that they began with before cost nothing."""
        former, clear = self._clear[fidelity]
        if not torch.equal(former, taken[: len(former)]):
            del self._clear[fidelity]
            return self.clear(fidelity, taken, observed)
        clear = clear & are_clear(self.designs, taken[len(former) :], observed[len(former) :])
        self._clear[fidelity] = taken, clear
        return clear


def joint_of(model: Any) -> Joint:
    """The moments of a model of several fidelities."""

    def joint(U: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return *model.every_fidelity(U.to(model.train_inputs[0])), model.noise

    return joint


def gp_joint(gp: CachedGP) -> Joint:
    """The moments of a GP of one fidelity."""

    def joint(U: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, covariance, noise = gp.joint(U.to(gp.train_inputs[0]))
        return mean.unsqueeze(-1), covariance[:, None, :, None], noise[:1]

    return joint


@dataclass(frozen=True)
class Seeker:
    """What a model seeks.

    Args:
        model: The model, whose ``joint`` moments follow from the data alone.
        joint: See :data:`Joint`.
        score: The acquisition function of a model of the target, or where that is ``None`` of the data alone.
        weighed: The same where evaluations fail or break limits.
        least: The least value of the acquisition that is queried.
        shift: The zero of the units in which the target is seen.
        unit: Their one.
    """

    model: Any
    joint: Joint
    score: Callable[[PoolTarget | None], AcquisitionFunction]
    weighed: Callable[[AcquisitionFunction], AcquisitionFunction]
    least: float = -math.inf
    shift: float = 0.0
    unit: float = 1.0

    def ranked(self, pool: Pool, name: str, points: Tensor) -> tuple[list[float], list[int]]:
        """The acquisition at the designs of a pool beside ``p x (d + 1)`` points in flight, not weighed, and their
        numbers, the best first by what it is weighed."""
        mean, variance = pool.moments(name, self.joint, points)
        score = self.score(PoolTarget((mean[:, -1] - self.shift) / self.unit, variance[:, -1] / self.unit**2))
        weighed, X = self.weighed(score), pool.designs.unsqueeze(-2)
        with torch.no_grad():
            found = score(X)
            order = (found if weighed is score else weighed(X)).argsort(descending=True, stable=True)
        return found.tolist(), order.tolist()
