"""BoTorch's acquisition classes with a cached model: against dense algebra in NumPy, and in memory."""

import numpy as np
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel, ScaleKernel

from mfbo_torch import CachedGP

LENGTHSCALE, OUTPUTSCALE, NOISE = torch.tensor([0.7, 1.7, 0.01], dtype=torch.double)
BETA = 4.0


def cached(n: int, d: int = 6) -> CachedGP:
    generator = torch.Generator().manual_seed(n)
    X = torch.rand(n, d, generator=generator, dtype=torch.double)
    Y = torch.sin(3.0 * X).sum(-1, keepdim=True)
    model = SingleTaskGP(X, Y, covar_module=ScaleKernel(RBFKernel()), outcome_transform=None)
    model.covar_module.outputscale, model.covar_module.base_kernel.lengthscale = OUTPUTSCALE, LENGTHSCALE
    model.likelihood.noise, model.mean_module.constant = NOISE, 0.0
    return CachedGP(model.eval())


def dense(model: CachedGP, X: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The bound and its gradient, from the formulas and a solve."""
    A, Y, points = model.train_inputs[0].numpy(), model.train_targets.numpy(), X.numpy()
    scale, length, noise = OUTPUTSCALE.item(), LENGTHSCALE.item(), NOISE.item()
    squares = ((points[:, None] - A[None]) ** 2).sum(-1)
    k = scale * np.exp(-squares / 2 / length**2)
    gram = scale * np.exp(-((A[:, None] - A[None]) ** 2).sum(-1) / 2 / length**2)
    gram += noise * np.eye(len(A))
    weights, solved = np.linalg.solve(gram, Y), np.linalg.solve(gram, k.T).T
    deviation = np.sqrt(scale - (k * solved).sum(-1))
    slope = -(points[:, None] - A[None]) / length**2 * k[..., None]
    falling = np.einsum("mnd,mn->md", slope, solved) / deviation[:, None]
    return k @ weights + np.sqrt(BETA) * deviation, np.einsum("mnd,n->md", slope, weights) - np.sqrt(BETA) * falling


@pytest.mark.parametrize("n", [20, 100, 400, 1000])
@pytest.mark.parametrize("m", [1, 10, 64])
def test_value_and_gradient_are_those_of_dense_algebra(n: int, m: int) -> None:
    model = cached(n)
    X = torch.rand(m, 6, dtype=torch.double, generator=torch.Generator().manual_seed(1)).requires_grad_()
    value = UpperConfidenceBound(model, BETA)(X.unsqueeze(-2))
    value.sum().backward()
    expected, slope = dense(model, X.detach())
    assert X.grad is not None
    np.testing.assert_allclose(value.detach().numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(X.grad.numpy(), slope, rtol=1e-8, atol=1e-8 * np.abs(slope).max())


def test_many_points_take_no_more_memory_than_their_values() -> None:
    bound, points = UpperConfidenceBound(cached(1000), BETA), torch.rand(20_000, 1, 6, dtype=torch.double)
    bound(points[:2])
    with torch.no_grad(), torch.profiler.profile(profile_memory=True) as profile:
        bound(points)
    events = profile.profiler.kineto_results.events()
    allocated = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns()) if e.name() == "[memory]"]
    whole = 8 * 20_000 * 1000
    assert max(np.cumsum(allocated)) < whole / 2, "not all correlations at once"
