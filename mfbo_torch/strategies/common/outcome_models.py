"""Models of the outcomes that have limits, and the probability that a design keeps these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.acquisition.feasible import WithinLimits
from mfbo_torch.history import Record
from mfbo_torch.history.observation import within_reach
from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
from mfbo_torch.models.outcome_transform import near_limit
from mfbo_torch.space.outcome_constraints import Limit
from mfbo_torch.strategies.common.fit_schedule import Surrogate
from mfbo_torch.strategies.common.gp import UnitCubeGP, outcome_gp
from mfbo_torch.strategies.snapshot import Data

Chain = PerFidelityGP | CoKrigingGP
DECIDED = 0.05
"""Probability of keeping a limit, or of breaking it, below which an outcome gets no query of its own."""
MOST = 4
"""Number of observed designs, at most, from which the search starts."""


def measured(records: Sequence[Record], limit: Limit) -> list[Record]:
    """Records with an outcome in the place of the value, outliers drawn
    :func:`~mfbo_torch.models.outcome_transform.near_limit`, each fidelity by itself: another one may have other
    units."""
    sign, margins = 1 if limit.upper else -1, defaultdict[int, list[float]](list)
    for record in records:
        value = within_reach(record.outcomes[limit.name].value)
        margins[record.query.fidelity].append(sign * (limit.bound - value))
    near, found = {m: iter(near_limit(some)) for m, some in margins.items()}, list[Record]()
    for record in records:
        outcome, (margin, slope) = record.outcomes[limit.name], next(near[record.query.fidelity])
        value = within_reach(outcome.value) if slope == 1.0 else limit.bound - sign * margin
        error = outcome.standard_error and outcome.standard_error * slope
        found.append(Record(record.id, record.query, record.cost, value, record.status, standard_error=error))
    return found


def outcome_gps(surrogate: Surrogate, groups: tuple[int, ...] | None) -> defaultdict[str, UnitCubeGP]:
    """A Gaussian process for each outcome by its name, fitted as those of values are.

    Args:
        surrogate: What those are fitted by.
        groups: For each column of a design its parameter, see :attr:`~mfbo_torch.Space.groups`.
    """
    settings = surrogate.refit_every, surrogate.device, surrogate.dtype
    return defaultdict(partial(_outcome_gp, settings, groups))


def _outcome_gp(settings: tuple[int, torch.device, torch.dtype], groups: tuple[int, ...] | None) -> UnitCubeGP:
    return UnitCubeGP(Surrogate(*settings), build=outcome_gp, groups=groups)


def moments_of(
    each: defaultdict[str, UnitCubeGP], limits: Sequence[Limit], data: Callable[[Limit], Data]
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Mean and variance ``... x K`` of outcomes at ``... x d`` designs, in their own units.

    Args:
        each: The models.
        limits: Of ``K`` outcomes.
        data: The observations of one.
    """
    known = [(each[limit.name], data(limit)) for limit in limits]
    models = [(gp.model(*seen), gp.units(seen.Y)) for gp, seen in known]

    def moments(X: Tensor) -> tuple[Tensor, Tensor]:
        posteriors = [(model.posterior(X.unsqueeze(-2)), shift, scale) for model, (shift, scale) in models]
        means = [shift + scale * found.mean[..., 0, 0] for found, shift, scale in posteriors]
        variances = [scale**2 * found.variance[..., 0, 0] for found, _, scale in posteriors]
        return torch.stack(means, -1), torch.stack(variances, -1)

    return moments


def within(limits: Sequence[Limit], models: Sequence[Chain], dim: int) -> WithinLimits:
    """The probability that the outcomes at the target keep their limits, of ``d`` inputs."""

    def moments(X: Tensor) -> tuple[Tensor, Tensor]:
        means, variances = zip(*(model.mean_variance(X) for model in models), strict=True)
        return torch.stack(means, -1)[..., -1, :], torch.stack(variances, -1)[..., -1, :]

    return WithinLimits(limits, moments, dim)


def undecided(limits: Sequence[Limit], models: Sequence[Chain], u: Tensor) -> list[Chain]:
    """The models of the outcomes of which it is open whether they keep their limits at a ``1 x d`` design."""
    if not models:
        return []
    with torch.no_grad():
        chances = within(limits, models, u.shape[-1]).log_each(u)[0].exp().tolist()
    return [model for model, p in zip(models, chances, strict=True) if DECIDED < p < 1 - DECIDED]


def promising(score: AcquisitionFunction, U: Tensor, to: Callable[[Tensor], Tensor]) -> Tensor:
    """Those of ``n x d`` designs with the largest score, :data:`MOST` of them.

    Args:
        score: An acquisition of one design.
        U: Designs of the unit cube.
        to: Takes them to where the model lives.
    """
    if not len(U):
        return U
    with torch.no_grad():
        scores = score(to(U).unsqueeze(-2))
    return U[scores.topk(min(MOST, len(U))).indices.cpu()]
