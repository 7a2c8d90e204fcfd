r"""Strategies with one Gaussian process at one fidelity: where they search, and the width of their bands.

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

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.acquisition.feasible import WithinLimits
from mfbo_torch.confidence import box_alpha, finite_alpha, practical_beta, rkhs_alpha
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query, Record, Status, values
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.outcome_transform import IDENTITY, LEAST, Warp, fitted
from mfbo_torch.strategies.common.fit_schedule import Memo, quiet
from mfbo_torch.strategies.common.gp import Process
from mfbo_torch.strategies.common.initial_design import single_fidelity_count
from mfbo_torch.strategies.common.model_based import ModelBased
from mfbo_torch.strategies.common.outcome_models import Each, measured, moments_of, processes
from mfbo_torch.strategies.common.tails import designed, shaping, through
from mfbo_torch.strategies.single.gp_bucb_init import most_information, places
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, whole

Noted = tuple[Tensor, dict[str, Any]]
"""A design, and what it is noted with."""
PROVEN = ("theory", "rkhs")
"""Widths that a regret bound is proven for."""


class OneFidelity(ModelBased):
    """One GP at one fidelity, the target unless a subclass says otherwise, and an acquisition to maximise.

    Where the space has candidates, the acquisition is maximised over them, exactly, and a design is asked
    again where that is best; designs that failed are left out while there are others. Losses that explode and penalties
    in place of failures are drawn near the other values (:meth:`map`).

    Args:
        initial: Number of uniform random initial queries; by default 10, at most what half of the
            capital pays for and at least 2. None by default where ``prior`` is given.
        prior: The process, where it is known; nothing is fitted then.
        **settings: Those of :class:`~mfbo_torch.strategies.common.model_based.ModelBased`.

    Raises:
        SettingError: ``initial`` below 1, or below 0 where ``prior`` is given.
    """

    def __init__(self, *, initial: int | None = None, prior: Prior | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.initial = None if initial is None else whole("initial", initial, 1 if prior is None else 0)
        self.prior = prior
        self._process: Memo[Process] = Memo()
        self._warp: Memo[Warp] = Memo()
        self._outcomes: Memo[Each[Process]] = Memo()

    @property
    def process(self) -> Process:
        """The model, for the columns of the space."""
        groups = self.space.groups
        return self._process(groups, lambda: Process(self.surrogate, self.prior, groups=groups))

    @property
    def level(self) -> int:
        """The fidelity that is modelled and asked."""
        return self.space.target

    def fidelity_at(self, x: Sequence[float], history: History) -> int:
        return self.level

    def budget(self) -> float | None:
        """The capital there is for this fidelity."""
        return self.capital

    def counts(self, history: History) -> list[int]:
        cost = self.costs(history)[self.level]
        usual = 0 if self.prior is not None else single_fidelity_count(cost, self.budget())
        count = usual if self.initial is None else self.initial
        return [count if m == self.level else 0 for m in range(self.space.num_fidelities)]

    def modelled(self, history: History) -> list[Record]:
        return self.subset(self.space, history.select(Status.DONE, self.level))

    def ready(self, history: History) -> bool:
        return self.prior is not None or super().ready(history)

    def untouched(self, history: History) -> bool:
        """Whether nothing was asked that is not forgotten: all designs are equal under the known prior."""
        return not self.modelled(history) and not len(self.pending(history))

    def pending(self, history: History) -> Tensor:
        """The designs whose values are still out, ``p x d`` in the unit cube."""
        return self.unit_points(history.select(Status.PENDING, self.level))[:, :-1]

    def observed(self, history: History) -> tuple[Tensor, Tensor, Tensor | None]:
        """``n x d`` designs of the unit cube, and their ``n x 1`` values as :meth:`map` has them, with the variances of
        their noise where known."""
        return self._observed(self.modelled(history), self.map(history))

    def map(self, history: History) -> Warp:
        """Through which the model sees the values: a monotone map where some are far below all others, such as losses
        that explode or penalties in place of failures, beside which the others would be lost; else the identity, as
        where the process is known or the first design has too few values to tell."""
        known = self.modelled(history)
        if self.prior is not None or len(designed(history, known)) < LEAST:
            return IDENTITY
        records, far = shaping(history, known)
        return self._warp([(r.id, r.value) for r in records], lambda: fitted(values(records))) if far else IDENTITY

    def _observed(self, records: list[Record], map: Warp = IDENTITY) -> tuple[Tensor, Tensor, Tensor | None]:
        Y, Yvar = through(map, records)
        return self.unit_points(records)[:, :-1], Y.reshape(-1, 1), Yvar

    def within_limits(self, history: History) -> WithinLimits | None:
        records, limits = self.modelled(history), self.space.limits
        if not records or not limits:
            return None
        groups = self.space.groups
        each = self._outcomes(groups, lambda: processes(self.surrogate, groups))
        moments = moments_of(each, limits, lambda limit: self._observed(measured(records, limit)))
        return WithinLimits(limits, moments, self.cube.shape[1])

    def posterior(self, history: History) -> tuple[CachedGP, Tensor]:
        """The model, and the pending designs that it is not conditioned on yet."""
        return self.process.posterior(*self.observed(history), self.pending(history))

    def hallucinated(self, history: History) -> CachedGP:
        """The model with the deviation also of the pending designs, for acquisitions that know none."""
        model, pending = self.posterior(history)
        return model.hallucinate(pending)

    def best(self, history: History) -> float:
        """The best feasible observation in the units of the model, the best one where none is, 0 without any."""
        feasible = [i for i, record in enumerate(self.modelled(history)) if record.feasible]
        return self.process.best(self.observed(history)[1], feasible or None)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the GP at the fidelity that it models, NaN at the others."""
        if not self.modelled(history):
            return None
        mean, deviation = torch.full((2, len(X), self.space.num_fidelities), torch.nan, dtype=torch.double)
        own = self.map(history).moments(*self.process.predict(*self.observed(history), self.space.to_unit(X)))
        mean[:, self.level], deviation[:, self.level] = own
        return mean, deviation

    def foretold(self, history: History, u: Tensor) -> tuple[float, float]:
        """Mean and deviation of what would be observed at ``1 x d`` designs of the unit cube, as :meth:`map` has it."""
        mean, deviation = self.process.predict(*self.observed(history), u, observed=True)
        return mean.item(), deviation.item()

    def noise_deviations(self, history: History) -> tuple[float | None, ...]:
        records = self.modelled(history)
        own = self.process.noise(*self.observed(history)) * self.map(history).unit(values(records)) if records else None
        return tuple(own if m == self.level else None for m in range(self.space.num_fidelities))

    def deviation(self, Y: Tensor) -> float:
        return self.process.units(Y)[1]

    def propose(self, history: History, generator: torch.Generator) -> Query:
        if self.untouched(history):
            return self.asked(self.anywhere(history, generator), history, generator)
        u, noted = self.design(history, generator)
        return self.asked(u, history, generator, **noted)

    @abstractmethod
    def design(self, history: History, generator: torch.Generator) -> Noted:
        """The design to ask, ``1 x d`` in the unit cube, and what to note: mostly a :meth:`maximiser`."""

    def asked(self, u: Tensor, history: History, generator: torch.Generator, **noted: Any) -> Query:
        """The query at a design, or near it; a candidate is asked again where that is best."""
        if self.space.candidates:
            return self.query(u, self.level, stage="model", **noted)
        return self.placed(u, self.level, history, generator, **noted)

    def candidates(self, history: History) -> Tensor:
        """The candidates that may be asked, ``m x d`` in the unit cube; ``0 x d`` for a box."""
        candidates = self.space.unit_candidates
        failed = {r.query.x for r in history.select(Status.FAILED, self.level)} if len(candidates) else set()
        left = [i for i, x in enumerate(self.space.candidates) if x not in failed] if failed else []
        return candidates[left] if left else candidates

    def anywhere(self, history: History, generator: torch.Generator) -> Tensor:
        """A random design: before anything was asked, all are equal under a known prior."""
        candidates = self.candidates(history)
        if len(candidates):
            return candidates[torch.randint(len(candidates), (1,), generator=generator)]
        return self.random_design(generator).unsqueeze(0)

    def discounted(self, acquisition: AcquisitionFunction, history: History) -> AcquisitionFunction:
        """An acquisition, the logarithm of a gain as is usual, that knows where evaluations fail."""
        return self.feasible(acquisition, history, self.level)

    def maximiser(self, acquisition: AcquisitionFunction, history: History, generator: torch.Generator) -> Tensor:
        """The best candidate, or the best point of the box, ``1 x d``, failures considered."""
        acquisition = self.discounted(acquisition, history)
        candidates = self.candidates(history)
        if not len(candidates):
            return self.maximize(acquisition, generator, num_restarts=10, raw_samples=256)[0]
        with torch.no_grad(), quiet():
            scores = [acquisition(some.unsqueeze(-2)) for some in self.surrogate.to(candidates).split(4096)]
        return candidates[torch.cat(scores).argmax().reshape(1).cpu()]


