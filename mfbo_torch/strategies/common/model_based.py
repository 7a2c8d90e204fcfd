"""What the strategies with a model have in common: initial design, model, search for the maximiser."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.acquisition.feasible import Feasible, MostFeasible, WithinLimits
from mfbo_torch.acquisition.optimize import optimize_acqf
from mfbo_torch.acquisition.optimize_mixed import alternated
from mfbo_torch.history import History, Query, Recommendation, Record, Status, values
from mfbo_torch.models.outcome_transform import IDENTITY, Warp
from mfbo_torch.space.continuous_fidelity import MANY
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.deduplicate import BUSY_RADIUS, clear, used_up
from mfbo_torch.strategies.common.failure_model import Failures
from mfbo_torch.strategies.common.fit_schedule import Surrogate, draw_seed, quiet, seeded
from mfbo_torch.strategies.common.initial_design import allowed, multi_fidelity_counts, sobol, uniform
from mfbo_torch.strategies.common.reach import PUBLIC, in_reach
from mfbo_torch.strategies.common.recommendation import advised
from mfbo_torch.strategies.common.subsample import Subset
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.standardize import shift_scale
from mfbo_torch.utils.validation import number, one_of, whole

DTYPES = ("float64", "float32")


class ModelBased(Strategy):
    """A strategy that starts with uniform random points and then asks a model.

    From a thousand observations of a fidelity on, its model is made of a part of them
    (:class:`~mfbo_torch.strategies.common.subsample.Subset`): a decision after ten thousand takes no longer than one
    after two.

    Initial queries carry ``{"stage": "initial", "index": i}``: a resumed run, or one warm-started
    with other records, continues the design where it stands. While nothing has an observation (all
    failed, or all pending) random points of the same proportions go on.

    Args:
        refit_every: Most observations between two fits of the hyper-parameters.
        device: Where the model is evaluated.
        dtype: ``"float64"`` or ``"float32"``.
        **settings: ``seed``, ``space`` and ``capital``.

    Raises:
        SettingError: ``refit_every`` below 1, an unknown ``dtype`` or a ``device`` torch does not have.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Whatever a subclass makes of a history, values of any size are within its reach."""
        super().__init_subclass__(**kwargs)
        for name in PUBLIC:
            if name in vars(cls):
                setattr(cls, name, in_reach(vars(cls)[name]))

    def __init__(self, *, refit_every: int = 5, device: str = "cpu", dtype: str = "float64", **settings: Any) -> None:
        super().__init__(**settings)
        self.refit_every, self.device = whole("refit_every", refit_every), device
        self.dtype = one_of("dtype", dtype, DTYPES)
        try:
            place = torch.device(device)
        except RuntimeError:
            raise SettingError("device", device, "a device of torch, such as 'cpu' or 'cuda'") from None
        self.surrogate = Surrogate(refit_every, place, getattr(torch, dtype))
        self.failures = Failures(self.refit_every)
        self.subset = Subset()

    @abstractmethod
    def counts(self, history: History) -> list[int]:
        """Number of initial queries at each fidelity."""

    @abstractmethod
    def modelled(self, history: History) -> list[Record]:
        """The observations the model is made of."""

    @abstractmethod
    def propose(self, history: History, generator: torch.Generator) -> Query:
        """The next query, as the model has it; see :meth:`placed`."""

    def initial_point(self, index: int, rank: int) -> Tensor:
        """A design of the initial ones, ``d`` numbers of the unit cube.

        Args:
            index: How many initial queries came before it.
            rank: How many of them at its fidelity.
        """
        dim, seed = self.space.dim, self.seed
        return allowed(lambda n: uniform(dim, n, seed), index + 1, self.space)[index]

    def ready(self, history: History) -> bool:
        """Whether there is something to make a model of."""
        return bool(self.modelled(history))

    def due(self, history: History) -> int | None:
        """The fidelity of the next initial query, ``None`` once they have all been asked."""
        asked = [r.query.fidelity for r in history if r.query.meta.get("stage") == "initial"]
        if any(r.query.meta.get("stage") == "model" for r in history):
            return None
        return next((m for m, count in enumerate(self.counts(history)) if asked.count(m) < count), None)

    def decide(self, history: History) -> Query:
        """The next query: initial design, then the model."""
        generator, due = self.generator(history), self.due(history)
        if due is None and self.ready(history):
            return self.propose(history, generator)
        if due is not None:
            initial = [r.query.fidelity for r in history if r.query.meta.get("stage") == "initial"]
            u = self.initial_point(len(initial), initial.count(due))
            return self.placed(u, due, history, generator, stage="initial", index=len(initial))
        levels = [m for m, count in enumerate(self.counts(history)) for _ in range(count)]
        u = self.random_design(generator)
        return self.placed(u, levels[len(history) % len(levels)], history, generator, stage="random")

    def placed(
        self, u: Tensor, fidelity: int, history: History, generator: torch.Generator, stage: str = "model", **meta: Any
    ) -> Query:
        """The query at a design near ``u`` that was not asked before.

        Args:
            u: A point of the unit cube, ``d`` or ``1 x d``.
            fidelity: Where it is to be asked.
            history: Everything asked so far.
            generator: Random numbers for the way from ``u``.
            stage: What it is asked for.
            **meta: What to note with it.
        """
        return self.query(clear(self, u, fidelity, history, generator), fidelity, stage=stage, **meta)

    def data(self, records: list[Record]) -> tuple[Tensor, Tensor]:
        """``n x (d + 1)`` points of the unit cube with fidelities, and ``n x 1`` values, double, on the CPU."""
        return self.unit_points(records), values(records)

    def noise_deviations(self, history: History) -> tuple[float | None, ...]:
        """The standard deviation of the noise in an observation at each fidelity; ``None`` where no model tells it."""
        return (None,) * self.space.num_fidelities

    def map(self, history: History) -> Warp:
        """Through which the model sees the values."""
        return IDENTITY

    def spread(self, history: History) -> float:
        """The standard deviation of the values at the target, those far below all others drawn near as in :meth:`map`,
        or that of the process where it is known: beside it noise counts."""
        Y, map = values(history.select(Status.DONE, self.space.target)), self.map(history)
        return self.deviation(map(Y)) * map.unit(Y)

    def deviation(self, Y: Tensor) -> float:
        """That of some values, or of the process where it is known."""
        return shift_scale(Y)[1]

    @in_reach
    def ask(self, history: History, n: int = 1) -> list[Query]:
        return super().ask(history, n)

    @in_reach
    def recommend(self, history: History) -> Record | Recommendation | None:
        """The best observation at the target, or where observations are noisy or have limits what the model makes of
        them.

        See :func:`~mfbo_torch.strategies.common.recommendation.advised`; a strategy whose model does not tell the noise
        keeps to the best observation.
        """
        best = history.best(self.space.target)
        return best if best is None else advised(self, history, best)

    @property
    def cube(self) -> Tensor:
        """The bounds of the designs, ``2 x D``, where the models live."""
        return self.surrogate.to(torch.tensor([[0.0], [1.0]]).expand(2, self.space.unit_dim))

    @property
    def inequalities(self) -> list[tuple[Tensor, Tensor, float]] | None:
        """The constraints for BoTorch's optimisers, where the models live."""
        to = self.surrogate.to
        found = self.space.inequalities
        return found and [(indices.to(self.device), to(weights), rhs) for indices, weights, rhs in found]

    def feasible(
        self,
        acquisition: AcquisitionFunction,
        history: History,
        fidelity: int,
        reference: Callable[[], float] | None = None,
    ) -> AcquisitionFunction:
        """An acquisition that knows where evaluations fail and limits are not kept; itself while nothing does.

        While no observation at the fidelity keeps the limits, what is most likely to.

        Args:
            acquisition: Of points of the unit cube.
            history: Everything asked so far.
            fidelity: Whose evaluations are not to fail.
            reference: Gives that of :class:`~mfbo_torch.acquisition.feasible.Feasible`; ``None`` where the
                acquisition is a logarithm.
        """
        evaluated, limits = self.failures.feasibility(self.space, history, fidelity), self.within_limits(history)
        if limits is not None and history.best(fidelity) is None:
            acquisition, limits, reference = MostFeasible(acquisition.model, limits), None, None
        factors = [chances for chances in (evaluated, limits) if chances is not None]
        over = reference() if factors and reference is not None else None
        for chances in factors:
            acquisition, over = Feasible(acquisition, chances, over), None if over is None else 0.0
        return acquisition

    def within_limits(self, history: History) -> WithinLimits | None:
        """The probability that the outcomes at the target keep their limits; ``None`` where there are none."""
        return None

    def chances(self, history: History, X: Tensor) -> Tensor | None:
        """The probability ``n`` that the outcomes of ``n x d`` designs, in the user's units, keep their limits at the
        target; ``None`` where there are none."""
        limits = self.within_limits(history)
        if limits is None:
            return None
        with torch.no_grad(), quiet():
            return limits.log(self.surrogate.to(self.space.to_unit(X))).exp().to("cpu", torch.double)

    def maximize(
        self, acquisition: AcquisitionFunction, generator: torch.Generator, num_restarts: int, raw_samples: int
    ) -> tuple[Tensor, float]:
        """The maximiser ``1 x d`` of an acquisition over the unit cube, and its value."""
        seed = draw_seed(generator)
        if self.space.mixed:
            raw = allowed(lambda n: sobol(self.space.dim, n, seed), raw_samples, self.space)
            return self._alternated(acquisition, raw, num_restarts, seed)
        with seeded(seed):
            u, value = self._optimized(acquisition, num_restarts, raw_samples=raw_samples)
        return u, value.item()

    def maximize_from(
        self,
        acquisition: AcquisitionFunction,
        starts: Tensor,
        generator: torch.Generator,
        screened: int = 256,
        climbed: int = 1,
    ) -> Tensor:
        """The maximiser ``1 x d`` over the unit cube, searched from random points and from known good ones.

        Sobol points and 16 Gaussian steps of growing size from each of ``starts`` are screened; the four best, and the
        best that came from each of the best ``starts``, are refined by L-BFGS-B.

        Args:
            acquisition: What is maximised.
            starts: ``s x d`` good points.
            generator: Random numbers.
            screened: How many Sobol points.
            climbed: From how many of ``starts`` it is refined.
        """
        seed = draw_seed(generator)
        d, steps = self.space.unit_dim, torch.logspace(-3, -0.7, 16, dtype=torch.double).unsqueeze(-1)
        noise = torch.randn(len(starts), 16, d, generator=generator, dtype=torch.double)
        near = (starts.unsqueeze(-2) + steps * noise).clamp(0.0, 1.0).reshape(-1, d)
        close = torch.cat([starts, self.space.snap(near) if self.space.mixed else near])
        origin = torch.cat([torch.arange(len(starts)), torch.arange(len(starts)).repeat_interleave(16)])
        kept = self.space.allows(close)
        spread = allowed(lambda n: sobol(self.space.dim, n, seed), screened, self.space)
        raw = self.surrogate.to(torch.cat([spread, close[kept]]))
        with torch.no_grad():
            scores = acquisition(raw.unsqueeze(-2))
        best = _best_of_each(scores[screened:], origin[kept].to(scores.device), climbed)
        chosen = torch.cat([scores.topk(4).indices, screened + best]).unique()
        if self.space.mixed:
            return self._alternated(acquisition, raw[chosen], len(chosen), seed)[0]
        with seeded(seed):
            u, _ = self._optimized(acquisition, len(chosen), batch_initial_conditions=raw[chosen].unsqueeze(-2))
        return u.detach()

    def _alternated(
        self, acquisition: AcquisitionFunction, raw: Tensor, num_restarts: int, seed: int
    ) -> tuple[Tensor, float]:
        """The maximiser ``1 x D`` where there are choices, and its value, from the best of some designs."""
        with seeded(seed):
            return alternated(acquisition, self.surrogate.to(raw), self.space, num_restarts, self.inequalities)

    def _optimized(self, acquisition: AcquisitionFunction, num_restarts: int, **starts: Any) -> tuple[Tensor, Tensor]:
        return optimize_acqf(
            acquisition,
            self.cube,
            q=1,
            num_restarts=num_restarts,
            options={"maxiter": 100},
            inequality_constraints=self.inequalities,
            **starts,
        )


