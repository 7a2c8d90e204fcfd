"""Factors and their extension, against refactoring, dense formulas and closed forms."""

import copy
import io
import pickle

import dense
import numpy as np
import pytest
import torch
from botorch.exceptions import UnsupportedError
from gaussian import NOISE, draw, factor
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from refusals import refused
from tolerances import TOLERANCES

from mfbo_torch.ops.cache import Cache, extend, factorize, grow, truncate
from mfbo_torch.ops.kernels import CORRELATIONS, correlation, cross_correlation, describe
from mfbo_torch.ops.posterior import mean_variance


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_correlations_by_formula(kind):
    A, B = draw(5, 3), draw(7, 3, seed=1)
    expected = dense.gram(kind, A.tolist(), B.tolist(), [1.0] * 3, 1.0)
    assert cross_correlation(kind, A, B).numpy() == pytest.approx(expected, abs=1e-14)
    assert correlation(kind, torch.zeros(1)).item() == 1.0


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_factor_inverts_the_covariance(kind):
    X = draw(9, 3)
    cache = factor(X, kind=kind)
    K = dense.gram(kind, X.tolist(), X.tolist(), [0.3, 0.4, 0.5], 1.7) + NOISE * np.eye(9)
    assert cache.num_points == 9
    assert (cache.inverse @ torch.from_numpy(K) @ cache.inverse.mT).numpy() == pytest.approx(np.eye(9), abs=1e-9)
    assert torch.equal(cache.inverse, cache.inverse.tril())
    assert cache.alpha.numpy() == pytest.approx(np.linalg.solve(K, X.sin().sum(-1).numpy()), rel=1e-9)


def test_processes_of_a_batch_are_independent():
    X = draw(2, 3, 5, 2)
    together = factor(X)
    for i in range(2):
        for j in range(3):
            scales = (getattr(together, name)[i, j] for name in ("lengthscale", "outputscale", "constant"))
            own = X[i, j]
            alone = factorize("rbf", own, own.sin().sum(-1), X.new_full((5,), NOISE), *scales, X.new_ones(5))
            assert torch.allclose(together.alpha[i, j], alone.alpha, rtol=1e-9)
            assert torch.allclose(together.inverse[i, j], alone.inverse, rtol=1e-9)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("kind", CORRELATIONS)
def test_extending_is_factoring_all_at_once(kind, dtype):
    X, pending, grid = draw(7, 3, dtype=dtype), draw(4, 3, seed=1, dtype=dtype), draw(31, 3, seed=2, dtype=dtype)
    cache = factor(X, kind=kind)
    extended = extend(cache, pending, torch.ones(4, dtype=dtype))
    known, unknown = X.sin().sum(-1), draw(4, seed=3, dtype=dtype)
    full = factor(torch.cat([X, pending]), torch.cat([known, unknown]), kind=kind)
    mean, variance = mean_variance(extended, grid)
    assert torch.equal(mean, mean_variance(cache, grid)[0])
    assert torch.allclose(variance, mean_variance(full, grid)[1], rtol=0, atol=1.7 * TOLERANCES[dtype])


def test_extending_twice_is_extending_once():
    cache, pending, grid = factor(draw(6, 2)), draw(5, 2, seed=1), draw(31, 2, seed=2)
    ones = torch.ones(5, dtype=torch.double)
    once = mean_variance(extend(cache, pending, ones), grid)
    twice = mean_variance(extend(extend(cache, pending[:2], ones[:2]), pending[2:], ones[2:]), grid)
    assert torch.equal(once[0], twice[0])
    assert torch.allclose(once[1], twice[1], rtol=0, atol=1e-12)


def test_points_of_another_process_are_left_out():
    """Of three pending points the first process gets one, the second two and the third none."""
    cache, pending, grid = factor(draw(3, 6, 2)), draw(3, 2, seed=1), draw(31, 2, seed=2)
    mask = torch.tensor([[0, 1, 0], [1, 0, 1], [0, 0, 0]], dtype=torch.double)
    _, variance = mean_variance(extend(cache, pending.unsqueeze(-3), mask), grid.unsqueeze(-3))
    for i in range(3):
        mine = pending[mask[i] > 0]
        alone = extend(cache, mine.unsqueeze(-3), torch.ones(3, len(mine), dtype=torch.double))
        assert torch.allclose(variance[i], mean_variance(alone, grid.unsqueeze(-3))[1][i], rtol=0, atol=1e-12)
    assert (variance <= mean_variance(cache, grid.unsqueeze(-3))[1] + 1e-12).all()


