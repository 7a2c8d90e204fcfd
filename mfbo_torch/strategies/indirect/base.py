"""What the strategies have in common whose queries are averages of the function to maximise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchWarning
from botorch.optim import optimize_acqf_discrete
from torch import Tensor

from mfbo_torch.acquisition.conditional_mes import FORMS, SAMPLERS, ConditionalMaxValueEntropy
from mfbo_torch.history import History, Recommendation, Record, noise_variances, values
from mfbo_torch.models.indirect.conditionals import Conditional, EmpiricalConditional
from mfbo_torch.models.indirect.conditionals.empirical import LEAST_SAMPLES
from mfbo_torch.models.indirect.deconditional import DeconditionalGP
from mfbo_torch.models.indirect.unit_conditionals import conditional_of, unit_inputs
from mfbo_torch.space.indirect import IndirectSpace
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.design_table import unit_points
from mfbo_torch.strategies.common.fit_schedule import Growing, draw_seed, fitting, quiet, refit_size, seeded
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.strategies.common.model_based import ModelBased
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.standardize import shift_scale
from mfbo_torch.utils.validation import one_of, whole


class ScaledModel(NamedTuple):
    """A model in standardised units, and the way back: a value is ``shift + scale * standardised``."""

    model: DeconditionalGP
    shift: float
    scale: float


class OverAverages(ModelBased):
    r"""A strategy that queries averages, and recommends the input with the largest posterior mean :math:`m_t`
    [Zhang2024indirect]_ (Algorithm 1).

    Its model is a :class:`~mfbo_torch.models.DeconditionalGP` with the space's conditional, on queries in the unit
    cube, the fidelity last where there are several (``p`` columns).

    Args:
        initial: Number of uniform random initial queries, at the finest resolution that the capital pays for. The
            prior of ``f`` and what queries average over tell where to go next, so one will do.
    """

    takes_choices = False

    def __init__(self, *, initial: int = 1, **settings: Any) -> None:
        super().__init__(**settings)
        self.initial = whole("initial", initial)
        self._conditional: Memo[Conditional] = Memo()
        self._growing: Growing[ScaledModel] = Growing(self.refit_every)

    @property
    def space(self) -> IndirectSpace:
        """What can be queried, and what the queries average over."""
        space = super().space
        if not isinstance(space, IndirectSpace):
            raise SettingError("space", type(space).__name__, f"an IndirectSpace for {type(self).__name__}")
        return space

    def counts(self, snapshot: Snapshot) -> list[int]:
        count = self.initial
        if self.capital is not None:
            count = max(1, min(count, int(self.capital / 2 / snapshot.costs[-1] + 1e-9)))
        paid = [m for m, cost in enumerate(snapshot.costs) if self.capital is None or cost <= self.capital]
        return [count * (m == max(paid, default=self.space.target)) for m in range(self.space.num_fidelities)]

    def modelled(self, snapshot: Snapshot) -> list[Record]:
        return self.recorded(snapshot)

    def recorded(self, snapshot: Snapshot) -> list[Record]:
        """The averages that the model of ``f`` is made of."""
        return self.subset(self.space, snapshot.done)

    def conditional(self) -> Conditional:
        """What queries average over; learned once, with a warning if some queries are far from all samples."""

        def learned() -> Conditional:
            with seeded():
                found = conditional_of(self.space)
            if isinstance(found, EmpiricalConditional):
                _warn_far(self.space, found)
            return found

        return self._conditional(self._averaged, learned)

    @property
    def _averaged(self) -> tuple[Any, ...]:
        """The space, and what its queries average over: two spaces may be equal and differ there."""
        return self.space, id(self.space.feedback), id(self.space.inputs)

    def model(self, snapshot: Snapshot) -> ScaledModel:
        """The model of all observations, its hyper-parameters fitted to the first part of them."""
        space, records, to = self.space, self.recorded(snapshot), self.surrogate.to
        A, Y, noise = self.queries(records), values(records).reshape(-1, 1), noise_variances(records)
        if noise is None and (stds := space.noise_std) is not None:
            noise = torch.tensor([[stds[r.query.fidelity] ** 2] for r in records], dtype=torch.double).reshape(-1, 1)
        size = refit_size(len(records), self.refit_every)

        def fit() -> ScaledModel:
            least = 0.0 if noise is None or not size else noise[:size].max().sqrt().item()
            shift, scale = shift_scale(Y[:size], least, few=2)
            variance = None if noise is None else to(noise[:size] / scale**2)
            with fitting():
                model = DeconditionalGP(A[:size], to((Y[:size] - shift) / scale), self.conditional(), variance)
                model.fit(optimizer_kwargs={"options": {"maxiter": 50}})
            return ScaledModel(model.eval(), shift, scale)

        def add(former: ScaledModel, some: slice) -> ScaledModel:
            model, shift, scale = former
            variance = None if noise is None else to(noise[some] / scale**2)
            with quiet():
                model = model.condition_on_observations(A[some], to((Y[some] - shift) / scale), variance)
            return ScaledModel(model, shift, scale)

        return self._growing(self._averaged, records, size, fit, add)

    def inputs(self) -> Tensor:
        """``n x d`` inputs as the model sees them."""
        return self.surrogate.to(unit_inputs(self.space))

    def queries(self, records: list[Record]) -> Tensor:
        """``n x p`` queries of some records as the model sees them."""
        return self.surrogate.to(unit_points(self.space, records)[:, : self.space.width])

    def recommend(self, history: History) -> Record | Recommendation | None:
        snapshot = self.snapshot(history)
        if not self.recorded(snapshot):
            return None
        model, shift, scale = self.model(snapshot)
        with torch.no_grad(), quiet():
            mean, variance = model.latent_mean_variance(self.inputs())
        best = int(mean.argmax())
        x = tuple(self.space.inputs[best].tolist())
        return Recommendation(x, shift + scale * mean[best].item(), scale * math.sqrt(variance[best].item()))

    def maximize(
        self, acquisition: AcquisitionFunction, generator: torch.Generator, num_restarts: int, raw_samples: int
    ) -> tuple[Tensor, float]:
        """The best query ``1 x d``, of the candidates where there are any, and its value."""
        if not self.space.candidates:
            return super().maximize(acquisition, generator, num_restarts, raw_samples)
        with seeded(draw_seed(generator)):
            u, value = optimize_acqf_discrete(acquisition, 1, self.surrogate.to(self.space.unit_candidates))
        return u, value.item()


def _warn_far(space: IndirectSpace, conditional: EmpiricalConditional) -> None:
    """Warn if the samples say nothing of some candidates, or of some points of the box."""
    points = space.unit_candidates if space.candidates else sobol(space.dim, 64, 0)
    levels = torch.arange(space.num_fidelities, dtype=torch.double).repeat_interleave(len(points)).unsqueeze(-1)
    U = torch.cat([points.repeat(space.num_fidelities, 1), levels], -1)
    sizes = conditional.effective_sample_size(U[:, : space.width].to(conditional.queries))
    if sizes.min() < LEAST_SAMPLES:
        share, worst = (sizes < LEAST_SAMPLES).double().mean(), U[sizes.argmin()]
        query = [float(f"{value:.4g}") for value in space.from_unit(worst[: space.dim]).tolist()]
        size = f"sample size of {query} at fidelity {int(worst[-1])} is {sizes.min().item():.2g}"
        message = f"The samples say little of {share:.0%} of the queries; the effective {size}"
        warnings.warn(f"{message}, must be at least {LEAST_SAMPLES:g}.", BotorchWarning, stacklevel=3)


class Informative(OverAverages):
    """A strategy that chooses the query which tells most about the maximum of ``f``, given what it costs.

    Args:
        num_max_value_samples: Number of samples of the maximum of ``f``.
        sampler: How they are drawn, ``"thompson"`` or ``"gumbel"``.
        form: ``"noisy"``, the entropy of a noisy average, or ``"truncated"``, that of the average itself.
    """

    def __init__(
        self, *, num_max_value_samples: int = 10, sampler: str = "thompson", form: str = "noisy", **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.num_max_value_samples = whole("num_max_value_samples", num_max_value_samples)
        self.sampler, self.form = one_of("sampler", sampler, SAMPLERS), one_of("form", form, FORMS)

    def information(self, snapshot: Snapshot, generator: torch.Generator) -> ConditionalMaxValueEntropy:
        """The logarithm of the information per cost, a function of ``b x 1 x p`` queries."""
        model, _, scale = self.model(snapshot)
        stds, costs = self.space.noise_std, snapshot.costs
        with seeded(draw_seed(generator)):
            return ConditionalMaxValueEntropy(
                model,
                self.inputs(),
                self.num_max_value_samples,
                sampler=self.sampler,
                form=self.form,
                cost=_by_fidelity(costs) if len(costs) > 1 else None,
                noise=None if stds is None else _by_fidelity([(std / scale) ** 2 for std in stds]),
                X_pending=self.queries(snapshot.pending),
                log=True,
            )


def _by_fidelity(numbers: Any) -> Callable[[Tensor], Tensor]:
    """The function of ``... x p`` queries that gives the number of their fidelity."""
    table = torch.tensor(list(numbers), dtype=torch.double)

    def look_up(A: Tensor) -> Tensor:
        found = table.to(A)
        return found.expand(A.shape[:-1]) if len(found) == 1 else found[A[..., -1].detach().round().long()]

    return look_up


def recommendations(strategy: Strategy, history: History) -> list[Record | Recommendation | None]:
    """What a strategy recommends after each of the records, for its simple regret."""
    return [strategy.recommend(History(history.records[:n])) for n in range(1, len(history) + 1)]
