r"""Greedy batches from a finite set."""

from __future__ import annotations

import math

import torch
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.acquisition.fused import deviation
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.models.input_checks import check_points
from mfbo_torch.ops import greedy as operation
from mfbo_torch.ops.greedy import Selection
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import whole

CHOICES_AT_ONCE = 1024
"""Number of choices that are evaluated at a time where the model has no factor."""
MOST_JOINT = 2048
"""Largest number of choices of such a model with one joint posterior, from which all picks follow."""


def greedy_hallucinated_ucb(
    model: Model,
    choices: Tensor,
    beta: float,
    q: int,
    *,
    X_pending: Tensor | None = None,
    lazy: bool = True,
    backend: str = "auto",
) -> Selection:
    r"""Select a batch from a finite set by hallucinated upper confidence bound.

    Pick ``t`` is the first maximiser of :math:`\mu(x) + \beta^{1/2} \sigma(x)` with the pending points and
    the picks before it pending [Desautels2012gpbucb]_ (Eq. 4), so the batch is that of
    ``optimize_acqf_discrete`` with :class:`HallucinatedUpperConfidenceBound` and ``unique=False``.
    Variances are only computed where they may matter (Eq. 5).

    Args:
        model: An exact single-output GP of BoTorch. Where :class:`~mfbo_torch.models.CachedGP` has no
            factor for it, all variances are computed from its joint posteriors.
        choices: ``m x d`` points. Memory is bounded for any ``m`` but for a few numbers a choice.
        beta: Squared width of the confidence band.
        q: Number of picks, from 1 to ``m``. A choice is picked again where it is still the maximiser.
        X_pending: ``p x d`` pending points.
        lazy: Compute only what may matter; the picks are the same without.
        backend: ``"torch"``, ``"triton"`` or ``"auto"``, see :func:`mfbo_torch.ops.greedy.greedy`.

    Returns:
        ``.indices``: ``q`` indices in the order of selection; ``.num_variances``, at most ``q m``.

    Raises:
        SettingError: ``q`` below 1 or above ``m``, or a ``beta`` that is negative or not finite.
        BotorchTensorDimensionError: ``choices`` or ``X_pending`` of another shape, or no choices.
        InputDataError: NaN in ``choices`` or ``X_pending``.
        UnsupportedError: Several outputs, a model that is not an exact GP, or a backend that cannot run.
    """
    acquisition = HallucinatedUpperConfidenceBound(model, beta, X_pending)
    check_points("choices", choices, acquisition.model.dim)
    if len(choices) == 0:
        raise SettingError("choices", "an empty set", "at least one point")
    q = whole("q", q, 1, len(choices), wanted=f"a whole number from 1 to {len(choices)}, the number of choices")
    cache = acquisition.cache
    if cache is None:
        return (_by_covariance if len(choices) <= MOST_JOINT else _by_acquisition)(acquisition, choices, q)
    points = acquisition.model.cache_points(choices)
    return operation.greedy(cache, points, math.sqrt(acquisition.beta), q, backend, lazy=lazy)


@torch.no_grad()
def _by_covariance(acquisition: HallucinatedUpperConfidenceBound, choices: Tensor, q: int) -> Selection:
    """Picks of a model without a factor, from the covariance of all choices, which each updates by rank one."""
    mean, covariance, noise = acquisition.model.hallucinate(acquisition.X_pending).joint(choices)
    least = torch.finfo(mean.dtype).eps ** 2 * covariance.diagonal().amax()
    picks: list[int] = []
    for _ in range(q):
        variance = covariance.diagonal().clamp_min(least)
        pick = operation.first_equal(choices, int((mean + math.sqrt(acquisition.beta) * deviation(variance)).argmax()))
        picks.append(pick)
        gained = covariance[pick] / deviation(variance[pick] + noise[pick])
        covariance = torch.addr(covariance, gained, gained, alpha=-1.0)
    return Selection(torch.tensor(picks, device=choices.device), q * len(choices))


@torch.no_grad()
def _by_acquisition(acquisition: HallucinatedUpperConfidenceBound, choices: Tensor, q: int) -> Selection:
    """Picks of a model without a factor, all values computed before each pick."""
    base = acquisition.X_pending if acquisition.X_pending is not None else choices[:0]
    picks: list[int] = []
    for _ in range(q):
        acquisition.set_X_pending(torch.cat([base, choices[picks]]))
        values = torch.cat([acquisition(part.unsqueeze(-2)) for part in choices.split(CHOICES_AT_ONCE)])
        picks.append(operation.first_equal(choices, int(values.argmax())))
    return Selection(torch.tensor(picks, device=choices.device), q * len(choices))
