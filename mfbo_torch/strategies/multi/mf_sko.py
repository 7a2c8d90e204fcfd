r"""MF-SKO: sequential kriging optimisation with several fidelities.

References:

.. [Huang2006mfsko]
    D. Huang, T. Allen, W. Notz, R. Miller. Sequential Kriging Optimization Using
    Multiple-Fidelity Evaluations. Structural and Multidisciplinary Optimization 32, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from mfbo_torch.history import History, Query, values
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.gp.shared_lengthscales import ard_kernel
from mfbo_torch.strategies.common.fit_schedule import quiet
from mfbo_torch.strategies.multi.base import MultiFidelityModelBased
from mfbo_torch.strategies.snapshot import Snapshot, data_of


class AdditiveFidelityKernel(Kernel):
    r"""Covariance of ``f^(m) = f^(m-1) + δ^(m)`` with independent ``δ`` [Huang2006mfsko]_.

    ``k((x, l), (x', l')) = Σ_{j <= min(l, l')} s_j k_j(x, x')``, with one RBF kernel ``k_j`` and one
    scale ``s_j`` a fidelity. The last input column is the fidelity ``0 ... M - 1``.

    Args:
        dim: Number of parameters, without the fidelity.
        num_fidelities: ``M``.
        groups: Those of :func:`~mfbo_torch.models.gp.shared_lengthscales.ard_kernel`.
    """

    def __init__(self, dim: int, num_fidelities: int, groups: Sequence[int] | None = None) -> None:
        super().__init__()
        kernels = [
            ScaleKernel(
                ard_kernel(dim, groups),
                outputscale_prior=LogNormalPrior(-1.0, 1.5),
                outputscale_constraint=GreaterThan(1e-8),  # the prior has no density at 0
            )
            for _ in range(num_fidelities)
        ]
        for j, kernel in enumerate(kernels):
            kernel.outputscale = 1.0 if j == 0 else 0.1
        self.kernels = torch.nn.ModuleList(kernels)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """The covariances of ``... x n x (d + 1)`` and ``... x m x (d + 1)`` points, or their diagonal."""
        levels1, levels2 = x1[..., -1].round(), x2[..., -1].round()
        parts = []
        for j, kernel in enumerate(self.kernels):
            has1, has2 = (levels1 >= j).to(x1), (levels2 >= j).to(x2)
            both = has1 * has2 if diag else has1.unsqueeze(-1) * has2.unsqueeze(-2)
            parts.append(both * kernel.forward(x1[..., :-1], x2[..., :-1], diag=diag, **params))
        return sum(parts[1:], parts[0])


class LogAugmentedExpectedImprovement(AcquisitionFunction):
    r"""Logarithm of the augmented expected improvement at one fidelity ``l`` [Huang2006mfsko]_.

    ``EI(x) α_1(x, l) α_2(x, l) α_3(l)``, where ``EI`` is the expected improvement of the target
    ``f^(M)`` over ``best_f``; ``α_1`` is the posterior correlation of ``f^(l)(x)`` and ``f^(M)(x)``;
    ``α_2 = 1 - σ_ε / √(σ_l²(x) + σ_ε²)`` discounts repetitions; and ``α_3 = λ^(M) / λ^(l)``.

    Args:
        model: A model over ``d`` parameters and the fidelity.
        best_f: Posterior mean of the target at the effective best design.
        fidelity: ``l``.
        target: The target fidelity.
        cost_ratio: ``α_3``.
    """

    def __init__(self, model: Model, best_f: float, fidelity: int, target: int, cost_ratio: float) -> None:
        super().__init__(model=model)
        self.log_improvement = LogExpectedImprovement(model, best_f)
        self.fidelity, self.target, self.log_cost_ratio = fidelity, target, math.log(cost_ratio)

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """Values ``b`` of ``b x 1 x d`` designs."""
        at_target = at_fidelity(X, self.target)
        pair = torch.cat([at_fidelity(X, self.fidelity), at_target], dim=-2)
        covariance = self.model.posterior(pair).distribution.covariance_matrix
        variance = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-10)
        correlation = covariance[..., 0, 1] / variance.prod(dim=-1).sqrt()
        noise = self.model.likelihood.noise.mean()
        repetition = 1.0 - (noise / (variance[..., 0] + noise)).sqrt()
        discounts = correlation.clamp(1e-6, 1.0).log() + repetition.clamp_min(1e-6).log()
        return self.log_improvement(at_target) + discounts + self.log_cost_ratio


def at_fidelity(X: Tensor, fidelity: int) -> Tensor:
    """``... x d`` designs with the fidelity as their last column."""
    return torch.cat([X, torch.full_like(X[..., :1], float(fidelity))], dim=-1)


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

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the GP at every fidelity."""
        snapshot = self.snapshot(history)
        if not (records := self.modelled(snapshot)):
            return None
        return self.predict_jointly(self.model(snapshot), self.surrogate.to, values(records), X)

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        target, costs = self.space.target, snapshot.costs
        model = CachedGP(self.model(snapshot)).hallucinate(self.surrogate.to(snapshot.points(snapshot.pending)))
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
        return self.placed(found[fidelity][0], fidelity, snapshot, generator)
