"""What the strategies have in common whose queries are averages of the function to maximise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf_discrete
from torch import Tensor

from mfbo_torch.acquisition.conditional_mes import FORMS, SAMPLERS, ConditionalMaxValueEntropy
from mfbo_torch.history import History, Recommendation, Record
from mfbo_torch.models.indirect.conditionals import Conditional
from mfbo_torch.space.indirect import IndirectSpace
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.fit_schedule import draw_seed, seeded
from mfbo_torch.strategies.common.model_based import ModelBased
from mfbo_torch.strategies.indirect.indirect_model import IndirectModel, ScaledModel
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import one_of, whole


class OverAverages(ModelBased):
    r"""A strategy that queries averages, and recommends the input with the largest posterior mean :math:`m_t`
    [Zhang2024indirect]_ (Algorithm 1).

    Its model is a :class:`~mfbo_torch.models.DeconditionalGP` with the space's conditional.

    Args:
        initial: Number of uniform random initial queries, at the finest resolution. The prior of ``f`` and what
            queries average over tell where to go next, so one will do.
        **settings: Those of :class:`~mfbo_torch.strategies.common.model_based.ModelBased`.

    Raises:
        SettingError: ``initial`` below 1, or a space whose queries are no averages.
    """

    takes_choices = False

    def __init__(self, *, initial: int = 1, **settings: Any) -> None:
        super().__init__(**settings)
        self.initial = whole("initial", initial)
        self.latent = IndirectModel(self.surrogate)

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

    def counts(self, snapshot: Snapshot) -> list[int]:
        count = self.initial
        if self.capital is not None:
            count = max(1, min(count, int(self.capital / 2 / snapshot.costs[-1] + 1e-9)))
        return [*([0] * self.level), count]

    def modelled(self, snapshot: Snapshot) -> list[Record]:
        return self.recorded(snapshot)

    def recorded(self, snapshot: Snapshot) -> list[Record]:
        """The averages that the model of ``f`` is made of."""
        return self.subset(self.space, snapshot.done)

    def conditional(self) -> Conditional:
        """What queries average over."""
        return self.latent.conditional(self.space)

    def model(self, snapshot: Snapshot) -> ScaledModel:
        """The model of what is observed."""
        return self.latent(self.space, self.recorded(snapshot))

    def inputs(self) -> Tensor:
        """``n x d`` inputs as the model sees them."""
        return self.latent.inputs(self.space)

    def pending(self, snapshot: Snapshot) -> Tensor:
        """``n x p`` pending queries as the model sees them."""
        return self.latent.queries(self.space, snapshot.pending)

    def recommend(self, history: History) -> Record | Recommendation | None:
        return self.latent.best(self.space, self.recorded(self.snapshot(history)))

    def maximize(
        self, acquisition: AcquisitionFunction, generator: torch.Generator, num_restarts: int, raw_samples: int
    ) -> tuple[Tensor, float]:
        """The best query ``1 x d``, of the candidates where there are any, and its value."""
        if not self.space.candidates:
            return super().maximize(acquisition, generator, num_restarts, raw_samples)
        with seeded(draw_seed(generator)):
            u, value = optimize_acqf_discrete(acquisition, 1, self.surrogate.to(self.space.unit_candidates))
        return u, value.item()


class Informative(OverAverages):
    """A strategy that chooses the query which tells most about the maximum of ``f``, given what it costs.

    Args:
        num_max_value_samples: Number of samples of the maximum of ``f``.
        sampler: How they are drawn, ``"thompson"`` or ``"gumbel"``.
        form: ``"noisy"``, the entropy of a noisy average, or ``"truncated"``, that of the average itself; see
            :class:`~mfbo_torch.acquisition.ConditionalMaxValueEntropy`.
        **settings: Those of :class:`OverAverages`.
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
                X_pending=self.pending(snapshot),
                log=True,
            )


def _by_fidelity(numbers: Any) -> Callable[[Tensor], Tensor]:
    """A function of ``... x p`` queries that looks at their fidelity."""
    table = torch.tensor(list(numbers), dtype=torch.double)

    def look_up(A: Tensor) -> Tensor:
        found = table.to(A)
        return found.expand(A.shape[:-1]) if len(found) == 1 else found[A[..., -1].detach().round().long()]

    return look_up


def recommendations(strategy: Strategy, history: History) -> list[Record | Recommendation | None]:
    """What a strategy recommends after each of the records, for its simple regret."""
    return [strategy.recommend(History(history.records[:n])) for n in range(1, len(history) + 1)]
