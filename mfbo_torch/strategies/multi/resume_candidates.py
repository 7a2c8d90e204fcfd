"""Designs that go on: where evaluations continue, what has been begun is cheaper than what has not."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mfbo_torch.history import Query, Record
from mfbo_torch.history.continuation import trainings
from mfbo_torch.strategies.common.outcome_models import Chain
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import overdue
from mfbo_torch.strategies.snapshot import Snapshot


def resumed(snapshot: Snapshot, gain: Callable[[Tensor], Tensor], u: Tensor, fidelity: int) -> tuple[Tensor, int]:
    r"""A design and a fidelity to query in the place of those that were chosen, where evaluations continue.

    With what a design may gain, :math:`g(x)`, and what is missing there, :math:`c(x, m)`, it is the one with the
    largest :math:`g(x) / c(x, m)` among the chosen one and those that were evaluated below ``m`` and queried nowhere
    from there on. It is queried at the next fidelity above what it has: on the way to ``m`` that costs nothing more,
    and its value tells whether to go on; but at ``m`` itself where the target is
    :func:`~mfbo_torch.strategies.multi.mf_gp_ucb_thresholds.overdue`.

    Args:
        snapshot: The space, its costs, and what was queried so far.
        gain: From ``n x d`` designs of the unit cube to what each may gain, ``n`` numbers.
        u: The chosen design, ``1 x d``.
        fidelity: The chosen fidelity.
    """
    space = snapshot.space
    if not space.continues or fidelity == 0:
        return u, fidelity
    begun, late = _begun(snapshot, fidelity), overdue(snapshot.records, snapshot.costs, 0)
    designs = torch.cat([u, snapshot.designs(begun).to(u)])
    gains = gain(designs)
    if gains[0] > 0:
        x = space.from_unit(u.detach().to("cpu", torch.double).reshape(-1))
        wanted = [tuple(x.tolist()), *(record.query.x for record in begun)]
        missing = [snapshot.cost(Query(x, fidelity)) for x in wanted]
        best = int((gains / gains.new_tensor(missing)).argmax())
        if best:
            return designs[best : best + 1], fidelity if late else begun[best - 1].query.fidelity + 1
    return u, fidelity if late else 0


def gain_over_best(model: Chain, beta: float, snapshot: Snapshot) -> Callable[[Tensor], Tensor]:
    """By how much the upper bound of the target at ``n x d`` designs is above the best mean at an observed one."""

    def gain(X: Tensor) -> Tensor:
        observed = snapshot.designs(snapshot.at(snapshot.space.target) or snapshot.done)
        with torch.no_grad():
            best = model.mean_variance(observed.to(X))[0][:, -1].max()
            mean, variance = model.mean_variance(X)
        return mean[:, -1] + math.sqrt(beta) * variance[:, -1].sqrt() - best

    return gain


def _begun(snapshot: Snapshot, fidelity: int) -> list[Record]:
    """The highest training of each design that was evaluated below a fidelity, and not queried from there on."""
    gone = {r.query.x for r in [*snapshot.pending, *(r for r in snapshot.records if r.query.fidelity >= fidelity)]}
    found = [max(here.items())[1].record for x, here in trainings(snapshot.records).items() if x not in gone]
    failed = {(r.query.x, r.query.fidelity) for r in snapshot.records if r.value is None}
    return [r for r in found if (r.query.x, r.query.fidelity + 1) not in failed]
