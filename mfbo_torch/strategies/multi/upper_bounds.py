"""What the two forms of MF-GP-UCB have in common: the model, its bound, and the search for the bound's maximiser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.acquisition.feasible import WithinLimits
from mfbo_torch.acquisition.multi_fidelity_ucb import MultiFidelityUpperConfidenceBound, StandardizedBound
from mfbo_torch.confidence import mf_gp_ucb_beta, practical_beta
from mfbo_torch.history import History, Record, values
from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
from mfbo_torch.models.outcome_transform import IDENTITY, Warp
from mfbo_torch.strategies.common.fit_schedule import LARGE, Growing, fitting, refit_step
from mfbo_torch.strategies.common.outcome_models import Chain, measured, within
from mfbo_torch.strategies.multi.base import MultiFidelityModelBased
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import calibrated_beta
from mfbo_torch.strategies.snapshot import Data, Snapshot, data_of
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.validation import number


class UpperBounds(MultiFidelityModelBased):
    """A strategy that maximises an upper confidence bound of a :class:`~mfbo_torch.models.PerFidelityGP`.

    Args:
        beta: As that of :class:`~mfbo_torch.strategies.MFGPUCB`.
        **settings: Those of :class:`~mfbo_torch.strategies.multi.base.MultiFidelityModelBased`.
    """

    heeds_limits = True
    link: str
    """How the model links its fidelities."""
    integrated_outcomes = False
    """Whether the links of the outcomes' models are integrated out."""

    def __init__(self, *, beta: float | str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        if beta is not None and beta not in ("theory", "calibrated"):
            beta = number("beta", beta, 0, wanted="a number from 0 on, 'theory', 'calibrated' or None")
        self.beta = beta
        self._growing: Growing[PerFidelityGP] = Growing(self.refit_every)
        self._outcomes: dict[str, tuple[Growing[PerFidelityGP], Memo[CoKrigingGP]]] = {}

    def model(self, snapshot: Snapshot) -> PerFidelityGP:
        """The model of everything observed, with hyper-parameters fitted to the first part of it."""
        return self.grown(self._growing, self.modelled(snapshot), self.transform(snapshot))

    def bounded(
        self,
        model: PerFidelityGP,
        snapshot: Snapshot,
        generator: torch.Generator,
        zeta: Sequence[float] | None = None,
        beta: float | None = None,
    ) -> tuple[Tensor, float]:
        """The maximiser ``1 x d`` of the upper bound, and its squared width ``beta``, by default that of its time."""
        beta = self.width(snapshot) if beta is None else beta
        bound = StandardizedBound(MultiFidelityUpperConfidenceBound(model, beta, zeta, self.pending(snapshot)))
        incumbents = snapshot.incumbents
        score = self.feasible(
            bound, snapshot, self.space.target, lambda: bound.mean(self.surrogate.to(incumbents[-1:]))
        )
        return self.searched(score, snapshot, generator), beta

    def width(self, snapshot: Snapshot) -> float:
        """The squared width ``β_t``."""
        t, dim = snapshot.time, self.space.dim
        if self.beta == "calibrated":
            return calibrated_beta(snapshot.records)
        if isinstance(self.beta, str):
            return mf_gp_ucb_beta(t, dim, self.space.num_fidelities)
        return practical_beta(t, dim) if self.beta is None else self.beta

    def searched(self, score: AcquisitionFunction, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        """The maximiser ``1 x d`` of an acquisition, searched from the best design of each fidelity."""
        return self.snapped(self.maximize_from(score, snapshot.incumbents, generator))

    def snapped(self, u: Tensor) -> Tensor:
        """The design nearest to a point that can be queried, where the models live."""
        return self.surrogate.to(self.space.snap(u.to("cpu", torch.double)))

    def pending(self, snapshot: Snapshot) -> Tensor | None:
        """The pending points ``p x (d + 1)``, where the models live; ``None`` for none."""
        return self.surrogate.to(snapshot.flying) if snapshot.pending else None

    def predicted(self, model: Chain, u: Tensor, fidelity: int, transform: Warp = IDENTITY) -> dict[str, Any]:
        """What the model predicts at a query, for the log and for the check of ζ."""
        with torch.no_grad():
            mean, variance = model.mean_variance(self.surrogate.to(u))
        seen = transform.moments(mean[0], (variance[0] + model.noise).sqrt())[1]
        mean, deviation = transform.moments(mean[0], variance[0].sqrt())
        noted = {
            "mean": mean[fidelity].item(),
            "deviation": deviation[fidelity].item(),
            "spread": seen[fidelity].item(),
        }
        return noted if fidelity == 0 else {**noted, "mean_below": mean[fidelity - 1].item()}

    def free(self, fidelity: int, snapshot: Snapshot) -> int:
        """As long as the target has no value, that of one that spends the rest; what is then found below it would
        change no recommendation."""
        known = snapshot.history.best(self.space.target) is not None
        return self.left(fidelity, snapshot) if known else super().free(fidelity, snapshot)

    def best_model(self, snapshot: Snapshot) -> tuple[Chain, Warp]:
        """The model that predictions are made with, and the transform of its values."""
        return self.model(snapshot), self.transform(snapshot)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of every fidelity that was observed; NaN at the others."""
        snapshot = self.snapshot(history)
        records = self.modelled(snapshot)
        if not records:
            return None
        model, transform = self.best_model(snapshot)
        with torch.no_grad():
            mean, variance = model.mean_variance(self.surrogate.to(self.space.to_unit(X)))
        seen = {r.query.fidelity for r in records}
        unseen = [m for m in range(self.space.num_fidelities) if m not in seen]
        mean, deviation = transform.moments(mean.to("cpu", torch.double), variance.sqrt().to("cpu", torch.double))
        mean[:, unseen] = deviation[:, unseen] = torch.nan
        return mean, deviation

    def noise_deviations(self, snapshot: Snapshot) -> tuple[float | None, ...]:
        model, transform = self.best_model(snapshot)
        seen = [snapshot.at(m) for m in range(self.space.num_fidelities)]
        units = [transform.unit(values(records)) if records else None for records in seen]
        return tuple(unit and unit * noise for unit, noise in zip(units, model.noise.sqrt().tolist(), strict=True))

    def outcomes(self, snapshot: Snapshot) -> list[Chain]:
        """The models of the outcomes that have limits, one each; none while nothing is observed."""
        records, found = self.modelled(snapshot), list[Chain]()
        for limit in self.space.limits if records else ():
            growing, integrated = self._outcomes.setdefault(limit.name, (Growing(self.refit_every), Memo()))
            made = self.grown(growing, measured(records, limit), outcome=True)
            found.append(integrated(made, partial(CoKrigingGP, made)) if self.integrated_outcomes else made)
        return found

    def within_limits(self, snapshot: Snapshot) -> WithinLimits | None:
        models = self.outcomes(snapshot)
        return within(self.space.limits, models, self.cube.shape[1]) if models else None

    def grown(
        self, growing: Growing[PerFidelityGP], records: list[Record], transform: Warp = IDENTITY, outcome: bool = False
    ) -> PerFidelityGP:
        """The model of some records' values, transformed, or of an outcome in their place: of that no process is
        known."""
        size = self.fit_size(records)
        data = self.data(records, transform)

        def fit() -> PerFidelityGP:
            return self.fitted(*data.rows(slice(size)), outcome)

        def add(model: PerFidelityGP, some: slice) -> PerFidelityGP:
            return model.condition_on_observations(*data.rows(some))

        return growing((self.space, transform), records, size, fit, add)

    def data(self, records: list[Record], transform: Warp) -> Data:
        """Points, transformed values and the variances of their noise where known, where the models live."""
        to, (X, Y, Yvar) = self.surrogate.to, data_of(self.space, records, transform)
        return Data(to(X), to(Y), None if Yvar is None else to(Yvar))

    def fitted(self, X: Tensor, Y: Tensor, Yvar: Tensor | None, outcome: bool = False) -> PerFidelityGP:
        """A model with hyper-parameters fitted to all of its data."""
        model = PerFidelityGP(X, Y, self.space.num_fidelities, Yvar, link=self.link, groups=self.space.groups)
        with fitting():
            return model.fit(optimizer_kwargs={"options": {"maxiter": 100}})

    def fit_size(self, records: list[Record]) -> int:
        """On how many of the observations the hyper-parameters are fitted: the schedule is a fold over them."""
        initial = sum(r.query.meta.get("stage") == "initial" for r in records)
        size = first = max(1, min(initial, len(records)))
        seen = Counter(r.query.fidelity for r in records[:first])
        for n, record in enumerate(records[first:], first + 1):
            fidelity = record.query.fidelity
            few = seen[fidelity] < LARGE // 10 if fidelity == self.space.target else not seen[fidelity]
            if few or n - size >= refit_step(size, self.refit_every):
                size = n
            seen[fidelity] += 1
        return size
