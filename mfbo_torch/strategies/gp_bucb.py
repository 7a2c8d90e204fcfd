r"""GP-BUCB: upper confidence bounds for batches, delays and asynchronous workers.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.acquisition.greedy import greedy_hallucinated_ucb
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.confidence import gp_bucb_beta
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query
from mfbo_torch.models.cached import CachedGP
from mfbo_torch.strategies.one_gp import ConfidenceWidth


class GPBUCB(ConfidenceWidth):
    r"""GP-BUCB, :math:`x_t = \arg\max_x \mu_{fb[t]}(x) + \beta_t^{1/2} \sigma_{t-1}(x)` [Desautels2012gpbucb]_ (Eq. 4).

    The mean uses the values that have arrived, the deviation also the queries that are still out. The
    history says which those are, so batches, fixed delays and asynchronous workers need no setting: ask
    for several queries at once, or for one whenever a worker is free.

    Args:
        initialisation: Number of queries of the initialisation stage, ``T_init`` of Theorem 2, after the
            initial ones: each is the most uncertain design :math:`\arg\max_x \sigma_{t-1}(x)` and no value
            is taken into account, unless to fit hyper-parameters that are not known.
        gain: ``C`` of Theorem 1 in nats, see :func:`~mfbo_torch.confidence.batch_gain_bound`: with
            ``beta="theory"`` the squared width is ``exp(2C) α_t`` (``α_t`` by default).
        lazy: Whether to compute over candidates only the variances that may matter; the queries are the
            same without.
        **settings: Those of :class:`~mfbo_torch.strategies.one_gp.ConfidenceWidth`.

    Raises:
        SettingError: ``initialisation`` or ``gain`` below 0, or at a decision: more queries are wanted at
            once than there are candidates.
    """

    def __init__(self, *, initialisation: int = 0, gain: float = 0.0, lazy: bool = True, **settings: Any) -> None:
        super().__init__(**settings)
        if isinstance(initialisation, bool) or not isinstance(initialisation, int) or initialisation < 0:
            raise SettingError("initialisation", initialisation, "a whole number from 0 on")
        if not 0 <= gain < math.inf:
            raise SettingError("gain", gain, "a number from 0 on")
        self.initialisation, self.gain, self.lazy = initialisation, gain, lazy

    def ask(self, history: History, n: int = 1) -> list[Query]:
        size = len(self.space.candidates)
        if size and n > size:
            raise SettingError("n", n, f"at most {size}, the number of candidates")
        return super().ask(history, n)

    def decide_some(self, history: History, n: int) -> list[Query]:
        """All ``n`` from one selection over the candidates; one by one in a box."""
        choices = self.choices(history)
        if not len(choices) or self.due(history) is not None or not self.ready(history) or self._untouched(history):
            return [self.decide(history)]
        left = self.initialisation - self._asked(history)
        q = min(n, len(choices), left if left > 0 else n)
        model, beta, pending = self._posterior(history)
        points, noted = self._surrogate.to(choices), self._noted(history, beta)
        found = greedy_hallucinated_ucb(model, points, beta, q, X_pending=pending, lazy=self.lazy).indices.cpu()
        return [self.query(u, self.level, stage="model", **noted) for u in choices[found]]

    def width(self, history: History) -> float:
        return gp_bucb_beta(super().width(history), self.gain if self.beta == "theory" else 0.0)

    def propose(self, history: History, generator: torch.Generator) -> tuple[Tensor, int, dict[str, Any]]:
        if self._untouched(history):
            return self.anywhere(history, generator), self.level, {}
        model, beta, pending = self._posterior(history)
        acquisition = HallucinatedUpperConfidenceBound(model, beta, pending)
        if len(self.space.candidates):
            u = self.maximiser(acquisition, history, generator)
        else:
            best = history.best(self.level)
            u = self.maximize_from(acquisition, self.unit_points([best] if best else [])[:, :-1], generator)
        return u, self.level, self._noted(history, beta)

    def _untouched(self, history: History) -> bool:
        """Whether nothing was asked that is not forgotten: all designs are equal under the known prior."""
        return not self.modelled(history) and not len(self.pending(history))

    def _asked(self, history: History) -> int:
        """How many queries the model has decided."""
        return sum(r.query.meta.get("stage") == "model" and r.query.fidelity == self.level for r in history)

    def _noted(self, history: History, beta: float) -> dict[str, Any]:
        return {"uncertainty": True} if self._asked(history) < self.initialisation else {"beta": beta}

    def _posterior(self, history: History) -> tuple[CachedGP, float, Tensor | None]:
        """Model, squared width and pending designs of the next decision."""
        pending = self._surrogate.to(self.pending(history))
        model = self.model(history, None if self.modelled(history) else pending[:1])
        if not self.modelled(history):
            pending = pending[1:]
        beta = self.width(history)
        if self._asked(history) < self.initialisation:  # the rule with a constant mean, which does not matter
            model, beta = CachedGP(self._flat(model)), 1.0
        return model, beta, pending if len(pending) else None

    @staticmethod
    def _flat(model: CachedGP) -> Model:
        """A model whose observations are where they were, at the value of the prior mean."""
        flat = copy.deepcopy(model.model)
        flat.set_train_data(targets=flat.mean_module(flat.train_inputs[0]).detach(), strict=False)
        return flat