class Banded(OneFidelity):
    """A strategy with a confidence band ``μ ± β_t^½ σ``.

    Args:
        beta: The squared width ``β``. ``None``: the practical ``β_t = 0.2 d log 2t``
            [Kandasamy2016mfgpucb]_ (Appendix B). ``"theory"``: the ``α_t`` of the regret bound, case 1 for a
            space with candidates and case 2 for a box [Desautels2012gpbucb]_ (Theorem 1), times ``scale``; ``"rkhs"``:
            case 3, for a fixed function whose norm in the space of the kernel of ``prior`` is at most ``norm``.
            ``t`` is one more than the queries at this fidelity that have ended, so that a batch has one width.
        delta: Probability with which the bound may fail.
        scale: What ``α_t`` is multiplied by; 0.2 in the experiments of [Srinivas2010gpucb]_.
        norm: The bound ``M`` of case 3.
        **settings: Those of :class:`OneFidelity`.

    Raises:
        SettingError: ``beta`` is none of these, or negative, or ``"rkhs"`` without a ``prior``; ``delta`` is not
            between 0 and 1; ``scale`` or ``norm`` is not positive.
    """

    def __init__(
        self,
        *,
        beta: float | str | None = None,
        delta: float = 0.1,
        scale: float = 1.0,
        norm: float = 1.0,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        if beta is not None and beta not in PROVEN:
            beta = number("beta", beta, 0, wanted="a number from 0 on, 'theory', 'rkhs' or None")
        if beta == "rkhs" and self.prior is None:
            raise SettingError("beta", beta, "used with a prior, whose kernel the norm is about")
        self.norm = number("norm", norm, above=0)
        self.beta, self.delta = beta, number("delta", delta, above=0, below=1)
        self.scale = number("scale", scale, above=0)

    def width(self, history: History) -> float:
        """``β_t``."""
        t = 1 + sum(r.query.fidelity == self.level and r.status != Status.PENDING and r.decided for r in history)
        if self.beta is None:
            return practical_beta(t, self.space.dim)
        if not isinstance(self.beta, str):
            return self.beta
        if self.beta == "rkhs":
            prior = self.process.prior  # as the columns of the unit cube want it
            assert prior is not None
            gain = most_information(prior, places(self.space), t)
            return self.scale * rkhs_alpha(t, gain, self.delta, norm=self.norm)
        if self.space.candidates:
            return self.scale * finite_alpha(t, len(self.space.candidates), self.delta)
        return self.scale * box_alpha(t, self.space.dim, self.delta)

    def discounted(self, acquisition: AcquisitionFunction, history: History) -> AcquisitionFunction:
        """A bound gains what it is above the largest mean of an observed design."""
        return self.feasible(acquisition, history, self.level, lambda: self._best_mean(acquisition.model, history))

    def _best_mean(self, model: Model, history: History) -> float:
        if not self.modelled(history):
            return 0.0
        feasible, _, _ = self._observed([r for r in self.modelled(history) if r.feasible])
        with torch.no_grad(), quiet():
            return float(model.posterior(self.surrogate.to(feasible).unsqueeze(-2)).mean.max())
