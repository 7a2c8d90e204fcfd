"""What the strategies with a model have in common: initial design, model, search for the maximiser."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.checks import number, one_of, whole
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Record, values
from mfbo_torch.optim import optimize_acqf
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.design import allowed, multi_fidelity_counts, sobol, uniform
from mfbo_torch.strategies.repeats import clear, used_up
from mfbo_torch.strategies.surrogate import Surrogate, draw_seed, seeded

DTYPES = ("float64", "float32")


class ModelBased(Strategy):
    """A strategy that starts with uniform random points and then asks a model.

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

    def __init__(self, *, refit_every: int = 5, device: str = "cpu", dtype: str = "float64", **settings: Any) -> None:
        super().__init__(**settings)
        self.refit_every, self.device = whole("refit_every", refit_every), device
        self.dtype = one_of("dtype", dtype, DTYPES)
        try:
            place = torch.device(device)
        except RuntimeError:
            raise SettingError("device", device, "a device of torch, such as 'cpu' or 'cuda'") from None
        self.surrogate = Surrogate(refit_every, place, getattr(torch, dtype))

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

    @property
    def cube(self) -> Tensor:
        """The bounds of the designs, ``2 x d``, where the models live."""
        return self.surrogate.to(torch.tensor([[0.0], [1.0]]).expand(2, self.space.dim))

    @property
    def inequalities(self) -> list[tuple[Tensor, Tensor, float]] | None:
        """The constraints for BoTorch's optimisers, where the models live."""
        to = self.surrogate.to
        found = self.space.inequalities
        return found and [(indices.to(self.device), to(weights), rhs) for indices, weights, rhs in found]

    def maximize(
        self, acquisition: AcquisitionFunction, generator: torch.Generator, num_restarts: int, raw_samples: int
    ) -> tuple[Tensor, float]:
        """The maximiser ``1 x d`` of an acquisition over the unit cube, and its value."""
        with seeded(draw_seed(generator)):
            u, value = self._optimized(acquisition, num_restarts, raw_samples=raw_samples)
        return u, value.item()

    def maximize_from(self, acquisition: AcquisitionFunction, starts: Tensor, generator: torch.Generator) -> Tensor:
        """The maximiser ``1 x d`` over the unit cube, searched from random points and from known good ones.

        256 Sobol points and 16 Gaussian steps of growing size from each of ``starts`` are screened; the
        four best, and the best that came from ``starts``, are refined by L-BFGS-B.
        """
        seed = draw_seed(generator)
        d, steps = self.space.dim, torch.logspace(-3, -0.7, 16, dtype=torch.double).unsqueeze(-1)
        noise = torch.randn(len(starts), 16, d, generator=generator, dtype=torch.double)
        near = (starts.unsqueeze(-2) + steps * noise).clamp(0.0, 1.0).reshape(-1, d)
        close = torch.cat([starts, near])
        spread = allowed(lambda n: sobol(d, n, seed), 256, self.space)
        raw = self.surrogate.to(torch.cat([spread, close[self.space.allows(close)]]))
        with torch.no_grad():
            scores = acquisition(raw.unsqueeze(-2))
        chosen = torch.cat([scores.topk(4).indices, 256 + scores[256:].topk(min(1, len(raw) - 256)).indices]).unique()
        with seeded(seed):
            u, _ = self._optimized(acquisition, len(chosen), batch_initial_conditions=raw[chosen].unsqueeze(-2))
        return u.detach()

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
            :func:`~mfbo_torch.strategies.design.multi_fidelity_counts`.
        **settings: Those of :class:`ModelBased`.

    Raises:
        SettingError: ``initial_capital`` is not positive.
    """

    def __init__(self, *, initial_capital: float | None = 10.0, **settings: Any) -> None:
        super().__init__(**settings)
        if initial_capital is not None:
            initial_capital = number("initial_capital", initial_capital, above=0)
        self.initial_capital = initial_capital

    def counts(self, history: History) -> list[int]:
        return multi_fidelity_counts(self.costs(history), self.space.dim, self.capital, self.initial_capital or 10.0)

    def modelled(self, history: History) -> list[Record]:
        return history.done

    def placed(
        self, u: Tensor, fidelity: int, history: History, generator: torch.Generator, stage: str = "model", **meta: Any
    ) -> Query:
        """As at one fidelity, or above, where a finite space is used up there."""
        return super().placed(u, self.free(fidelity, history), history, generator, stage, **meta)

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
