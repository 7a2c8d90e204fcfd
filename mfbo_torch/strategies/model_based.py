"""What the strategies with a model have in common: initial design, model, pending points."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from torch import Tensor

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Record, values
from mfbo_torch.strategies._gp import Build, Surrogate, quiet
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.design import allowed, multi_fidelity_counts, sobol, uniform
from mfbo_torch.strategies.repeats import clear, used_up


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
        if isinstance(refit_every, bool) or not isinstance(refit_every, int) or refit_every < 1:
            raise SettingError("refit_every", refit_every, "a whole number from 1 on")
        if dtype not in ("float64", "float32"):
            raise SettingError("dtype", dtype, "'float64' or 'float32'")
        try:
            place = torch.device(device)
        except RuntimeError:
            raise SettingError("device", device, "a device of torch, such as 'cpu' or 'cuda'") from None
        self.refit_every, self.device, self.dtype = refit_every, device, dtype
        self._surrogate = Surrogate(refit_every, place, getattr(torch, dtype))

    @abstractmethod
    def counts(self, history: History) -> list[int]:
        """Number of initial queries at each fidelity."""

    @abstractmethod
    def modelled(self, history: History) -> list[Record]:
        """The observations the model is made of."""

    @abstractmethod
    def propose(self, history: History, generator: torch.Generator) -> tuple[Tensor, int, dict[str, Any]]:
        """The next design in the unit cube, its fidelity and what to note with it."""

    def initial_point(self, index: int, rank: int) -> Tensor:
        """A design of the initial ones, ``d`` numbers of the unit cube.

        Args:
            index: How many initial queries came before it.
            rank: How many of them at its fidelity.
        """
        dim, seed = self.space.dim, self.seed
        return allowed(lambda n: uniform(dim, n, seed), index + 1, self.space)[index]

    @property
    def repeats(self) -> bool:
        """Whether the model may ask a design again; else a design near it is asked in its place."""
        return False

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
        meta: dict[str, Any]
        if due is not None:
            initial = [r.query.fidelity for r in history if r.query.meta.get("stage") == "initial"]
            fidelity, meta = due, {"stage": "initial", "index": len(initial)}
            u = self.initial_point(len(initial), initial.count(due))
        elif not self.ready(history):
            u = self.random_design(generator)
            levels = [m for m, count in enumerate(self.counts(history)) for _ in range(count)]
            fidelity, meta = levels[len(history) % len(levels)], {"stage": "random"}
        else:
            u, fidelity, noted = self.propose(history, generator)
            meta = {"stage": "model", **noted}
            if self.repeats or "check" in noted:
                return self.query(u, fidelity, **meta)
        u, fidelity = self.placed(u, fidelity, history, generator)
        return self.query(u, fidelity, **meta)

    def placed(self, u: Tensor, fidelity: int, history: History, generator: torch.Generator) -> tuple[Tensor, int]:
        """A design near ``u`` that may be asked, and where."""
        return clear(self, u, fidelity, history, generator), fidelity

    def data(self, records: list[Record]) -> tuple[Tensor, Tensor]:
        """``n x (d + 1)`` points of the unit cube with fidelities, and ``n x 1`` values, double, on the CPU."""
        return self.unit_points(records), values(records)

    @property
    def inequalities(self) -> list[tuple[Tensor, Tensor, float]] | None:
        """The constraints for BoTorch's optimisers, where the models live."""
        to = self._surrogate.to
        found = self.space.inequalities
        return found and [(indices.to(self.device), to(weights), rhs) for indices, weights, rhs in found]

    def maximize(
        self, acquisition: AcquisitionFunction, generator: torch.Generator, num_restarts: int, raw_samples: int
    ) -> tuple[Tensor, float]:
        """The maximiser ``1 x d`` of an acquisition over the unit cube, and its value."""
        bounds = self._surrogate.to(torch.tensor([[0.0], [1.0]]).expand(2, self.space.dim))
        with quiet(draw_seed(generator)):
            u, value = optimize_acqf(
                acquisition,
                bounds,
                1,
                num_restarts,
                raw_samples,
                options={"maxiter": 100},
                inequality_constraints=self.inequalities,
            )
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
        raw = self._surrogate.to(torch.cat([spread, close[self.space.allows(close)]]))
        with torch.no_grad():
            scores = acquisition(raw.unsqueeze(-2))
        chosen = torch.cat([scores.topk(4).indices, 256 + scores[256:].topk(min(1, len(raw) - 256)).indices]).unique()
        bounds = self._surrogate.to(torch.tensor([[0.0], [1.0]]).expand(2, d))
        with quiet(seed):
            u, _ = optimize_acqf(
                acquisition,
                bounds,
                q=1,
                num_restarts=len(chosen),
                batch_initial_conditions=raw[chosen].unsqueeze(-2),
                options={"maxiter": 100},
                inequality_constraints=self.inequalities,
            )
        return u.detach()


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

    def __init__(self, *, initial_capital: float = 10.0, **settings: Any) -> None:
        super().__init__(**settings)
        if not initial_capital > 0:
            raise SettingError("initial_capital", initial_capital, "above 0")
        self.initial_capital = initial_capital

    def counts(self, history: History) -> list[int]:
        return multi_fidelity_counts(self.costs(history), self.space.dim, self.capital, self.initial_capital)

    def modelled(self, history: History) -> list[Record]:
        return history.done

    def placed(self, u: Tensor, fidelity: int, history: History, generator: torch.Generator) -> tuple[Tensor, int]:
        """As at one fidelity, or above, where a finite space is used up there."""
        levels = range(fidelity, self.space.num_fidelities)
        fidelity = next((m for m in levels if not used_up(self.space, history, m)), fidelity)
        return super().placed(u, fidelity, history, generator)

    def predict_jointly(
        self, build: Build, inputs: Callable[[Tensor], Tensor], history: History, X: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """:meth:`predict` where one GP has the fidelity among its inputs.

        Args:
            build: Makes the GP.
            inputs: From points of the unit cube, the fidelity last, to what the GP takes.
            history: Everything asked so far.
            X: ``n x d`` designs in the user's own units.
        """
        records = self.modelled(history)
        if not records:
            return None
        points, Y = self.data(records)
        designs, num_fidelities = self.space.to_unit(X), self.space.num_fidelities
        levels = [torch.full_like(designs[:, :1], m) for m in range(num_fidelities)]
        at = torch.cat([torch.cat([designs, level], dim=-1) for level in levels])
        mean, deviation = self._surrogate.predict(build, inputs(points), Y, inputs(at))
        return mean.view(num_fidelities, -1).mT, deviation.view(num_fidelities, -1).mT


def draw_seed(generator: torch.Generator) -> int:
    """A seed for another source of random numbers."""
    return int(torch.randint(2**31, (1,), generator=generator))
