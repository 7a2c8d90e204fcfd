r"""How much a batch can tell, and how long GP-BUCB samples by uncertainty so that it is little.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mfbo_torch.confidence import (
    batch_gain_bound,
    linear_initialization,
    matern_initialization,
    rbf_initialization,
)
from mfbo_torch.confidence.prior import SMOOTHNESS, Prior
from mfbo_torch.history import History
from mfbo_torch.space import Space
from mfbo_torch.strategies.common.fit_schedule import Memo
from mfbo_torch.strategies.common.initial_design import sobol

if TYPE_CHECKING:
    from mfbo_torch.strategies.single.gp_bucb import GPBUCB

MOST = 1000
"""At so many designs at most is the information of a batch bounded: candidates evenly, or a Sobol set of a box."""


class Stages:
    r"""``C`` and ``T_init`` of [Desautels2012gpbucb]_ (Theorems 1 and 2) for the model at hand.

    ``C`` bounds what ``B - 1`` further observations can tell given those that have arrived; as information never hurts
    it is a bound for all later rounds. ``T_init`` is the least number of rounds after which ``C`` is at most
    :math:`\log C'`, the multiplier of Table 1, so that batches of any size cost that factor; the table bounds it from
    above where the constants of its bounds on the information are known. Half of the capital, where that is known, is
    the most that it takes.
    """

    def __init__(self) -> None:
        self._gain: Memo[float] = Memo()

    def gain(self, strategy: GPBUCB, history: History, batch: int) -> float:
        """``C`` in nats, given the observations; 0 for one query at a time."""
        return self._bounded(strategy, history, batch, strategy.surrogate.to(strategy.unit_points([])[:, :-1]))

    def due(self, strategy: GPBUCB, history: History, batch: int, rounds: int) -> bool:
        """Whether the next query is still one of the initialisation."""
        if batch == 1:
            return False
        if strategy.capital is not None and rounds * strategy.costs(history)[strategy.level] >= strategy.capital / 2:
            return False
        out = strategy.surrogate.to(strategy.pending(history))
        return self._bounded(strategy, history, batch, out) > math.log(multiplier(strategy, batch))

    def _bounded(self, strategy: GPBUCB, history: History, batch: int, out: Tensor) -> float:
        if batch == 1:
            return 0.0
        X, Y, Yvar = strategy.observed(history)
        prior = strategy.process.prior
        if not len(X) and not len(out) and prior is not None:
            return most_information(prior, places(strategy.space), batch - 1)
        model, waiting = strategy.process.posterior(X, Y, Yvar, out)
        model = model.hallucinate(waiting)

        def bound() -> float:
            with torch.no_grad():
                _, covariance, noise = model.joint(strategy.surrogate.to(places(strategy.space)))
            return batch_gain_bound(covariance, noise.min().item(), batch)

        return self._gain((X.tolist(), Y.tolist(), out.tolist(), batch), bound)


def most_information(prior: Prior, designs: Tensor, t: int) -> float:
    """A bound on ``γ_t``, what ``t`` observations among some designs can tell under a prior, in nats."""
    return batch_gain_bound(prior.covariance(designs, designs), prior.noise, t + 1)


def places(space: Space) -> Tensor:
    """Where a batch may be asked, at most :data:`MOST` designs of the unit cube."""
    candidates = space.unit_candidates
    if not len(candidates):
        return space.designs(sobol(space.dim, MOST // 2, 0))
    return candidates[torch.linspace(0, len(candidates) - 1, min(len(candidates), MOST)).round().long()]


def multiplier(strategy: GPBUCB, batch: int) -> float:
    """``C'`` of Table 1 for the kernel; that of the RBF kernel where hyper-parameters are fitted."""
    dim = strategy.space.dim
    kernel = "rbf" if strategy.prior is None else strategy.prior.kernel
    if kernel == "linear":
        return linear_initialization(batch, dim).multiplier
    return (matern_initialization(batch) if kernel in SMOOTHNESS else rbf_initialization(batch, dim)).multiplier
