r"""What the strategies with one GP at one fidelity share: the model, the candidates, the width of the band.

References:

.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit
    Optimisation with Multi-fidelity Evaluations. NeurIPS 2016.

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.

.. [Srinivas2010gpucb]
    N. Srinivas, A. Krause, S. Kakade, M. Seeger. Gaussian Process Optimization in the Bandit
    Setting: No Regret and Experimental Design. ICML 2010.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.confidence import box_alpha, finite_alpha, practical_beta
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Record, Status
from mfbo_torch.models.cached import CachedGP
from mfbo_torch.prior import Prior
from mfbo_torch.strategies._gp import quiet, standardized
from mfbo_torch.strategies.design import single_fidelity_count
from mfbo_torch.strategies.model_based import ModelBased


def single_task_gp(X: Tensor, Y: Tensor) -> Model:
    """BoTorch's default model on the unit cube, for targets that are standardized already."""
    return SingleTaskGP(X, Y, outcome_transform=None)


class SingleFidelity(ModelBased):
    """One GP at one fidelity, the target unless a subclass says otherwise.

    Where the space has candidates, the acquisition is maximised over them, exactly, and a design is asked
    again where that is best; designs that failed are left out while there are others.

    Args:
        initial: Number of uniform random initial queries; by default 10, at most what half of the
            capital pays for and at least 2. None by default where ``prior`` is given.
        prior: The process, where it is known; nothing is fitted then.
        **settings: Those of :class:`~mfbo_torch.strategies.model_based.ModelBased`.

    Raises:
        SettingError: ``initial`` below 1, or below 0 where ``prior`` is given.
    """

    def __init__(self, *, initial: int | None = None, prior: Prior | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        least = 1 if prior is None else 0
        if initial is not None and (isinstance(initial, bool) or not isinstance(initial, int) or initial < least):
            raise SettingError("initial", initial, f"a whole number from {least} on")
        self.initial, self.prior = initial, prior
        self._kept: tuple[Any, CachedGP] | None = None

    @property
    def level(self) -> int:
        """The fidelity that is modelled and asked."""
        return self.space.target

    def budget(self) -> float | None:
        """The capital there is for this fidelity."""
        return self.capital

    @property
    def repeats(self) -> bool:
        return bool(self.space.candidates)

    def counts(self, history: History) -> list[int]:
        cost = self.costs(history)[self.level]
        usual = 0 if self.prior is not None else single_fidelity_count(cost, self.budget())
        count = usual if self.initial is None else self.initial
        return [count if m == self.level else 0 for m in range(self.space.num_fidelities)]

    def modelled(self, history: History) -> list[Record]:
        return history.select(Status.DONE, self.level)

    def ready(self, history: History) -> bool:
        return self.prior is not None or super().ready(history)

    def pending(self, history: History) -> Tensor:
        """The designs whose values are still out, ``p x d`` in the unit cube."""
        return self.unit_points(history.select(Status.PENDING, self.level))[:, :-1]

    def choices(self, history: History) -> Tensor:
        """The candidates that may be asked, ``m x d`` in the unit cube; ``0 x d`` for a box."""
        candidates = self.space.unit_candidates
        failed = {r.query.x for r in history.select(Status.FAILED, self.level)} if len(candidates) else set()
        left = [i for i, x in enumerate(self.space.candidates) if x not in failed] if failed else []
        return candidates[left] if left else candidates

    def model(self, history: History, X_believed: Tensor | None = None) -> CachedGP:
        """The model of what was observed; the last one is kept for the other queries of a batch.

        Args:
            history: Everything asked so far; there is an observation, or a prior and a believed design.
            X_believed: ``p x d`` designs where the posterior mean is believed.
        """
        believed = [] if X_believed is None else X_believed.tolist()
        key = ([(r.query.x, r.value) for r in self.modelled(history)], believed)
        if self._kept is None or self._kept[0] != key:
            self._kept = (key, CachedGP(self._model(history, X_believed)))
        return self._kept[1]

    def _model(self, history: History, X_believed: Tensor | None) -> Model:
        records = self.modelled(history)
        if self.prior is None:
            X, Y = self.data(records)
            return self._surrogate.model(single_task_gp, X[:, :-1], Y, X_believed)
        if not records and X_believed is not None:  # at the first one the mean is that of the prior
            first = X_believed[:1]
            Y = torch.full_like(first[:, :1], self.prior.mean)
            return self._surrogate.known(self.prior, first, Y, X_believed[1:])
        X, Y = self.data(records)
        return self._surrogate.known(self.prior, X[:, :-1], Y, X_believed)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the GP at the fidelity that it models, NaN at the others."""
        records = self.modelled(history)
        if not records:
            return None
        points, Y = self.data(records)
        at = self.space.to_unit(X)
        if self.prior is None:
            own = self._surrogate.predict(single_task_gp, points[:, :-1], Y, at)
        else:
            with torch.no_grad(), quiet():
                found = self.model(history).posterior(self._surrogate.to(at).unsqueeze(-2))
            spread = math.sqrt(self.prior.outputscale)
            own = (self.prior.mean + spread * found.mean.reshape(-1), spread * found.variance.sqrt().reshape(-1))
        mean, deviation = torch.full((2, len(X), self.space.num_fidelities), torch.nan, dtype=torch.double)
        mean[:, self.level], deviation[:, self.level] = (part.to(mean) for part in own)
        return mean, deviation

    def best(self, history: History) -> float:
        """The best observation in the units of the model, 0 where there is none."""
        if not self.modelled(history):
            return 0.0
        _, Y = self.data(self.modelled(history))
        if self.prior is None:
            return standardized(Y).max().item()
        return (Y.max().item() - self.prior.mean) / math.sqrt(self.prior.outputscale)

    def anywhere(self, history: History, generator: torch.Generator) -> Tensor:
        """A random design: before anything was asked, all are equal under a known prior."""
        choices = self.choices(history)
        if len(choices):
            return choices[torch.randint(len(choices), (1,), generator=generator)]
        return self.random_design(generator).unsqueeze(0)

    def maximiser(self, acquisition: AcquisitionFunction, history: History, generator: torch.Generator) -> Tensor:
        """The best candidate, or the best point of the box, ``1 x d``."""
        choices = self.choices(history)
        if not len(choices):
            return self.maximize(acquisition, generator, num_restarts=10, raw_samples=256)[0]
        with torch.no_grad(), quiet():
            scores = [acquisition(some.unsqueeze(-2)) for some in self._surrogate.to(choices).split(4096)]
        return choices[torch.cat(scores).argmax().reshape(1).cpu()]


class ConfidenceWidth(SingleFidelity):
    """A strategy with a confidence band ``μ ± β_t^½ σ``.

    Args:
        beta: The squared width ``β``. ``None``: the practical ``β_t = 0.2 d log 2t``
            [Kandasamy2016mfgpucb]_ (Appendix B). ``"theory"``: the ``α_t`` of the regret bound, case 1 for a
            space with candidates and case 2 for a box [Desautels2012gpbucb]_ (Theorem 1), times ``scale``.
            ``t`` is one more than the queries at this fidelity that have ended, so that a batch has one width.
        delta: Probability with which the bound may fail.
        scale: What ``α_t`` is multiplied by; 0.2 in the experiments of [Srinivas2010gpucb]_.
        **settings: Those of :class:`SingleFidelity`.

    Raises:
        SettingError: ``beta`` is neither, or negative; ``delta`` is not between 0 and 1; ``scale`` is not
            positive.
    """

    def __init__(
        self, *, beta: float | str | None = None, delta: float = 0.1, scale: float = 1.0, **settings: Any
    ) -> None:
        super().__init__(**settings)
        if (isinstance(beta, str) and beta != "theory") or (
            isinstance(beta, (int, float)) and not 0 <= beta < math.inf
        ):
            raise SettingError("beta", beta, "a number from 0 on, 'theory' or None")
        if not 0 < delta < 1:
            raise SettingError("delta", delta, "between 0 and 1")
        if not 0 < scale < math.inf:
            raise SettingError("scale", scale, "a number above 0")
        self.beta, self.delta, self.scale = beta, delta, scale

    def width(self, history: History) -> float:
        """``β_t``."""
        t = 1 + sum(r.query.fidelity == self.level and r.status != Status.PENDING for r in history)
        if self.beta is None:
            return practical_beta(t, self.space.dim)
        if not isinstance(self.beta, str):
            return self.beta
        if self.space.candidates:
            return self.scale * finite_alpha(t, len(self.space.candidates), self.delta)
        return self.scale * box_alpha(t, self.space.dim, self.delta)