def test_batch_of_factors_shares_pending_points():
    cache = factor(draw(4, 2, 5, 3))
    extended = extend(cache, draw(1, 3, 3, seed=1), torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).double())
    assert extended.inverse.shape == (4, 2, 8, 8)
    assert extended.mask.shape == (4, 2, 8)
    mean, variance = mean_variance(extended, draw(1, 11, 3, seed=2))
    assert mean.shape == variance.shape == (4, 2, 11)
    assert torch.equal(mean, mean_variance(cache, draw(1, 11, 3, seed=2))[0])


@pytest.mark.parametrize("filling", [0.0, 0.5, 1e3])
def test_padding_has_no_effect(filling):
    X, grid = draw(5, 2), draw(31, 2, seed=2)
    padded = torch.cat([X, torch.full((3, 2), filling, dtype=torch.double)])
    mask = torch.tensor([1.0] * 5 + [0.0] * 3, dtype=torch.double)
    cache = factor(padded, torch.cat([X.sin().sum(-1), torch.full((3,), 7.0)]), mask=mask)
    torch.testing.assert_close(mean_variance(cache, grid), mean_variance(factor(X), grid), rtol=0, atol=1e-14)
    assert cache.noise.item() == pytest.approx(NOISE, rel=1e-14)


def test_no_points_and_far_points_leave_the_prior():
    _, variance = mean_variance(factor(draw(5, 2)), torch.full((1, 2), 1e6, dtype=torch.double))
    assert variance.item() == pytest.approx(1.7, rel=1e-14)
    mean, variance = mean_variance(factor(draw(0, 2)), draw(3, 2))
    assert torch.equal(mean, torch.full((3,), 0.4, dtype=torch.double))
    assert torch.equal(variance, torch.full((3,), 1.7, dtype=torch.double))


def closed_form(outputscale: float, correlation: float, noise: float) -> float:
    """Variance given one observation of some noise at a point of that correlation."""
    return outputscale - (outputscale * correlation) ** 2 / (outputscale + noise)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_near_duplicates_are_one_point_with_half_the_noise(dtype):
    gap = 1e-8 if dtype == torch.double else 0.0  # float32 has no 1e-8 beside 0.5
    X = torch.tensor([[0.5, 0.5], [0.5 + gap, 0.5]], dtype=dtype)
    grid = torch.cat([X, draw(9, 2, dtype=dtype)])
    mean, variance = mean_variance(factor(X, torch.tensor([2.0, 2.0], dtype=dtype)), grid)
    for x, found_mean, found_variance in zip(grid.tolist(), mean.tolist(), variance.tolist(), strict=True):
        share = dense.kernel("rbf", x, [0.5, 0.5], [0.3, 0.4], 1.0)
        expected = 0.4 + 1.7 * share / (1.7 + NOISE / 2) * 2.0
        loose = max(TOLERANCES[dtype], 1e-7)  # the middle of the two is 5e-9 beside the point
        assert found_mean == pytest.approx(expected, abs=loose)
        assert found_variance == pytest.approx(closed_form(1.7, share, NOISE / 2), abs=loose)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("noise", [1e-8, NOISE])
def test_a_hundred_identical_pending_points(dtype, noise):
    cache = Cache(**{**vars(factor(draw(0, 2, dtype=dtype), noise=noise)), "noise": torch.tensor(noise, dtype=dtype)})
    extended = extend(cache, torch.full((100, 2), 0.5, dtype=dtype), torch.ones(100, dtype=dtype))
    grid = torch.cat([torch.full((1, 2), 0.5, dtype=dtype), draw(9, 2, dtype=dtype)])
    _, variance = mean_variance(extended, grid)
    assert variance.isfinite().all()
    assert (variance >= 0).all()
    for x, found in zip(grid.tolist(), variance.tolist(), strict=True):
        share = dense.kernel("rbf", x, [0.5, 0.5], [0.3, 0.4], 1.0)
        assert found == pytest.approx(closed_form(1.7, share, noise / 100), abs=max(TOLERANCES[dtype], noise))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_pending_where_there_is_an_observation(dtype):
    X = draw(6, 2, dtype=dtype)
    _, variance = mean_variance(extend(factor(X, noise=1e-8), X[[2, 2, 5]], torch.ones(3, dtype=dtype)), X)
    assert variance.isfinite().all()
    assert (variance >= 0).all()
    assert (variance <= 1.7 * TOLERANCES[dtype] + 1e-8).all()


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_described_kernels(kind):
    kernel = dense.gpytorch_kernel(kind, 3).double()
    kernel.base_kernel.lengthscale = torch.tensor([[0.2, 0.5, 1.5]])
    kernel.outputscale = 2.5
    for described, scale in ((kernel, 2.5), (kernel.base_kernel, 1.0)):
        name, lengthscale, outputscale = describe(described, 3)
        assert name == kind
        assert lengthscale.tolist() == pytest.approx([0.2, 0.5, 1.5])
        assert outputscale.item() == pytest.approx(scale)
        A, B = draw(4, 3), draw(5, 3, seed=1)
        ours = outputscale * cross_correlation(name, A / lengthscale, B / lengthscale)
        assert torch.allclose(ours, described(A, B).to_dense(), rtol=1e-12)


