"""MF-SKO: sequential kriging optimisation with several fidelities."""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.acquisition.expected_improvement import LogAugmentedExpectedImprovement
from mfbo_torch.history import Query
from mfbo_torch.models.gp.dense import DenseGP
from mfbo_torch.models.multi_fidelity.additive_kernel import AdditiveFidelityKernel
from mfbo_torch.models.multi_fidelity.base import at_fidelity
from mfbo_torch.strategies.common.fit_schedule import quiet
from mfbo_torch.strategies.multi.base import MultiFidelityModelBased
from mfbo_torch.strategies.snapshot import Snapshot, data_of


class MFSKO(MultiFidelityModelBased):
    """Sequential kriging optimisation with several fidelities [Huang2006mfsko]_.

    One GP with additive discrepancies; the next query maximises the augmented expected improvement
    over designs and fidelities. The effective best design maximises ``μ^(M) - σ^(M)`` over the designs
    evaluated at any fidelity. Pending points lower the deviations and leave the means.

    Args:
        **settings: Those of :class:`~mfbo_torch.strategies.multi.base.MultiFidelityModelBased`.
    """

    def _build(self, X: Tensor, Y: Tensor, Yvar: Tensor | None = None) -> Model:
        kernel = AdditiveFidelityKernel(self.space.unit_dim, self.space.num_fidelities, self.space.groups)
        return SingleTaskGP(X, Y, Yvar, covar_module=kernel, outcome_transform=None)

    def model(self, snapshot: Snapshot) -> Model:
        """The GP of everything observed."""
        return self.surrogate.model(self._build, *data_of(self.space, self.modelled(snapshot)))

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        target, costs = self.space.target, snapshot.costs
        model = DenseGP(self.model(snapshot)).hallucinate(self.surrogate.to(snapshot.flying))
        designs = self.surrogate.to(snapshot.points(self.modelled(snapshot)))
        with torch.no_grad(), quiet():
            posterior = model.posterior(at_fidelity(designs[:, :-1], target))
            best = (posterior.mean - posterior.variance.sqrt()).argmax()
            best_f = posterior.mean.view(-1)[best].item()
        found = []
        for m in range(target + 1):
            acquisition: AcquisitionFunction = LogAugmentedExpectedImprovement(
                model, best_f, m, target, costs[target] / costs[m]
            )
            acquisition = self.feasible(acquisition, snapshot, target)
            found.append(self.maximize(acquisition, generator, num_restarts=4, raw_samples=128))
        fidelity = max(range(target + 1), key=lambda m: found[m][1])
        return self.placed(found[fidelity][0], fidelity, snapshot, generator, rule="improvement")
