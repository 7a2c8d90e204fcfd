"""The gradient by hand, bounded memory and hard cases of the posterior operation."""

import warnings

import dense
import numpy as np
import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from gaussian import draw, exact, factor
from refusals import refused
from tolerances import TOLERANCES

from mfbo_torch.ops.cache import Cache, extend, factorize
from mfbo_torch.ops.kernels import CORRELATIONS
from mfbo_torch.ops.posterior import chunked, fused, mean_variance, reference

MASK = torch.tensor([[1.0] * 7, [1.0] * 4 + [0.0] * 3], dtype=torch.double)
CACHES = {
    "alone": lambda kind: factor(draw(7, 2), kind=kind),
    "many": lambda kind: factor(draw(450, 2), kind=kind, noise=0.1),
    "pending": lambda kind: extend(factor(draw(7, 2), kind=kind), draw(3, 2, seed=5), torch.ones(3).double()),
    "padded": lambda kind: factor(draw(2, 7, 2), kind=kind, mask=MASK),
    "two axes": lambda kind: factor(draw(3, 2, 5, 2), kind=kind),
}
SHAPES = [
    *(("alone", shape) for shape in [(6, 2), (4, 1, 2), (0, 2), (2, 3, 5, 2)]),
    *(("many", (5, 2)), ("pending", (6, 2))),
    *(("padded", shape) for shape in [(6, 2), (1, 6, 2), (2, 6, 2), (4, 1, 6, 2), (4, 2, 6, 2)]),
    *(("two axes", shape) for shape in [(6, 2), (2, 6, 2), (3, 1, 6, 2), (5, 4, 1, 2, 6, 2)]),
]


@pytest.fixture(autouse=True, params=["few", "many"])
def path(request, monkeypatch):
    """Through arrays, as few points go, and through torch, as many."""
    if request.param == "many":
        monkeypatch.setattr(fused, "MOST_BYTES", -1)


def outcomes(posterior, cache: Cache, X: torch.Tensor) -> list[torch.Tensor]:
    """Means, variances, and the gradient of a weighted sum of them."""
    X = X.clone().requires_grad_()
    mean, variance = posterior(cache, X)
    weights = draw(2, *mean.shape, seed=7)
    return [mean, variance, *torch.autograd.grad((weights[0] * mean).sum() + (weights[1] * variance).sum(), X)]