class MultiFidelityModelBased(ModelBased):
    """A strategy with one model over designs and fidelities.

    The last column of its inputs is the fidelity ``0 ... M - 1``.

    Args:
        initial_capital: What the initial design may cost, in units of the target's cost; see
            :func:`~mfbo_torch.strategies.common.initial_design.multi_fidelity_counts`.
        **settings: Those of :class:`ModelBased`.

    Raises:
        SettingError: ``initial_capital`` is not positive.
    """

    most_fidelities: int | None = MANY

    def __init__(self, *, initial_capital: float | None = 10.0, **settings: Any) -> None:
        super().__init__(**settings)
        if initial_capital is not None:
            initial_capital = number("initial_capital", initial_capital, above=0)
        self.initial_capital = initial_capital

    def counts(self, history: History) -> list[int]:
        return multi_fidelity_counts(self.costs(history), self.space.dim, self.capital, self.initial_capital or 10.0)

    def modelled(self, history: History) -> list[Record]:
        return self.subset(self.space, history.done)

    def placed(
        self, u: Tensor, fidelity: int, history: History, generator: torch.Generator, stage: str = "model", **meta: Any
    ) -> Query:
        """As at one fidelity, or above, where a finite space is used up there."""
        return super().placed(u, self.free(fidelity, history), history, generator, stage, **meta)

    def probing(self, u: Tensor, fidelity: int, history: History) -> int:
        r"""The fidelity to ask at a design: the cheapest first, where that is likely to save a failure at another.

        A failure at fidelity ``m`` costs :math:`(1 - p(x)) \lambda^{(m)}` in the mean. Where a query at the cheapest
        fidelity costs less, and none near has told yet whether the design can be evaluated, it goes first; but not once
        so many have gone in a row that they have cost as much as the one they might save.

        Args:
            u: A ``1 x d`` design of the unit cube.
            fidelity: Where it is to be asked.
            history: Everything asked so far.
        """
        feasibility = self.failures.feasibility(self.space, history, self.space.target)
        costs = self.costs_at(u, history)
        below = list(itertools.takewhile(lambda r: r.query.fidelity < fidelity, reversed(history.records)))
        if feasibility is None or fidelity == 0 or sum(r.cost for r in below) >= costs[fidelity]:
            return fidelity
        with torch.no_grad():
            risk = 1 - feasibility(self.surrogate.to(u)).item()
        told = self.unit_points([r for r in history if r.status != Status.FAILED])[:, :-1]
        near = (told - u.to(told)).abs().amax(dim=-1) < BUSY_RADIUS
        return fidelity if near.any() or risk * costs[fidelity] <= costs[0] else 0

    def free(self, fidelity: int, history: History) -> int:
        """The lowest fidelity from ``fidelity`` on where there is a design left to ask."""
        levels = range(fidelity, self.space.num_fidelities)
        return next((m for m in levels if not used_up(self.space, history, m)), fidelity)

    def predict_jointly(
        self, model: Callable[[History], Model], inputs: Callable[[Tensor], Tensor], history: History, X: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """:meth:`predict` where one GP has the fidelity among its inputs.

        Args:
            model: From a history to the GP of everything observed, with standardized targets.
            inputs: From points of the unit cube, the fidelity last, to what it takes.
            history: Everything asked so far.
            X: ``n x d`` designs in the user's own units.
        """
        if not self.modelled(history):
            return None
        designs, num_fidelities = self.space.to_unit(X), self.space.num_fidelities
        levels = [torch.full_like(designs[:, :1], m) for m in range(num_fidelities)]
        at = torch.cat([torch.cat([designs, level], dim=-1) for level in levels])
        mean, deviation = self.surrogate.predict(model(history), values(self.modelled(history)), inputs(at))
        return mean.view(num_fidelities, -1).mT, deviation.view(num_fidelities, -1).mT


def _best_of_each(scores: Tensor, origin: Tensor, most: int) -> Tensor:
    """Where the best scores are, one of each origin."""
    found: list[int] = []
    seen: set[int] = set()
    for i in scores.argsort(descending=True, stable=True).tolist():
        if len(found) < most and (came := int(origin[i])) not in seen:
            found.append(i)
            seen.add(came)
    return torch.tensor(found, dtype=torch.long, device=scores.device)
