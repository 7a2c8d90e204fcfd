r"""Batches from a finite set.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.errors import SettingError
from mfbo_torch.ops.greedy import greedy


class Selection(NamedTuple):
    """Picks of a finite set.

    Args:
        indices: ``q`` indices in the order of selection.
        num_variances: How many variances were computed for it.
    """

    indices: Tensor
    num_variances: int


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
    """Select ``q`` of ``m x d`` choices by hallucinated upper confidence bound [Desautels2012gpbucb]_ (Eq. 4)."""
    if not 1 <= q <= len(choices):
        raise SettingError("q", q, f"a whole number from 1 to {len(choices)}, the number of choices")
    acquisition = HallucinatedUpperConfidenceBound(model, beta, X_pending)
    points = acquisition.model.model.transform_inputs(choices) if acquisition.model._transforms else choices
    return Selection(greedy(acquisition._cache, points, math.sqrt(acquisition.beta), q, backend), q * len(choices))
