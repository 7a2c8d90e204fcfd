r"""What the strategies for indirect queries share: a model of ``f`` learned from its averages.

References:

.. [Zhang2024indirect]
    M. Zhang, S. Bouabid, C. S. Ong, S. Flaxman, D. Sejdinovic. Indirect Query Bayesian
    Optimization with Integrated Feedback. 2024.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchWarning
from botorch.optim import optimize_acqf_discrete
from torch import Tensor

from mfbo_torch.acquisition.conditional_mes import ConditionalMaxValueEntropy
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Recommendation, Record, values
from mfbo_torch.indirect import IndirectSpace
from mfbo_torch.models.conditionals import Conditional, EmpiricalConditional
from mfbo_torch.models.conditionals.empirical import LEAST_SAMPLES
from mfbo_torch.models.deconditional import DeconditionalGP
from mfbo_torch.strategies._conditionals import conditional_of, unit_inputs
from mfbo_torch.strategies._gp import quiet, refit_size
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.design import sobol
from mfbo_torch.strategies.model_based import ModelBased, draw_seed


class Belief(NamedTuple):
    """A model in standardised units, and the way back: a value is ``shift + scale * standardised``."""

    model: DeconditionalGP
    shift: float
    scale: float


class Indirect(ModelBased):
    r"""A strategy whose queries are averages of the function to maximise.

    It recommends the input with the largest posterior mean :math:`m_t` [Zhang2024indirect]_ (Algorithm 1).
    The model, a :class:`~mfbo_torch.models.DeconditionalGP`, has the space's conditional; its queries
    are points of the unit cube, with the fidelity behind them where there are several.

    Args:
        initial: Number of uniform random initial queries, at the finest resolution. The prior of ``f`` and what
            queries average over tell where to go next, so one will do.
        **settings: Those of :class:`~mfbo_torch.strategies.model_based.ModelBased`.

    Raises:
        SettingError: ``initial`` below 1, or a space whose queries are no averages.
    """

    def __init__(self, *, initial: int = 1, **settings: Any) -> None:
        super().__init__(**settings)
        if isinstance(initial, bool) or not isinstance(initial, int) or initial < 1:
            raise SettingError("initial", initial, "a whole number from 1 on")
        self.initial: Any = initial
        self._conditional: tuple[IndirectSpace, Conditional] | None = None
        self._fitted: tuple[Any, Belief] | None = None
        self._current: tuple[Any, Belief] | None = None

    @property
    def space(self) -> IndirectSpace:
        """What can be queried, and what the queries average over."""
        space = super().space
        if not isinstance(space, IndirectSpace):
            raise SettingError("space", type(space).__name__, f"an IndirectSpace for {type(self).__name__}")
        return space

    @property
    def level(self) -> int:
        """The finest resolution."""
        return self.space.target

    def counts(self, history: History) -> list[int]:
        count = self.initial
        if self.capital is not None:
            count = max(1, min(count, int(self.capital / 2 / self.costs(history)[-1] + 1e-9)))
        return [*([0] * self.level), count]

    def modelled(self, history: History) -> list[Record]:
        return history.done

    def queries(self, records: list[Record]) -> Tensor:
        """``n x p`` queries of some records as the model sees them."""
        return self._surrogate.to(self.unit_points(records)[:, : self.space.width])

    def conditional(self) -> Conditional:
        """What queries average over; learned once, with a warning if some queries are far from all samples."""
        space = self.space
        if self._conditional is None or self._conditional[0] is not space:
            with quiet():
                self._conditional = space, conditional_of(space)
            conditional = self._conditional[1]
            if isinstance(conditional, EmpiricalConditional):
                _warn_far(space, conditional)
        return self._conditional[1]

    def belief(self, history: History) -> Belief:
        """The model of everything observed, its hyper-parameters fitted to the first part of it."""
        records = history.done
        key = (self.space, *((r.query.x, r.query.fidelity, r.value) for r in records))
        if self._current is None or self._current[0] != key:
            self._current = key, self._belief(records)
        return self._current[1]

    def _belief(self, records: list[Record]) -> Belief:
        size = refit_size(len(records), self.refit_every) if records else 0
        A, Y = self.queries(records), values(records).reshape(-1, 1)
        noise = self._noise(records)
        key = (self.space, *((r.query.x, r.query.fidelity, r.value) for r in records[:size]))
        if self._fitted is None or self._fitted[0] != key:
            self._fitted = key, self._fit(A[:size], Y[:size], None if noise is None else noise[:size])
        model, shift, scale = self._fitted[1]
        if size < len(records):
            variance = None if noise is None else self._surrogate.to(noise[size:] / scale**2)
            Z = self._surrogate.to((Y[size:] - shift) / scale)
            with quiet():
                model = model.condition_on_observations(A[size:], Z, variance)
        return Belief(model, shift, scale)

    def _noise(self, records: list[Record]) -> Tensor | None:
        """``n x 1`` noise variances in the units of the values, where they are known."""
        stds = self.space.noise_std
        if stds is None:
            return None
        return torch.tensor([[stds[r.query.fidelity] ** 2] for r in records], dtype=torch.double).reshape(-1, 1)

    def _fit(self, A: Tensor, Y: Tensor, noise: Tensor | None) -> Belief:
        shift, scale = _shift_scale(Y, 0.0 if noise is None or not len(noise) else noise.max().sqrt().item())
        variance = None if noise is None else self._surrogate.to(noise / scale**2)
        Z = self._surrogate.to((Y - shift) / scale)
        with quiet():
            model = DeconditionalGP(A, Z, self.conditional(), variance)
            model.fit(optimizer_kwargs={"options": {"maxiter": 50}})
        return Belief(model.eval(), shift, scale)

    def inputs(self) -> Tensor:
        """``n x d`` inputs as the model sees them."""
        return self._surrogate.to(unit_inputs(self.space))

    def recommend(self, history: History) -> Record | Recommendation | None:
        r"""The input with the largest posterior mean :math:`m_t`, ``None`` while nothing has an observation."""
        if not history.done:
            return None
        model, shift, scale = self.belief(history)
        with torch.no_grad(), quiet():
            mean, variance = model.latent_mean_variance(self.inputs())
        best = int(mean.argmax())
        x = tuple(self.space.inputs[best].tolist())
        return Recommendation(x, shift + scale * mean[best].item(), scale * math.sqrt(variance[best].item()))

    def query(self, u: Tensor, fidelity: int, **meta: object) -> Query:
        """The query at a point of the unit cube; where there are choices the nearest, to its last digit."""
        query, choices = super().query(u, fidelity, **meta), self.space.choices
        if choices is None:
            return query
        distances = (self.space.to_unit(choices) - u.detach().to("cpu", torch.double).reshape(-1)).square().sum(-1)
        return replace(query, x=tuple(choices[distances.argmin()].tolist()))

    def maximize(
        self, acquisition: AcquisitionFunction, generator: torch.Generator, num_restarts: int, raw_samples: int
    ) -> tuple[Tensor, float]:
        """The best query ``1 x d``, of the choices where there are any, and its value."""
        if self.space.choices is None:
            return super().maximize(acquisition, generator, num_restarts, raw_samples)
        choices = self._surrogate.to(self.space.to_unit(self.space.choices))
        with quiet(draw_seed(generator)):
            u, value = optimize_acqf_discrete(acquisition, 1, choices)
        return u, value.item()


class Informative(Indirect):
    """A strategy that asks for the query which tells most about the maximum of ``f``, given what it costs.

    Args:
        num_max_value_samples: Number of samples of the maximum of ``f``.
        sampler: How they are drawn, ``"thompson"`` or ``"gumbel"``.
        form: ``"noisy"``, the entropy of a noisy average, or ``"truncated"``, that of the average itself; see
            :class:`~mfbo_torch.acquisition.ConditionalMaxValueEntropy`.
        **settings: Those of :class:`Indirect`.
    """

    def __init__(
        self, *, num_max_value_samples: int = 10, sampler: str = "thompson", form: str = "noisy", **settings: Any
    ) -> None:
        super().__init__(**settings)
        if isinstance(num_max_value_samples, bool) or num_max_value_samples < 1:
            raise SettingError("num_max_value_samples", num_max_value_samples, "a whole number from 1 on")
        if sampler not in ("thompson", "gumbel"):
            raise SettingError("sampler", sampler, "'thompson' or 'gumbel'")
        if form not in ("noisy", "truncated"):
            raise SettingError("form", form, "'noisy' or 'truncated'")
        self.num_max_value_samples, self.sampler, self.form = num_max_value_samples, sampler, form

    def information(self, history: History, generator: torch.Generator) -> ConditionalMaxValueEntropy:
        """The logarithm of the information per cost, a function of ``b x 1 x p`` queries."""
        model, _, scale = self.belief(history)
        pending = self.queries(history.pending) if history.pending else None
        stds, costs = self.space.noise_std, self.costs(history)
        noise = None if stds is None else self._by_fidelity([(std / scale) ** 2 for std in stds])
        with quiet(draw_seed(generator)):
            return ConditionalMaxValueEntropy(
                model,
                self.inputs(),
                self.num_max_value_samples,
                sampler=self.sampler,
                form=self.form,
                cost=self._by_fidelity(costs) if len(costs) > 1 else None,
                noise=noise,
                X_pending=pending,
                log=True,
            )

    def _by_fidelity(self, numbers: Any) -> Callable[[Tensor], Tensor]:
        """A function of ``... x p`` queries that looks at their fidelity."""
        table = torch.tensor(list(numbers), dtype=torch.double)

        def look_up(A: Tensor) -> Tensor:
            found = table.to(A)
            return found.expand(A.shape[:-1]) if len(found) == 1 else found[A[..., -1].detach().round().long()]

        return look_up


def recommendations(strategy: Strategy, history: History) -> list[Record | Recommendation | None]:
    """What a strategy recommends after each of the records, for its simple regret."""
    return [strategy.recommend(History(history.records[:n])) for n in range(1, len(history) + 1)]


def _warn_far(space: IndirectSpace, conditional: EmpiricalConditional) -> None:
    """Warn if the samples say nothing of some choices, or of some points of the box."""
    points = sobol(space.dim, 64, 0) if space.choices is None else space.to_unit(space.choices)
    U = torch.cat([points.repeat(space.num_fidelities, 1), _levels(len(points), space.num_fidelities)], -1)
    sizes = conditional.effective_sample_size(U[:, : space.width].to(conditional.queries))
    if sizes.min() < LEAST_SAMPLES:
        worst = U[sizes.argmin()]
        query = [float(f"{value:.4g}") for value in space.from_unit(worst[: space.dim]).tolist()]
        where = f"{query} at fidelity {int(worst[-1])}"
        message = (
            f"The samples say little of {(sizes < LEAST_SAMPLES).double().mean():.0%} of the queries; the effective "
            f"sample size of {where} is {sizes.min().item():.2g}, must be at least {LEAST_SAMPLES:g}."
        )
        warnings.warn(message, BotorchWarning, stacklevel=3)


def _levels(count: int, fidelities: int) -> Tensor:
    """Each fidelity ``count`` times, as a column."""
    return torch.arange(fidelities, dtype=torch.double).repeat_interleave(count).unsqueeze(-1)


def _shift_scale(Y: Tensor, least: float) -> tuple[float, float]:
    """Mean and standard deviation of the values; where they are as good as equal their size, or the noise's."""
    if not len(Y):
        return 0.0, max(least, 1.0) if least else 1.0
    shift, size = Y.mean().item(), Y.abs().max().item()
    spread = Y.std().item() if len(Y) > 1 else 0.0
    if spread > 1e-14 * size and len(Y) > 2:
        return shift, spread
    return shift, max(spread, least, size) or 1.0
