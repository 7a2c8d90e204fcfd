r"""GP-BUCB: upper confidence bounds for batches, delays and asynchronous workers.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.acquisition.greedy import greedy_hallucinated_ucb
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.confidence import gp_bucb_beta
from mfbo_torch.history import History, Query, Status
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.strategies.single.base import PROVEN, Banded, Noted
from mfbo_torch.strategies.single.gp_bucb_init import Stages
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, whole


class GPBUCB(Banded):
    r"""GP-BUCB, :math:`x_t = \arg\max_x \mu_{fb[t]}(x) + \beta_t^{1/2} \sigma_{t-1}(x)` [Desautels2012gpbucb]_ (Eq. 4).

    The mean uses the values that have arrived, the deviation also the queries that are still out. The
    history says which those are, so batches, fixed delays and asynchronous workers need no setting: ask
    for several queries at once, or for one whenever a worker is free.

    Args:
        initialisation: Number of queries of the initialisation stage, ``T_init`` of Theorem 2, after the
            initial ones: each is the most uncertain design :math:`\arg\max_x \sigma_{t-1}(x)` and no value
            is taken into account, unless to fit hyper-parameters that are not known. 0 with ``beta="theory"``: as many
            as are needed, see :mod:`~mfbo_torch.strategies.single.gp_bucb_init`.
        gain: ``C`` of Theorem 1 in nats: with ``beta="theory"`` the squared width is ``exp(2C) α_t``. 0: the bound for
            the largest number of queries that were ever out at once, from
            :func:`~mfbo_torch.confidence.batch_gain_bound`.
        lazy: Whether to compute over candidates only the variances that may matter; the queries are the
            same without.
        **settings: Those of :class:`~mfbo_torch.strategies.single.base.Banded`.

    Raises:
        SettingError: ``initialisation`` or ``gain`` below 0, or at a decision: more queries are wanted at
            once than there are candidates.
    """

    heeds_limits = True

    def __init__(self, *, initialisation: int = 0, gain: float = 0.0, lazy: bool = True, **settings: Any) -> None:
        super().__init__(**settings)
        self.initialisation, self.gain = whole("initialisation", initialisation, 0), number("gain", gain, 0)
        self.lazy = lazy
        self._stages = Stages()

    def ask(self, history: History, n: int = 1) -> list[Query]:
        if (size := len(self.space.candidates)) and whole("n", n) > size:
            raise SettingError("n", n, f"at most {size}, the number of candidates")
        return super().ask(history, n)

    def decide_some(self, history: History, n: int) -> list[Query]:
        """All ``n`` from one selection over the candidates; one by one in a box, or where not all is feasible."""
        candidates = self.candidates(history)
        failed = bool(history.select(Status.FAILED))
        if (
            failed
            or self.space.limits
            or not len(candidates)
            or self.due(history) is not None
            or not self.ready(history)
            or self.untouched(history)
        ):
            return [self.decide(history)]
        one = self.beta in PROVEN  # the width grows with the batch
        q = 1 if one else min(n, len(candidates), self._left(history) or n)
        (model, pending), beta, noted = self.posterior(history), self._beta(history), self._noted(history)
        points = self.surrogate.to(candidates)
        found = greedy_hallucinated_ucb(model, points, beta, q, X_pending=pending, lazy=self.lazy).indices.cpu()
        return [self.query(u, self.level, stage="model", **noted) for u in candidates[found]]

    def width(self, history: History) -> float:
        if self.beta not in PROVEN:
            return super().width(history)
        gain = self.gain or self._stages.gain(self, history, self._batch(history))
        return gp_bucb_beta(super().width(history), gain)

    def _batch(self, history: History) -> int:
        """``B``: the most queries that were ever out at once, the next one included."""
        return max([len(self.pending(history)) + 1, *(r.query.meta.get("batch", 1) for r in history)])

    def _left(self, history: History) -> int:
        """How many queries of the initialisation are left, as far as is known."""
        rounds = self._rounds(history)
        if self.initialisation or self.beta not in PROVEN:
            return max(0, self.initialisation - rounds)
        batch = self._batch(history)
        if any("beta" in r.query.meta and r.query.meta.get("batch", 1) >= batch for r in history):
            return 0
        return int(self._stages.due(self, history, batch, rounds))

    def design(self, history: History, generator: torch.Generator) -> Noted:
        model, pending = self.posterior(history)
        acquisition = HallucinatedUpperConfidenceBound(model, self._beta(history), pending)
        return self.maximiser(acquisition, history, generator), self._noted(history)

    def maximiser(self, acquisition: AcquisitionFunction, history: History, generator: torch.Generator) -> Tensor:
        """As elsewhere over candidates; in a box the search starts at the best design too."""
        if self.space.candidates:
            return super().maximiser(acquisition, history, generator)
        best = history.best(self.level)
        acquisition = self.discounted(acquisition, history)
        return self.maximize_from(acquisition, self.unit_points([best] if best else [])[:, :-1], generator)

    def posterior(self, history: History) -> tuple[CachedGP, Tensor]:
        model, pending = super().posterior(history)
        if self._left(history):
            model = CachedGP(_flat(model))
        return model, pending

    def _beta(self, history: History) -> float:
        """The squared width; while no value is taken into account the mean is constant, and any will do."""
        return 1.0 if self._left(history) else self.width(history)

    def _rounds(self, history: History) -> int:
        """How many queries the model has decided."""
        return sum(r.query.meta.get("stage") == "model" and r.query.fidelity == self.level for r in history)

    def _noted(self, history: History) -> dict[str, Any]:
        noted: dict[str, Any] = {"uncertainty": True} if self._left(history) else {"beta": self.width(history)}
        return {**noted, "batch": self._batch(history)} if self.beta in PROVEN else noted


def _flat(model: CachedGP) -> Model:
    """A model whose observations are where they were, at the value of the prior mean."""
    flat = copy.deepcopy(model.model)
    flat.set_train_data(targets=flat.mean_module(flat.train_inputs[0]).detach(), strict=False)
    return flat
