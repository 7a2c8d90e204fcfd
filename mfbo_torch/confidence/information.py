"""Information gains of sets of observations, greedy sets, and bounds on the gain of a batch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, whole


def information_gain(covariance: Tensor, noise: float | Tensor) -> float:
    """``I(f; y_A) = ½ log det(I + σ⁻² K_AA)`` in nats [Desautels2012gpbucb]_ (Eq. 6).

    With a posterior covariance it is the conditional ``I(f; y_A | y_S)``, which bounds the factor by which a deviation
    shrinks, ``σ_S(x) / σ_{S ∪ A}(x) <= exp(I(f; y_A | y_S))`` (Lemma 1, Eq. 9).

    Args:
        covariance: ``n x n`` covariance of the function at ``A``.
        noise: The noise variance, or one for each of the ``n`` points; above 0, else a ``SettingError``.
    """
    _check_covariance(covariance)
    if not isinstance(noise, Tensor):
        noise = number("noise", noise, above=0)
    scale = torch.as_tensor(noise, dtype=covariance.dtype, device=covariance.device).expand(len(covariance))
    if not bool((scale > 0).all()):
        raise SettingError("noise", noise, "above 0")
    root = scale.sqrt()
    scaled = covariance / root / root.unsqueeze(-1)
    return 0.5 * float(torch.linalg.slogdet(scaled + torch.eye(len(scaled)).to(scaled)).logabsdet)


class GreedySet(NamedTuple):
    """Points in the order in which they were taken: ``T`` ``indices``, and the ``gains`` ``I(f; y_A)``, in nats, of the
    first ``1 .. T``."""

    indices: Tensor
    gains: Tensor


def uncertainty_sampling(covariance: Tensor, noise: float, size: int) -> GreedySet:
    """Uncertainty sampling, ``x_t = argmax σ²_{t-1}(x)``, which needs no values.

    The initialisation of GP-BUCB [Desautels2012gpbucb]_ (Section 4): after ``T`` such rounds,
    ``γ_{B-1} <= (B - 1) / T · γ_T`` (Lemma 2). It is also the greedy set of the information gain: an observation at
    ``x`` adds ``½ log(1 + σ²_{t-1}(x) / σ²)``.

    Args:
        covariance: ``m x m`` covariance of the function at the points to choose from.
        noise: The noise variance, above 0, else a ``SettingError``.
        size: Number of points, from 0 on; a point can be taken again, of equal ones the first is taken.
    """
    _check_covariance(covariance)
    noise, size = number("noise", noise, above=0), whole("size", size, 0)
    variance = covariance.diagonal().clone()
    rows = covariance.new_empty(size, len(covariance))
    indices, gains = torch.empty(size, dtype=torch.long), variance.new_empty(size)
    for t in range(size):
        pick = int(variance.argmax())
        indices[t], gains[t] = pick, 0.5 * torch.log1p(variance[pick] / noise)
        left = covariance[pick] - rows[:t, pick] @ rows[:t]
        rows[t] = left / (variance[pick] + noise).sqrt()
        variance = (variance - rows[t].square()).clamp_min(0.0)
    return GreedySet(indices, gains.cumsum(0))


def batch_gain_bound(covariance: Tensor, noise: float, batch: int) -> float:
    """A bound ``C >= max_{|A| <= B-1} I(f; y_A | y_S)`` in nats, for :func:`gp_bucb_beta` [Desautels2012gpbucb]_ (Eq.
    10).

    Points may be taken repeatedly. That maximum is hard to find, but the information gain is monotone and submodular:
    with the greedy set ``A_t`` of any size it is at most ``I(A_t) + (B - 1)(I(A_{t+1}) - I(A_t))``
    [Nemhauser1978submodular]_. The least of these is returned; it is at most the usual ``I(A_{B-1}) / (1 - 1/e)``. The
    bound for the prior covariance, or for that after the initialisation, holds in all later rounds: information never
    hurts.

    Args:
        covariance: ``m x m`` covariance of the function at all points, given what has been observed.
        noise: The noise variance, above 0, else a ``SettingError``.
        batch: ``B``, from 1 on, the largest number of queries that are ever pending at once.
    """
    gains = uncertainty_sampling(covariance, noise, whole("batch", batch) - 1).gains.tolist()
    before = [0.0, *gains]
    return min((a + (batch - 1) * (b - a) for a, b in zip(before, gains, strict=False)), default=0.0)


def _check_covariance(covariance: Tensor) -> None:
    if covariance.dim() != 2 or covariance.shape[0] != covariance.shape[1]:
        raise SettingError("covariance", f"a tensor of shape {tuple(covariance.shape)}", "n x n")
