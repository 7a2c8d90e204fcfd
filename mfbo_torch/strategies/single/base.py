"""Strategies with one Gaussian process at one fidelity: where they search, and the width of their bands."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.acquisition.feasible import WithinLimits
from mfbo_torch.confidence import box_alpha, finite_alpha, practical_beta, rkhs_alpha
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query, Record, Status, values
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.outcome_transform import IDENTITY, MIN_VALUES, Warp, fitted
from mfbo_torch.strategies.common.fit_schedule import quiet
from mfbo_torch.strategies.common.gp import UnitCubeGP
from mfbo_torch.strategies.common.initial_design import single_fidelity_count
from mfbo_torch.strategies.common.model_based import ModelBased
from mfbo_torch.strategies.common.outcome_models import measured, moments_of, outcome_gps
from mfbo_torch.strategies.single.gp_bucb_init import most_information, places
from mfbo_torch.strategies.snapshot import Data, Snapshot, data_of
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.validation import number, whole

Noted = tuple[Tensor, dict[str, Any]]
"""A design of the unit cube, ``1 x d``, and what its query notes."""
PROVEN = ("theory", "rkhs")
"""Widths that a regret bound is proven for."""


class OneFidelity(ModelBased):
    """One GP at one fidelity, the target unless a subclass says otherwise, and an acquisition to maximise.

    Where the space has candidates, the acquisition is maximised over them, exactly, and a design is queried
    again where that is best; designs that failed are left out while there are others. Losses that explode and penalties
    in place of failures are drawn near the other values (:meth:`transform`).

    Args:
        initial: Number of uniform random initial queries, at least 1, or 0 where ``prior`` is given; by default 10, at
            most what half of the capital pays for and at least 2. None by default where ``prior`` is given.
        prior: The process, where it is known; nothing is fitted then.
    """

    def __init__(self, *, initial: int | None = None, prior: Prior | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.initial = None if initial is None else whole("initial", initial, 1 if prior is None else 0)
        self.prior = prior
        self._gp: Memo[UnitCubeGP] = Memo()
        self._transform: Memo[Warp] = Memo()
        self._outcomes: Memo[defaultdict[str, UnitCubeGP]] = Memo()

    @property
    def gp(self) -> UnitCubeGP:
        """The model, for the columns of the space."""
        groups = self.space.groups
        return self._gp(groups, lambda: UnitCubeGP(self.surrogate, self.prior, groups=groups))

    @property
    def level(self) -> int:
        """The fidelity that is modelled and queried."""
        return self.space.target

    def fidelity_at(self, x: Sequence[float], history: History) -> int:
        return self.level

    def budget(self) -> float | None:
        """The capital there is for this fidelity."""
        return self.capital

    def counts(self, snapshot: Snapshot) -> list[int]:
        cost = snapshot.costs[self.level]
        usual = 0 if self.prior is not None else single_fidelity_count(cost, self.budget())
        count = usual if self.initial is None else self.initial
        return [count if m == self.level else 0 for m in range(self.space.num_fidelities)]

    def modelled(self, snapshot: Snapshot) -> list[Record]:
        return self.subset(self.space, snapshot.at(self.level))

    def ready(self, snapshot: Snapshot) -> bool:
        return self.prior is not None or super().ready(snapshot)

    def untouched(self, snapshot: Snapshot) -> bool:
        """Whether no query has a value or is pending, so that all designs are equal under the known prior."""
        return not self.modelled(snapshot) and not len(self.pending(snapshot))

    def pending(self, snapshot: Snapshot) -> Tensor:
        """The pending designs, ``p x d`` in the unit cube."""
        return snapshot.designs(snapshot.at(self.level, Status.PENDING))

    def observed(self, snapshot: Snapshot) -> Data:
        """``n x d`` designs of the unit cube, their ``n x 1`` transformed values, and noise variances where known."""
        return _designs(data_of(self.space, self.modelled(snapshot), self.transform(snapshot)))

    def transform(self, snapshot: Snapshot) -> Warp:
        """The monotone map of the values that the model sees, where outliers lie far below all others.

        The identity elsewhere, and where the process is known or the initial design has too few values to tell.
        """
        known = self.modelled(snapshot)
        if self.prior is not None or len(snapshot.initial_design(known)) < MIN_VALUES:
            return IDENTITY
        records, outliers = snapshot.to_fit_transform(known)
        key = [(r.id, r.value) for r in records]
        return self._transform(key, lambda: fitted(values(records))) if outliers else IDENTITY

    def within_limits(self, snapshot: Snapshot) -> WithinLimits | None:
        records, limits = self.modelled(snapshot), self.space.limits
        if not records or not limits:
            return None
        groups = self.space.groups
        each = self._outcomes(groups, lambda: outcome_gps(self.surrogate, groups))
        moments = moments_of(each, limits, lambda limit: _designs(data_of(self.space, measured(records, limit))))
        return WithinLimits(limits, moments, self.cube.shape[1])

    def posterior(self, snapshot: Snapshot) -> tuple[CachedGP, Tensor]:
        """The model, and the pending designs that it is not conditioned on yet."""
        return self.gp.posterior(*self.observed(snapshot), self.pending(snapshot))

    def hallucinated(self, snapshot: Snapshot) -> CachedGP:
        """The model with the deviation also of the pending designs, for acquisitions that know none."""
        model, pending = self.posterior(snapshot)
        return model.hallucinate(pending)

    def best(self, snapshot: Snapshot) -> float:
        """The best feasible observation in the units of the model, the best one where none is, 0 without any."""
        feasible = [i for i, record in enumerate(self.modelled(snapshot)) if record.feasible]
        return self.gp.best(self.observed(snapshot).Y, feasible or None)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the GP at the fidelity that it models, NaN at the others."""
        snapshot = self.snapshot(history)
        if not self.modelled(snapshot):
            return None
        mean, deviation = torch.full((2, len(X), self.space.num_fidelities), torch.nan, dtype=torch.double)
        own = self.gp.predict(*self.observed(snapshot), self.space.to_unit(X))
        mean[:, self.level], deviation[:, self.level] = self.transform(snapshot).moments(*own)
        return mean, deviation

    def noise_deviations(self, snapshot: Snapshot) -> tuple[float | None, ...]:
        records, own = self.modelled(snapshot), None
        if records:
            own = self.gp.noise(*self.observed(snapshot)) * self.transform(snapshot).unit(values(records))
        return tuple(own if m == self.level else None for m in range(self.space.num_fidelities))

    def deviation(self, Y: Tensor) -> float:
        return self.gp.units(Y)[1]

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        u, noted = self.anywhere(snapshot, generator) if self.untouched(snapshot) else self.design(snapshot, generator)
        if self.space.candidates:  # queried again where that is best
            return self.query(u, self.level, stage="model", **noted)
        return self.placed(u, self.level, snapshot, generator, **noted)

    @abstractmethod
    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        """The design to query, mostly a :meth:`maximiser`, and what to note."""

    def candidates(self, snapshot: Snapshot) -> Tensor:
        """The candidates that may be queried, ``m x d`` in the unit cube; ``0 x d`` for a box."""
        candidates = self.space.unit_candidates
        failed = {r.query.x for r in snapshot.at(self.level, Status.FAILED)} if len(candidates) else set()
        left = [i for i, x in enumerate(self.space.candidates) if x not in failed] if failed else []
        return candidates[left] if left else candidates

    def anywhere(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        """A random design, with nothing to note."""
        candidates = self.candidates(snapshot)
        if len(candidates):
            return candidates[torch.randint(len(candidates), (1,), generator=generator)], {}
        return self.random_design(generator).unsqueeze(0), {}

    def discounted(self, acquisition: AcquisitionFunction, snapshot: Snapshot) -> AcquisitionFunction:
        """An acquisition, the logarithm of a gain as is usual, that knows where evaluations fail."""
        return self.feasible(acquisition, snapshot, self.level)

    def maximiser(self, acquisition: AcquisitionFunction, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        """The best candidate, or the best point of the box, ``1 x d``, failures considered."""
        acquisition = self.discounted(acquisition, snapshot)
        candidates = self.candidates(snapshot)
        if not len(candidates):
            return self.climbed(acquisition, snapshot, generator)
        with torch.no_grad(), quiet():
            scores = [acquisition(some.unsqueeze(-2)) for some in self.surrogate.to(candidates).split(4096)]
        return candidates[torch.cat(scores).argmax().reshape(1).cpu()]

    def climbed(self, acquisition: AcquisitionFunction, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        """The best point of the box, ``1 x d``."""
        return self.maximize(acquisition, generator, num_restarts=10, raw_samples=256)[0]


def _designs(data: Data) -> Data:
    """The same without the column of the fidelity."""
    return data._replace(X=data.X[:, :-1], Y=data.Y.reshape(-1, 1))


class Banded(OneFidelity):
    """A strategy with a confidence band ``μ ± β_t^½ σ``.

    Args:
        beta: The squared width ``β``. ``None``: the practical ``β_t = 0.2 d log 2t``
            [Kandasamy2016mfgpucb]_ (Appendix B). ``"theory"``: the ``α_t`` of the regret bound, case 1 for a
            space with candidates and case 2 for a box [Desautels2012gpbucb]_ (Theorem 1), for a box with ``GPUCB`` that
            of [Kandasamy2016mfgpucb]_ (Theorem 4), times ``scale``; ``"rkhs"``:
            case 3, for a fixed function whose norm in the space of the kernel of ``prior`` is at most ``norm``.
            ``t`` is one more than the queries at this fidelity that have ended, so that a batch has one width.
        delta: Probability with which the bound may fail, in (0, 1).
        scale: What ``α_t`` is multiplied by, above 0; 0.2 in the experiments of [Srinivas2010gpucb]_.
        norm: The bound ``M`` of case 3, above 0.
        a: For a box: slopes of the process exceed ``L`` with probability at most ``a exp(-(L/b)²)``, above 0.
        b: As there, above 0, in units of values per side of the unit cube.
        r: The side of the box, above 0.
    """

    def __init__(
        self,
        *,
        beta: float | str | None = None,
        delta: float = 0.1,
        scale: float = 1.0,
        norm: float = 1.0,
        a: float = 1.0,
        b: float = 1.0,
        r: float = 1.0,
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
        self.a, self.b, self.r = (number(name, given, above=0) for name, given in (("a", a), ("b", b), ("r", r)))

    def box_width(self, t: int) -> float:
        """The ``α_t`` of a box."""
        return box_alpha(t, self.space.dim, self.delta, a=self.a, b=self.b, side=self.r)

    def width(self, snapshot: Snapshot) -> float:
        """``β_t``."""
        ended = [r for r in snapshot.records if r.query.fidelity == self.level and r.status != Status.PENDING]
        t = 1 + sum(r.decided for r in ended)
        if self.beta is None:
            return practical_beta(t, self.space.dim)
        if not isinstance(self.beta, str):
            return self.beta
        if self.beta == "rkhs":
            prior = self.gp.prior  # as the columns of the unit cube want it
            assert prior is not None
            gain = most_information(prior, places(self.space), t)
            return self.scale * rkhs_alpha(t, gain, self.delta, norm=self.norm)
        if self.space.candidates:
            return self.scale * finite_alpha(t, len(self.space.candidates), self.delta)
        return self.scale * self.box_width(t)

    def discounted(self, acquisition: AcquisitionFunction, snapshot: Snapshot) -> AcquisitionFunction:
        """A bound gains what it is above the largest mean of an observed design."""

        def best_mean() -> float:
            if not (records := self.modelled(snapshot)):
                return 0.0
            feasible = self.surrogate.to(snapshot.designs([r for r in records if r.feasible]))
            with torch.no_grad(), quiet():
                return float(acquisition.model.posterior(feasible.unsqueeze(-2)).mean.max())

        return self.feasible(acquisition, snapshot, self.level, best_mean)