def assert_same(found: list[torch.Tensor], expected: list[torch.Tensor], atol: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("chunk", [None, 100, 1])
@pytest.mark.parametrize("kind", CORRELATIONS)
@pytest.mark.parametrize(("name", "shape"), SHAPES, ids=str)
def test_gradient_is_that_of_the_formula(name, shape, kind, chunk, monkeypatch):
    """Whatever is broadcast, extended, padded or done in pieces of ``chunk`` bytes."""
    if chunk is not None:
        monkeypatch.setattr(chunked, "CHUNK_BYTES", chunk)
    cache, X = CACHES[name](kind), draw(*shape, seed=3)
    assert_same(outcomes(mean_variance, cache, X), outcomes(reference.mean_variance, cache, X))
    with torch.no_grad():
        assert_same(list(mean_variance(cache, X)), list(reference.mean_variance(cache, X)))


@pytest.mark.parametrize(("n", "noise"), [(60, 1e-2), (60, 1e-6), (400, 1e-3), (600, 1e-1)])
def test_whatever_the_condition(n, noise):
    cache, X = factor(draw(n, 2), noise=noise), draw(9, 2, seed=3)
    assert_same(outcomes(mean_variance, cache, X), outcomes(reference.mean_variance, cache, X))


def test_values_are_the_same_with_a_gradient():
    """A line search compares both."""
    cache, X = factor(draw(60, 2), noise=1e-4), draw(9, 2, seed=3)
    for a, b in zip(mean_variance(cache, X.clone().requires_grad_()), mean_variance(cache, X), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", CORRELATIONS)
@pytest.mark.parametrize("name", ["alone", "pending", "padded"])
def test_gradcheck(kind, name):
    cache, X = CACHES[name](kind), draw(4, 2, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: mean_variance(cache, X), X)
    assert torch.autograd.gradcheck(lambda X: mean_variance(cache, X, floor=0.3, keepdim=True), X)


def test_single_precision():
    cache, X = CACHES["alone"]("matern52"), draw(9, 2, seed=3)
    expected = outcomes(mean_variance, cache, X)
    for a, b in zip(outcomes(mean_variance, cache.to(torch.float32), X.float()), expected, strict=True):
        assert a.dtype == torch.float32
        assert torch.allclose(a.double(), b, rtol=0, atol=20 * TOLERANCES[torch.float32])


def test_a_second_derivative_is_refused():
    X = draw(3, 2, seed=3).requires_grad_()
    mean, _ = mean_variance(CACHES["alone"]("rbf"), X)
    (gradient,) = torch.autograd.grad(mean.sum(), X, create_graph=True)
    refused("has a first derivative in X only", (gradient.sum() + X.sum()).backward, error=UnsupportedError)


def test_a_factor_with_a_gradient():
    """A fantasy's values: the plain formula takes over."""
    residuals = draw(7, seed=4).requires_grad_()
    cache, X = factor(draw(7, 2), residuals), draw(3, 2, seed=3).requires_grad_()
    assert cache.differentiable
    assert torch.autograd.gradcheck(lambda r: mean_variance(factor(draw(7, 2), r), X.detach())[0], residuals)
    mean, variance = mean_variance(cache, X, floor=0.1, keepdim=True)
    assert mean.shape == variance.shape == (3, 1)
    found = torch.autograd.grad(mean.sum(), (X, residuals), retain_graph=True)
    mean, _ = reference.mean_variance(cache, X)
    assert_same(list(found), list(torch.autograd.grad(mean.sum(), (X, residuals))))
    with torch.no_grad():
        assert torch.equal(mean_variance(cache, X)[0], mean_variance(factor(draw(7, 2), residuals.detach()), X)[0])


def test_least_variance_and_kept_axis():
    cache, X = CACHES["alone"]("rbf"), torch.cat([draw(7, 2), draw(5, 2, seed=3)]).requires_grad_()
    mean, variance = mean_variance(cache, X)
    floored = mean_variance(cache, X, floor=0.01, keepdim=True)
    assert torch.equal(floored[0], mean.unsqueeze(-1))
    assert torch.equal(floored[1], variance.clamp_min(0.01).unsqueeze(-1))
    low = variance < 0.01
    assert low.any()
    assert not low.all()
    (gradient,) = torch.autograd.grad(floored[1].sum(), X)
    (whole,) = torch.autograd.grad(mean_variance(cache, X)[1].sum(), X)
    assert torch.equal(gradient, torch.where(low.unsqueeze(-1), 0.0, whole))


def test_memory_is_bounded(monkeypatch):
    """No tensor larger than the bound or the result is made."""
    cache, X = factor(draw(40, 2), noise=0.1), draw(5000, 2, seed=3).requires_grad_()
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 40 * 8 * 100)
    largest = 0

    class Watched(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            for part in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(part, torch.Tensor):
                    largest = max(largest, part.numel())
            return out

    with Watched():
        mean, variance = mean_variance(cache, X)
        (gradient,) = torch.autograd.grad((mean + variance).sum(), X)
    assert gradient.shape == X.shape
    assert largest <= 2 * 5000
    mean, variance = reference.mean_variance(cache, X)
    assert_same([gradient], list(torch.autograd.grad((mean + variance).sum(), X)))


HARD = [
    # n, d, lengthscale, noise, scale of the targets
    *((1, 1, 0.3, 1e-6, 1.0), (2, 30, 1e2, 1e-6, 1e6), (60, 1, 1e-2, 1e-6, 1.0), (60, 1, 0.3, 1e-6, 1e-6)),
    *((60, 1, 1e2, 1e-6, 1.0), (60, 6, 1e-2, 1e-6, 1e6), (60, 6, 0.3, 1e-6, 1.0), (60, 6, 1e2, 1e-4, 1.0)),
    (150, 30, 1.0, 1e-6, 1.0),
]


def hard(kind: str, n: int, d: int, lengthscale: float, noise: float, scale: float):
    """A GP whose points are nearly there twice, its factor, and where to ask: at, beside and between the points."""
    X = draw(n, d)
    X[n // 2 :] = X[: n - n // 2] + 1e-9 * draw(n - n // 2, d, seed=1)
    Y = scale * X.sin().sum(-1)
    Yvar, kernel = torch.full((n, 1), noise, dtype=torch.double), dense.gpytorch_kernel(kind, d)
    base = kernel.base_kernel
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskGP(X, Y.unsqueeze(-1), Yvar, covar_module=kernel, outcome_transform=None).double()
    base.lengthscale, kernel.outputscale = lengthscale, 2.0
    model.mean_module.constant.data.fill_(0.5 * scale)
    one = X.new_ones(())
    parts = (X, Y - 0.5 * scale, Yvar.squeeze(-1), base.lengthscale[0], kernel.outputscale, one * 0.5 * scale)
    cache = factorize(kind, *(part.detach() for part in parts), torch.ones_like(Y))
    near = X[: min(n, 5)]
    return model.eval(), cache, torch.cat([draw(6, d, seed=2), near, near + 1e-8, near + 0.1 * lengthscale]), Y


@pytest.mark.parametrize(("n", "d", "lengthscale", "noise", "scale"), HARD)
@pytest.mark.parametrize("kind", CORRELATIONS)
def test_exact(kind, n, d, lengthscale, noise, scale):
    """Within 1e-9 of the exact value, in 80-bit floats, in units of the prior (or the targets, if larger)."""
    model, cache, A, Y = hard(kind, n, d, lengthscale, noise, scale)
    found = [part.numpy() for part in mean_variance(cache, A)]
    hyper = (model.covar_module.base_kernel.lengthscale[0, 0].item(), model.covar_module.outputscale.item())
    mean, variance = exact(kind, model.train_inputs[0], Y, A, *hyper, noise, 0.5 * scale)
    assert np.abs(found[0] - mean).max() <= 1e-9 * max(2.0**0.5, float(Y.abs().max()))
    assert np.abs(found[1] - variance).max() <= 1e-9 * 2.0
    assert found[1].min() >= 0


@pytest.mark.parametrize(
    ("n", "d", "lengthscale", "noise", "scale"), [*HARD, pytest.param(2000, 4, 0.5, 1e-6, 1.0, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["rbf", "matern32", "matern52"])
def test_agrees_with_gpytorch(kind, n, d, lengthscale, noise, scale):
    """GPyTorch's Matérn 1/2 takes distances from inner products and keeps half of the digits of small ones; it is
    checked against the exact value alone."""
    model, cache, A, Y = hard(kind, n, d, lengthscale, noise, scale)
    X = A.unsqueeze(1).requires_grad_()
    theirs = model.posterior(X)
    mean, variance = mean_variance(cache, X)
    unit = max(2.0**0.5, float(Y.abs().max()))
    assert (mean - theirs.mean.squeeze(-1)).abs().max() <= 1e-9 * unit
    assert (variance.clamp_min(1e-10) - theirs.variance.squeeze(-1)).abs().max() <= 2e-9
    inside = (variance > 1e-9).unsqueeze(-1)  # below its least variance GPyTorch has no gradient
    for ours, other, size in ((mean, theirs.mean, unit), (variance, theirs.variance, 2.0)):
        (a,) = torch.autograd.grad(ours.sum(), X, retain_graph=True)
        (b,) = torch.autograd.grad(other.sum(), X, retain_graph=True)
        assert ((a - b) * inside).abs().max() <= 1e-7 * size * max(1.0, 1 / lengthscale)
