r"""How long GP-BUCB has to sample by uncertainty until batches of any size cost it only a constant.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mfbo_torch.confidence._checks import check_count, check_positive
from mfbo_torch.errors import SettingError


class Initialization(NamedTuple):
    """How long to sample by uncertainty before GP-BUCB, and what is gained by it.

    Args:
        rounds: ``T_init``, after which a batch has at most ``C = log C'`` information.
        multiplier: ``C'``, by which the regret bound exceeds the sequential one for any batch size.
    """

    rounds: int
    multiplier: float


def linear_initialization(batch: int, dim: int, eta: float = 1.0) -> Initialization:
    """``T_init`` and ``C'`` where ``γ_t <= η d log(t + 1)`` [Desautels2012gpbucb]_ (Table 1, linear).

    ``max[log B, e η d (B - 1) log B (log η + log d + 2 log B) / (2 log B - 1)]`` and ``exp(2/e)``.

    Raises:
        SettingError: ``batch`` or ``dim`` below 1, or ``eta`` not positive.
    """
    log = _checked_log(batch, dim, eta)
    share = (math.log(eta) + math.log(dim) + 2 * log) / (2 * log - 1)
    return Initialization(
        math.ceil(max(log, math.e * share * eta * dim * (batch - 1) * log)),
        math.exp(2 / math.e),
    )


def matern_initialization(batch: int, nu: float = 1.0, epsilon: float = 0.5) -> Initialization:
    """``T_init`` and ``C'`` where ``γ_t <= ν t^ε`` [Desautels2012gpbucb]_ (Table 1, Matérn).

    ``(ν (B - 1))^{1 / (1 - ε)}`` and ``e``.

    Raises:
        SettingError: ``batch`` below 1, ``nu`` not positive, or ``epsilon`` outside (0, 1).
    """
    check_count("batch", batch)
    check_positive("nu", nu)
    if not 0 < epsilon < 1:
        raise SettingError("epsilon", epsilon, "between 0 and 1")
    return Initialization(math.ceil((nu * (batch - 1)) ** (1 / (1 - epsilon))), math.e)


def rbf_initialization(batch: int, dim: int, eta: float = 1.0) -> Initialization:
    """``T_init`` and ``C'`` where ``γ_t <= η (log(t + 1))^d`` [Desautels2012gpbucb]_ (Table 1, RBF).

    ``max[(log B)^d, (e/d · (log η + (d + 1) log B) / (2 log B - 1))^d η (B - 1) (log B)^d]`` and
    ``exp((2d/e)^d)``.

    Raises:
        SettingError: ``batch`` or ``dim`` below 1, or ``eta`` not positive.
    """
    log = _checked_log(batch, dim, eta)
    share = max(0.0, (math.log(eta) + (dim + 1) * log) / (2 * log - 1))
    return Initialization(
        math.ceil(max(log**dim, (math.e / dim * share) ** dim * eta * (batch - 1) * log**dim)),
        math.exp((2 * dim / math.e) ** dim),
    )


def _checked_log(batch: int, dim: int, eta: float) -> float:
    check_count("batch", batch)
    check_count("dim", dim)
    check_positive("eta", eta)
    return math.log(batch)
