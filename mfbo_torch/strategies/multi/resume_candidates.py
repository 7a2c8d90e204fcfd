"""Designs that go on: where evaluations continue, what has been begun is cheaper than what has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mfbo_torch.history import History, Query, Record, Status
from mfbo_torch.history.continuation import trainings
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import overdue

if TYPE_CHECKING:
    from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
    from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
    from mfbo_torch.strategies.common.model_based import MultiFidelityModelBased


def nested(
    strategy: Strategy, gain: Callable[[Tensor], Tensor], u: Tensor, fidelity: int, history: History
) -> tuple[Tensor, int]:
    r"""A design and a fidelity to ask in the place of those that were chosen, where evaluations continue.

    With what a design may gain, :math:`g(x)`, and what is missing there, :math:`c(x, m)`, it is the one with the
    largest :math:`g(x) / c(x, m)` among the chosen one and those that were evaluated below ``m`` and asked nowhere
    from there on. It is asked at the next fidelity above what it has: on the way to ``m`` that costs nothing more, and
    its value tells whether to go on; but at ``m`` itself where the target is
    :func:`~mfbo_torch.strategies.multi.mf_gp_ucb_thresholds.overdue`.

    Args:
        strategy: Whose space and costs these are.
        gain: From ``n x d`` designs of the unit cube to what each may gain, ``n`` numbers.
        u: The chosen design, ``1 x d``.
        fidelity: The chosen fidelity.
        history: Everything asked so far.
    """
    if not strategy.space.continues or fidelity == 0:
        return u, fidelity
    begun, late = _begun(history, fidelity), overdue(history, strategy.costs(history), 0)
    designs = torch.cat([u, strategy.unit_points(begun)[:, :-1].to(u)])
    gains = gain(designs)
    if gains[0] > 0:
        whole = strategy.cost(strategy.query(u, fidelity), history)
        missing = [whole, *(strategy.cost(Query(record.query.x, fidelity), history) for record in begun)]
        best = int((gains / gains.new_tensor(missing)).argmax())
        if best:
            record = begun[best - 1]
            return designs[best : best + 1], fidelity if late else record.query.fidelity + 1
    return u, fidelity if late else 0


def over_best(
    strategy: MultiFidelityModelBased, model: PerFidelityGP | CoKrigingGP, beta: float, history: History
) -> Callable[[Tensor], Tensor]:
    """By how much the upper bound of the target at ``n x d`` designs is above the best mean at an observed one."""

    def gain(X: Tensor) -> Tensor:
        known = history.select(Status.DONE, strategy.space.target) or history.done
        seen = strategy.surrogate.to(strategy.unit_points(known)[:, :-1])
        with torch.no_grad():
            best = model.mean_variance(seen)[0][:, -1].max()
            mean, variance = model.mean_variance(X)
        return mean[:, -1] + math.sqrt(beta) * variance[:, -1].sqrt() - best

    return gain


def _begun(history: History, fidelity: int) -> list[Record]:
    """The highest training of each design that was evaluated below a fidelity, and not asked from there on."""
    gone = {r.query.x for r in [*history.pending, *(r for r in history if r.query.fidelity >= fidelity)]}
    found = [max(here.items())[1].record for x, here in trainings(history).items() if x not in gone]
    failed = {(r.query.x, r.query.fidelity) for r in history if r.value is None}
    return [r for r in found if (r.query.x, r.query.fidelity + 1) not in failed]
