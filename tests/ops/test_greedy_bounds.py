"""Cheap upper bounds of scores: never below the score, and not far above it."""

import pytest
import torch
from gaussian import draw, exact, factor

from mfbo_torch.ops.cache import extend
from mfbo_torch.ops.greedy import bounds
from mfbo_torch.ops.greedy.bounds import upper_bounds
from mfbo_torch.ops.kernels import CORRELATIONS
from mfbo_torch.ops.posterior.reference import mean_variance


def scores(cache, X: torch.Tensor, width: float) -> torch.Tensor:
    mean, variance = mean_variance(cache, X)
    return mean + width * variance.sqrt()


@pytest.mark.parametrize("noise", [1e-10, 1e-6, 0.1])
@pytest.mark.parametrize("n", [0, 1, 20, 150])
@pytest.mark.parametrize("kind", CORRELATIONS)
def test_never_below(kind, n, noise):
    """Among the data, at them, in clusters and a long way off, where inner products lose most digits."""
    train = torch.cat([draw(n, 2), draw(n, 2, seed=2) * 1e-9 + 0.5])[:n]
    cache = factor(train, kind=kind, noise=noise)
    X = torch.cat([draw(50, 2, seed=1), train, train + 1e-10, 1e3 * draw(20, 2, seed=3), 1e8 * draw(20, 2, seed=4)])
    for width in (0.0, 0.7, 30.0):
        for given in (cache, extend(cache, draw(3, 2, seed=5), torch.ones(3).double())):
            assert (upper_bounds(given, X, width) >= scores(given, X, width) - 1e-12).all()


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_never_below_in_long_double(kind):
    X, A = draw(40, 2), torch.cat([draw(30, 2, seed=1), draw(40, 2)])
    cache = factor(X, X.sin().sum(-1), kind, 1e-3)
    cache.lengthscale.fill_(0.35)
    cache = factor(X * cache.lengthscale / factor(X).lengthscale, X.sin().sum(-1), kind, 1e-3)  # one lengthscale
    at = A / 0.35 * cache.lengthscale
    mean, variance = exact(kind, cache.inputs, X.sin().sum(-1) + 0.4, cache.scaled(at), 1.0, 1.7, 1e-3, 0.4)
    assert (upper_bounds(cache, at, 2.0).numpy() >= mean + 2 * variance**0.5).all()


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_not_far_above(kind):
    """The deviation is that given the first points; what rounding is allowed for is little."""
    known, X = draw(200, 3), draw(300, 3, seed=1)
    cache, first = (factor(part, kind=kind, noise=0.01) for part in (known, known[: 200 // bounds.PART]))
    mean, _ = mean_variance(cache, X)
    _, variance = mean_variance(first, X)
    apart = upper_bounds(cache, X, 3.0) - (mean + 3 * variance.sqrt())
    assert apart.min() >= 0
    assert apart.max() <= (1e-3 if kind == "matern12" else 1e-8)


@pytest.mark.parametrize("d", [1, 12])
@pytest.mark.parametrize("dtype", [torch.double, torch.float])
def test_pieces_and_precision(monkeypatch, dtype, d):
    cache, X = factor(draw(30, d), noise=0.1).to(dtype), draw(100, d, seed=1).to(dtype)
    whole = upper_bounds(cache, X, 2.0)
    assert whole.dtype == dtype
    assert (whole >= scores(cache, X, 2.0)).all()
    monkeypatch.setattr(bounds, "STEP_BYTES", 1000)
    assert torch.allclose(upper_bounds(cache, X, 2.0), whole, rtol=1e-12 if dtype == torch.double else 1e-5)
