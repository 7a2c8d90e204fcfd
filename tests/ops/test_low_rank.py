"""Few columns for many points: the error is what it is said to be."""

import averages
import pytest
import torch
from gaussian import draw

from mfbo_torch.ops.kernels import gram, gram_product
from mfbo_torch.ops.low_rank import RidgeSolver, pivoted_cholesky, quadratic


def covariance(n: int, kind: str = "rbf") -> torch.Tensor:
    X = draw(n, 2)
    return gram(averages.kernel(kind), X, X).detach()


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-12])
def test_the_error_is_positive_and_bounded(tolerance):
    K = covariance(300)
    F, left, pivots = pivoted_cholesky(lambda j: K[:, j], K.diagonal(), tolerance, 300)
    error = K - F @ F.mT
    assert left.max() <= tolerance
    assert error.abs().max() <= tolerance + 1e-13
    assert torch.allclose(error.diagonal(), left, rtol=0, atol=1e-13)
    assert torch.linalg.eigvalsh(error).min() > -1e-12
    assert F.shape[-1] == len(pivots) < 300
    assert torch.equal(F[pivots].triu(1), torch.zeros_like(F[pivots]))


def test_the_rank_is_bounded_and_may_be_full():
    K = covariance(100, "matern12")
    F, left, _ = pivoted_cholesky(lambda j: K[:, j], K.diagonal(), 1e-12, 90)
    assert F.shape == (100, 90)
    assert left.max() > 1e-12
    F, left, _ = pivoted_cholesky(lambda j: K[:, j], K.diagonal(), 0.0, 1000)
    assert torch.allclose(F @ F.mT, K, rtol=0, atol=1e-13)
    assert left.max() == 0


@pytest.mark.parametrize(("ridge", "few"), [(5.0, True), (1e-7, False)])
def test_solver(ridge, few):
    K = covariance(1100)
    solver = RidgeSolver(lambda j: K[:, j], lambda: K.clone(), K.diagonal(), ridge)
    assert (solver.columns is not None) == few
    B = draw(1100, 3, seed=1).requires_grad_()
    expected = torch.linalg.solve(K + ridge * torch.eye(1100, dtype=torch.double), B)
    assert (solver(B) - expected).abs().max() <= (1e-9 if few else 1e-5) * expected.abs().max()
    (gradient,) = torch.autograd.grad(solver(B).sum(), B)
    assert torch.allclose(gradient, solver(torch.ones_like(B)), rtol=1e-9)


def test_quadratic():
    X, W = draw(600, 2), draw(4, 600, seed=1)
    kernel = averages.kernel()
    found = quadratic(kernel, X, W)
    exact = W @ gram(kernel, X, X) @ W.mT
    assert torch.allclose(found, exact, rtol=1e-10)
    slopes = (torch.autograd.grad(v.sum(), list(kernel.parameters())) for v in (found, exact))
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-8)
    assert quadratic(averages.kernel("matern12"), X, W) is None


@pytest.mark.parametrize("graph", [False, True])
def test_products_in_parts(graph, monkeypatch):
    kernel = averages.kernel().requires_grad_(graph)
    A, B, M = draw(2, 30, 2).requires_grad_(graph), draw(20, 2, seed=1), draw(20, 3, seed=2)
    whole = gram_product(kernel, A, B, M)
    for name in ("CHUNK_BYTES", "GRAPH_BYTES"):
        monkeypatch.setattr(f"mfbo_torch.ops.kernels.{name}", 8 * 20 * 2 * 7)
    parts = gram_product(kernel, A, B, M)
    assert torch.allclose(parts, whole, rtol=0, atol=1e-13)
    if graph:
        slopes = [torch.autograd.grad(v.sum(), [A, *kernel.parameters()]) for v in (parts, whole)]
        torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-12)