def test_one_lengthscale_serves_all_dimensions():
    kernel = MaternKernel(nu=1.5, active_dims=(0, 1))
    kernel.lengthscale = 0.7
    _, lengthscale, _ = describe(kernel, 2)
    assert lengthscale.tolist() == pytest.approx([0.7, 0.7])


def test_unknown_correlation():
    refused("kernel = 'cosine': must be one of rbf, matern12", correlation, "cosine", None, error=UnsupportedError)


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (LinearKernel(), "LinearKernel"),
        (ScaleKernel(PeriodicKernel()), "PeriodicKernel"),
        (ScaleKernel(ScaleKernel(RBFKernel())), "ScaleKernel"),
        (RBFKernel(active_dims=(0,)), r"active_dims = \[0\]: must be all 2 inputs"),
        (ScaleKernel(RBFKernel(), active_dims=(1,)), r"active_dims = \[1\]: must be all 2 inputs"),
        (RBFKernel(ard_num_dims=3), "lengthscale of RBFKernel: 3 numbers, must be 1 or 2"),
    ],
)
def test_kernels_that_cannot_be_described(kernel, named):
    refused(named, describe, kernel, 2, error=UnsupportedError)


def saved(cache: Cache) -> Cache:
    file = io.BytesIO()
    torch.save(cache, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache)), saved])
@pytest.mark.parametrize("used", [False, True])
def test_a_factor_can_be_stored(copied, used):
    cache, grid = extend(factor(draw(6, 2)), draw(2, 2, seed=1), torch.ones(2).double()), draw(9, 2, seed=2)
    if used:
        mean_variance(cache, grid)
    torch.testing.assert_close(mean_variance(copied(cache), grid), mean_variance(cache, grid), rtol=0, atol=0)


def test_a_factor_can_be_moved():
    cache, grid = factor(draw(6, 2)), draw(9, 2, seed=2)
    exact = mean_variance(cache, grid)
    single = cache.to(torch.float32)
    assert {part.dtype for part in (single.inputs, single.inverse, single.noise)} == {torch.float32}
    for a, b in zip(mean_variance(single, grid.float()), exact, strict=True):
        assert a.dtype == torch.float32
        assert torch.allclose(a.double(), b, rtol=0, atol=1.7 * TOLERANCES[torch.float32])
    assert single.to("cpu", torch.float64).inverse.dtype == torch.float64
    assert torch.equal(cache.to("cpu").inverse, cache.inverse)


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_growing_is_factoring_all_at_once(kind):
    X, new, grid = draw(7, 3), draw(4, 3, seed=1), draw(31, 3, seed=2)
    values = torch.cat([draw(7, seed=4), draw(4, seed=3)])  # also those of the former points have changed
    full = factor(torch.cat([X, new]), values, kind=kind)
    noise = torch.full((4,), NOISE, dtype=torch.double)
    grown = grow(factor(X, kind=kind), new, values, noise)
    torch.testing.assert_close(mean_variance(grown, grid), mean_variance(full, grid), rtol=1e-9, atol=1e-9)
    assert torch.allclose(grown.noise, full.noise)
    assert torch.allclose(grow(full, new[:0], values, noise[:0]).alpha, full.alpha, rtol=1e-9)


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_truncating_takes_back_what_was_added(batch):
    """To the last bit: the leading block of an inverse factor is that of fewer points."""
    cache = factor(draw(*batch, 6, 2))
    few = extend(cache, draw(2, 2, seed=2), torch.ones(*batch, 2).double())
    more = extend(few, draw(3, 2, seed=3), torch.ones(*batch, 3).double())
    for expected in (cache, few, more):
        found = truncate(more, expected.num_points)
        for name in ("inputs", "mask", "inverse", "alpha"):
            assert torch.equal(getattr(found, name), getattr(expected, name))
        for a, b in zip(mean_variance(found, draw(4, 2)), mean_variance(expected, draw(4, 2)), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize(("n", "m"), [(1, 9), (33, 1000), (260, 9001), (1000, 5003)])
@pytest.mark.parametrize("kind", ["rbf", "matern52"])
def test_points_without_values_leave_the_means_to_the_last_bit(kind, n, m):
    cache, X = factor(draw(n, 3), kind=kind), draw(m, 3, seed=1)
    more = extend(cache, draw(7, 3, seed=2), torch.ones(7).double())
    assert torch.equal(mean_variance(cache, X)[0], mean_variance(more, X)[0])
