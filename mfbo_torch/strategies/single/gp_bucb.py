"""GP-BUCB: upper confidence bounds for batches, delays and asynchronous workers."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.acquisition.greedy import greedy_hallucinated_ucb
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.confidence import batch_gain_bound, gp_bucb_beta
from mfbo_torch.history import History, Query, Status
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.strategies.single.base import PROVEN, Banded, Noted
from mfbo_torch.strategies.single.gp_bucb_init import most_information, multiplier, places
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.validation import number, whole


class GPBUCB(Banded):
    r"""GP-BUCB, :math:`x_t = \arg\max_x \mu_{fb[t]}(x) + \beta_t^{1/2} \sigma_{t-1}(x)` [Desautels2012gpbucb]_ (Eq. 4).

    The mean uses the values that have arrived, the deviation also the pending queries. Batches, fixed delays and
    asynchronous workers need no setting: ask for several queries at once, or for one whenever a worker is free.

    Args:
        initialisation: Number of queries of the initialisation stage, ``T_init`` of Theorem 2, after the
            initial ones: each is the most uncertain design :math:`\arg\max_x \sigma_{t-1}(x)`, whatever the values
            (they only fit hyper-parameters that are not known). 0 with ``beta="theory"``: as many as are needed.
        gain: ``C`` of Theorem 1 in nats: with ``beta="theory"`` the squared width is ``exp(2C) α_t``. 0: the bound for
            the largest number of queries that were ever pending at once.
        lazy: Whether to compute over candidates only the variances that may matter; the queries are the same without.

    Raises:
        SettingError: At a decision, more queries are wanted at once than there are candidates.
    """

    heeds_limits = True

    def __init__(self, *, initialisation: int = 0, gain: float = 0.0, lazy: bool = True, **settings: Any) -> None:
        super().__init__(**settings)
        self.initialisation, self.gain = whole("initialisation", initialisation, 0), number("gain", gain, 0)
        self.lazy = lazy
        self._information: Memo[float] = Memo()

    def ask(self, history: History, n: int = 1) -> list[Query]:
        if (size := len(self.space.candidates)) and whole("n", n) > size:
            raise SettingError("n", n, f"at most {size}, the number of candidates")
        return super().ask(history, n)

    def decide_some(self, history: History, n: int) -> list[Query]:
        """All ``n`` from one selection over the candidates; one by one in a box, or where not all is feasible."""
        snapshot = self.snapshot(history)
        candidates = self.candidates(snapshot)
        failed = any(r.status == Status.FAILED for r in snapshot.records)
        begun = self.due(snapshot) is None and self.ready(snapshot) and not self.untouched(snapshot)
        if failed or self.space.limits or not len(candidates) or not begun:
            return [self.next_query(snapshot)]
        one = self.beta in PROVEN  # the width grows with the batch
        q = 1 if one else min(n, len(candidates), self._left(snapshot) or n)
        (model, pending), beta, noted = self.posterior(snapshot), self._beta(snapshot), self._noted(snapshot)
        points = self.surrogate.to(candidates)
        found = greedy_hallucinated_ucb(model, points, beta, q, X_pending=pending, lazy=self.lazy).indices.cpu()
        queries = [self.query(u, self.level, stage="model", **noted) for u in candidates[found]]
        return [self.with_prediction(query, snapshot) for query in queries]

    def width(self, snapshot: Snapshot) -> float:
        if self.beta not in PROVEN:
            return super().width(snapshot)
        none = self.surrogate.to(snapshot.designs([]))
        gain = self.gain or self._batch_information(snapshot, none, self._batch(snapshot))
        return gp_bucb_beta(super().width(snapshot), gain)

    def _batch(self, snapshot: Snapshot) -> int:
        """``B``: the most queries that were ever pending at once, the next one included."""
        return max([len(self.pending(snapshot)) + 1, *(r.query.meta.get("batch", 1) for r in snapshot.records)])

    def _batch_information(self, snapshot: Snapshot, pending: Tensor, batch: int) -> float:
        """``C`` in nats [Desautels2012gpbucb]_ (Theorem 1), given the observations and ``p x d`` pending designs.

        It bounds what ``B - 1`` further observations can tell; as information never hurts it is a bound for all later
        rounds.
        """
        if batch == 1:
            return 0.0
        gp, data = self.gp, self.observed(snapshot)
        if not len(data.X) and not len(pending) and gp.prior is not None:
            return most_information(gp.prior, places(self.space), batch - 1)
        model, waiting = gp.posterior(*data, pending)
        model = model.hallucinate(waiting)

        def bound() -> float:
            with torch.no_grad():
                _, covariance, noise = model.joint(self.surrogate.to(places(self.space)))
            return batch_gain_bound(covariance, noise.min().item(), batch)

        return self._information((data.X.tolist(), data.Y.tolist(), pending.tolist(), batch), bound)

    def _left(self, snapshot: Snapshot) -> int:
        r"""How many queries of the initialisation are left, as far as is known.

        Unless given, ``T_init`` is the least number of rounds after which ``C`` is at most :math:`\log C'`, the
        multiplier of Table 1, so that batches of any size cost that factor; at most half of the capital goes there.
        """
        rounds = sum(r.query.fidelity == self.level and r.query.meta.get("stage") == "model" for r in snapshot.records)
        if self.initialisation or self.beta not in PROVEN:
            return max(0, self.initialisation - rounds)
        batch = self._batch(snapshot)
        if any("beta" in r.query.meta and r.query.meta.get("batch", 1) >= batch for r in snapshot.records):
            return 0
        if batch == 1 or (self.capital is not None and rounds * snapshot.costs[self.level] >= self.capital / 2):
            return 0
        known = self._batch_information(snapshot, self.surrogate.to(self.pending(snapshot)), batch)
        return int(known > math.log(multiplier(self.prior, self.space.dim, batch)))

    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        model, pending = self.posterior(snapshot)
        acquisition = HallucinatedUpperConfidenceBound(model, self._beta(snapshot), pending)
        return self.maximiser(acquisition, snapshot, generator), self._noted(snapshot)

    def climbed(self, acquisition: AcquisitionFunction, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        """The search starts at the best design too."""
        best = snapshot.best(self.level)
        return self.maximize_from(acquisition, snapshot.designs([best] if best else []), generator)

    def posterior(self, snapshot: Snapshot) -> tuple[CachedGP, Tensor]:
        model, pending = super().posterior(snapshot)
        if self._left(snapshot):  # the observations are where they were, at the value of the prior mean
            flat = copy.deepcopy(model.model)
            flat.set_train_data(targets=flat.mean_module(flat.train_inputs[0]).detach(), strict=False)
            model = CachedGP(flat)
        return model, pending

    def _beta(self, snapshot: Snapshot) -> float:
        """The squared width; while no value is taken into account the mean is constant, and any will do."""
        return 1.0 if self._left(snapshot) else self.width(snapshot)

    def _noted(self, snapshot: Snapshot) -> dict[str, Any]:
        noted: dict[str, Any] = {"uncertainty": True} if self._left(snapshot) else {"beta": self.width(snapshot)}
        return {**noted, "batch": self._batch(snapshot)} if self.beta in PROVEN else noted
