"""Number of rounds of uncertainty sampling after which batches of any size cost GP-BUCB a constant factor.

Table 1 of [Desautels2012gpbucb]_, a function for each bound on the information gain. They raise a ``SettingError`` for
a ``batch`` or ``dim`` below 1 and a constant out of its range.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mfbo_torch.utils.validation import number, whole

LARGEST_POWER = 700.0
"""Above it the exponential is no finite number."""


class Initialization(NamedTuple):
    """The ``rounds`` of uncertainty sampling before GP-BUCB, ``T_init``, after which a batch has at most ``C = log C'``
    information, and the ``multiplier`` ``C'`` by which its regret bound exceeds the sequential one."""

    rounds: int
    multiplier: float


def linear_initialization(batch: int, dim: int, eta: float = 1.0) -> Initialization:
    """``max[log B, e η d (B - 1) log B (log η + log d + 2 log B) / (2 log B - 1)]`` and ``exp(2/e)``, where
    ``γ_t <= η d log(t + 1)``, the linear kernel's."""
    log, scale = _checked(batch, dim, eta)
    share = (math.log(scale) + math.log(dim) + 2 * log) / (2 * log - 1)
    return Initialization(math.ceil(max(log, math.e * share * scale * dim * (batch - 1) * log)), math.exp(2 / math.e))


def matern_initialization(batch: int, nu: float = 1.0, epsilon: float = 0.5) -> Initialization:
    """``(ν (B - 1))^{1 / (1 - ε)}`` and ``e``, where ``γ_t <= ν t^ε``, the Matérn kernel's."""
    rounds = number("nu", nu, above=0) * (whole("batch", batch) - 1)
    return Initialization(math.ceil(rounds ** (1 / (1 - number("epsilon", epsilon, above=0, below=1)))), math.e)


def rbf_initialization(batch: int, dim: int, eta: float = 1.0) -> Initialization:
    """``max[(log B)^d, (e/d (log η + (d + 1) log B) / (2 log B - 1))^d η (B - 1) (log B)^d]`` and ``exp((2d/e)^d)``,
    where ``γ_t <= η (log(t + 1))^d``, the RBF kernel's."""
    log, scale = _checked(batch, dim, eta)
    share = max(0.0, (math.log(scale) + (dim + 1) * log) / (2 * log - 1))
    rounds = max(log**dim, (math.e / dim * share) ** dim * scale * (batch - 1) * log**dim)
    power = (2 * dim / math.e) ** dim
    return Initialization(math.ceil(rounds), math.exp(power) if power < LARGEST_POWER else math.inf)


def _checked(batch: int, dim: int, eta: float) -> tuple[float, float]:
    whole("dim", dim)
    return math.log(whole("batch", batch)), number("eta", eta, above=0)
