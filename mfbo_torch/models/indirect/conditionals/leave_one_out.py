r"""The kernel on the queries and the regularisation of a conditional mean operator, by leave-one-out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from mfbo_torch.ops.kernels import cross_correlation

LOO_SIZE = 512
"""Largest number of samples of which the error is computed."""
SCALES = (0.1, 0.3, 1.0)
"""Lengthscales where the search starts, in standard deviations of the queries times the root of their dimension."""


def loss(gram: Tensor, target: Tensor, ridge: Tensor | float) -> Tensor:
    r"""Mean squared leave-one-out error of the conditional mean embedding, in closed form.

    With :math:`C = L_{aa} + N \lambda I` the error of the ``j``-th sample's embedding, predicted from
    all others, is :math:`[C^{-1} \Phi]_j / [C^{-1}]_{jj}` [Rasmussen2006gpml]_ (Eq. 5.12), so the loss is
    :math:`N^{-1} \sum_j [C^{-1} K C^{-1}]_{jj} / [C^{-1}]_{jj}^2`.
    ``gram`` is :math:`L_{aa}` of the queries, ``target`` is ``K`` of the inputs, ``ridge`` is :math:`N \lambda`.
    """
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram + ridge * eye))
    return ((inverse @ target * inverse).sum(-1) / inverse.diagonal().square()).mean()


def subset(n: int, device: torch.device) -> Tensor:
    """At most :data:`LOO_SIZE` of ``n`` indices, always the same ones."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[:LOO_SIZE].sort().values.to(device)


def target_gram(X: Tensor) -> Tensor:
    """RBF correlations of ``n x d`` inputs; the lengthscale is the median distance of the standardised inputs."""
    scaled = X / _spread(X)
    distances = torch.cdist(scaled, scaled)
    median = distances[distances > 0].median() if (distances > 0).any() else distances.new_ones(())
    return cross_correlation("rbf", scaled / median, scaled / median)


def choose(X: Tensor, A: Tensor, gram: Tensor | None = None, ridge: float | None = None) -> tuple[Tensor | None, float]:
    r"""The RBF lengthscales on the queries, ``p``, and :math:`N \lambda` with the least leave-one-out error for
    ``n x d`` inputs ``X`` and ``n x p`` queries ``A``. With ``gram``, the ``n x n`` covariances of the queries where
    their kernel is known, the lengthscales are ``None``; ``ridge`` is :math:`N \lambda`, where it is known."""
    n, p = A.shape
    target, spread = target_gram(X), _spread(A)
    free_scales, free_ridge = gram is None, ridge is None

    def value(point: Tensor) -> Tensor:
        own = gram
        if own is None:
            scaled = A / (spread * point[:p].exp())
            own = cross_correlation("rbf", scaled, scaled)
        return loss(own, target, point[-1].exp() if ridge is None else ridge).log()

    def objective(at: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.tensor(at, dtype=A.dtype, device=A.device, requires_grad=True)
        found = value(point)
        (gradient,) = torch.autograd.grad(found, point)
        return found.item(), gradient.cpu().double().numpy()

    scales = [[math.log(s * math.sqrt(p))] * p for s in SCALES] if free_scales else [[]]
    ridges = [[math.log(r)] for r in (1e-3, 1e-2, 1e-1, 1.0, 10.0)] if free_ridge else [[]]
    starts = [scale + own for scale in scales for own in ridges]
    if not starts[0]:
        return None, float(ridge or 0.0)
    with torch.no_grad():
        best = min(starts, key=lambda start: value(torch.tensor(start, dtype=A.dtype, device=A.device)).item())
    bounds = _bounds(p, n, free_scales, free_ridge)
    found = minimize(objective, best, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 50}).x
    point = torch.tensor(found, dtype=A.dtype, device=A.device)
    lengthscale = spread * point[:p].exp() if free_scales else None
    return lengthscale, float(point[-1].exp()) if ridge is None else ridge


def _bounds(p: int, n: int, free_scales: bool, free_ridge: bool) -> Sequence[tuple[float, float]]:
    scales = [(math.log(0.01), math.log(100.0))] * p if free_scales else []
    return scales + ([(math.log(1e-6), math.log(10.0 * n))] if free_ridge else [])


def _spread(points: Tensor) -> Tensor:
    """Standard deviations of the columns, one where they do not vary."""
    spread = points.std(0) if len(points) > 1 else torch.zeros_like(points[0])
    return torch.where(spread > 0, spread, torch.ones_like(spread))
