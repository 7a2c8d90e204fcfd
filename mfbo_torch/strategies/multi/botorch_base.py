"""What the strategies on BoTorch's own multi-fidelity GP share: model, costs, fidelity column."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from botorch.acquisition.utils import project_to_target_fidelity
from botorch.models import SingleTaskMultiFidelityGP
from botorch.models.deterministic import DeterministicModel
from botorch.models.model import Model
from botorch.optim import optimize_acqf_mixed
from torch import Tensor

from mfbo_torch.history import Query
from mfbo_torch.strategies.common.fit_schedule import draw_seed, seeded
from mfbo_torch.strategies.multi.base import MultiFidelityModelBased
from mfbo_torch.strategies.snapshot import Snapshot, data_of
from mfbo_torch.utils.validation import whole


class FidelityCosts(DeterministicModel):
    """The cost of each fidelity, looked up by the last column ``m / (M - 1)``.

    Args:
        costs: ``M`` costs.
    """

    def __init__(self, costs: Tensor) -> None:
        super().__init__()
        self._num_outputs = 1
        self.register_buffer("costs", costs)

    def forward(self, X: Tensor) -> Tensor:
        """Costs ``... x 1`` of ``... x (d + 1)`` points."""
        last = len(self.costs) - 1
        return self.costs[(X[..., -1:] * last).round().long().clamp(0, last)]


def multi_fidelity_gp(X: Tensor, Y: Tensor, Yvar: Tensor | None = None) -> Model:
    """BoTorch's multi-fidelity GP, fidelity last, for standardized targets."""
    return SingleTaskMultiFidelityGP(X, Y, Yvar, data_fidelities=[X.shape[-1] - 1], outcome_transform=None)


class FidelityGP(MultiFidelityModelBased):
    """A strategy on BoTorch's ``SingleTaskMultiFidelityGP`` with a cost-aware acquisition of its own.

    The fidelity is scaled to ``m / (M - 1)``, the target being 1.

    Args:
        num_restarts: Restarts of the search for the best design at each fidelity.
        raw_samples: Points that its starting points are chosen from.
        max_iterations: Most iterations of the search from its starting points.
        **settings: Those of :class:`~mfbo_torch.strategies.multi.base.MultiFidelityModelBased`.

    Raises:
        SettingError: One of them is below 1.
    """

    takes_choices = False

    def __init__(
        self, *, num_restarts: int = 5, raw_samples: int = 128, max_iterations: int = 50, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.num_restarts, self.raw_samples = whole("num_restarts", num_restarts), whole("raw_samples", raw_samples)
        self.max_iterations = whole("max_iterations", max_iterations)

    @property
    def options(self) -> dict[str, int]:
        """Options of the search over designs."""
        return {"maxiter": self.max_iterations}

    def scaled(self, points: Tensor) -> Tensor:
        """Points with the fidelity scaled to ``[0, 1]``, where the models live."""
        level = points[:, -1:] / self.space.target if self.space.target else torch.ones_like(points[:, -1:])
        return self.surrogate.to(torch.cat([points[:, :-1], level], dim=-1))

    def project(self, X: Tensor) -> Tensor:
        """The same designs at the target fidelity."""
        return project_to_target_fidelity(X, {self.space.dim: 1.0}, self.space.dim + 1)

    def model(self, snapshot: Snapshot) -> Model:
        """The GP of everything observed."""
        X, Y, Yvar = data_of(self.space, self.modelled(snapshot))
        return self.surrogate.model(multi_fidelity_gp, self.scaled(X), Y, Yvar)

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        dim, num_fidelities = self.space.dim, self.space.num_fidelities
        pending = self.scaled(snapshot.flying) if snapshot.pending else None
        costs = self.surrogate.to(torch.tensor(snapshot.costs, dtype=torch.double))
        utility = InverseCostWeightedUtility(FidelityCosts(costs / costs[-1]))
        levels = self.scaled(torch.tensor([[0.0] * dim + [m] for m in range(num_fidelities)]))[:, -1].tolist()
        bounds = self.surrogate.to(torch.tensor([[0.0], [1.0]]).expand(2, dim + 1))
        seed = draw_seed(generator)
        with seeded(seed):
            point, _ = optimize_acqf_mixed(
                self.acquisition(self.model(snapshot), utility, pending, seed),
                bounds,
                1,
                self.num_restarts,
                [{dim: level} for level in levels],
                raw_samples=self.raw_samples,
                options=self.options,
                inequality_constraints=self.inequalities,
            )
        fidelity = min(range(num_fidelities), key=lambda m: abs(levels[m] - point[0, -1].item()))
        return self.placed(point[:, :-1], fidelity, snapshot, generator, rule="information")

    @abstractmethod
    def acquisition(
        self, model: Model, utility: InverseCostWeightedUtility, X_pending: Tensor | None, seed: int
    ) -> AcquisitionFunction:
        """The acquisition to maximise over designs and fidelities."""
