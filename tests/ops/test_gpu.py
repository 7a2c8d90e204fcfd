"""The operations on a CUDA device, against the torch reference in float64 on the CPU or the same device."""

import math

import botorch.optim
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from tolerances import TOLERANCES
from torch import Tensor

from mfbo_torch import MFGPUCB, CachedGP, run
from mfbo_torch import HallucinatedUpperConfidenceBound as HallucinatedUCB
from mfbo_torch.acquisition.optimize import optimize_acqf
from mfbo_torch.ops import _dispatch
from mfbo_torch.ops.cache import Cache, extend, factorize
from mfbo_torch.ops.greedy import greedy
from mfbo_torch.ops.kernels import CORRELATIONS
from mfbo_torch.ops.posterior import graphs, mean_variance, reference
from mfbo_torch.problems import Currin

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]
DTYPES = tuple(TOLERANCES)
SCALE = 1.7
DIM = 6


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.double) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double).to("cuda", dtype)


def factor(X: Tensor, kind: str = "matern52", noise: float = 1e-2, mask: Tensor | None = None) -> Cache:
    batch, d = X.shape[:-2], X.shape[-1]
    one = X.new_ones(batch)
    return factorize(
        kind,
        X,
        X.sin().sum(-1),
        torch.full_like(X[..., 0], noise),
        (0.6 + 0.1 * torch.arange(d, dtype=X.dtype, device=X.device)).expand(*batch, d),
        SCALE * one,
        0.4 * one,
        torch.ones_like(X[..., 0]) if mask is None else mask,
    )


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the kernels do not write is NaN."""
    empty = torch.empty

    def filled(*shape, **options) -> Tensor:
        values = empty(*shape, **options)
        return values.fill_(math.nan) if values.is_floating_point() else values

    monkeypatch.setattr(torch, "empty", filled)


def assert_agrees(cache: Cache, X: Tensor, backend: str = "triton") -> None:
    """Value and gradient are the reference's in float64."""
    points = X.double().clone().requires_grad_()
    expected = reference.mean_variance(cache.to(torch.double), points)
    weights = [draw(*expected[0].shape, seed=seed) - 0.5 for seed in (5, 6)]
    (expected_gradient,) = torch.autograd.grad(expected, points, weights)
    ours = X.clone().requires_grad_()
    mean, variance = mean_variance(cache, ours, backend)
    (gradient,) = torch.autograd.grad((mean, variance), ours, [w.to(X.dtype) for w in weights])
    assert mean.dtype == variance.dtype == gradient.dtype == X.dtype
    atol = TOLERANCES[X.dtype]
    assert (mean - expected[0]).abs().max() <= atol * max(expected[0].abs().max().item(), SCALE**0.5)
    assert (variance - expected[1]).abs().max() <= atol * SCALE
    assert (variance >= 0).all()
    assert (gradient - expected_gradient).abs().max() <= atol * max(expected_gradient.abs().max().item(), 1.0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CORRELATIONS)
@pytest.mark.parametrize(
    ("n", "m"),
    [(1, 1), (20, 3), (100, 64), (401, 67), (250, 5003), (256, 4096), (333, 5003), (1024, 4096), (1500, 2049)],
)
def test_agrees_with_the_reference(n, m, kind, dtype):
    """Few points, covariances recomputed, covariances stored; sizes even and odd."""
    assert_agrees(factor(draw(n, DIM, dtype=dtype), kind), draw(m, DIM, seed=1, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("d", [1, 2, 17, 30])
def test_dimensions(d, dtype):
    assert_agrees(factor(draw(300, d, dtype=dtype)), draw(33, d, seed=1, dtype=dtype))
    assert_agrees(factor(draw(300, d, dtype=dtype)), draw(1500, d, seed=1, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("m", [7, 3001])
def test_processes_of_different_sizes(m, dtype):
    counts = (700, 300, 129, 0)
    mask = torch.stack([(torch.arange(700) < count).to("cuda", dtype) for count in counts])
    cache = factor(draw(4, 700, DIM, dtype=dtype), mask=mask)
    assert_agrees(cache, draw(1, m, DIM, seed=1, dtype=dtype))
    pending = torch.tensor([[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1]]).to("cuda", dtype)
    assert_agrees(extend(cache, draw(1, 3, DIM, seed=3, dtype=dtype), pending), draw(4, m, DIM, seed=1, dtype=dtype))


@pytest.mark.parametrize("m", [9, 1200])
@pytest.mark.parametrize("kind", CORRELATIONS)
def test_near_duplicates(kind, m):
    X = draw(400, DIM)
    X[200:] = X[:200] + 1e-9
    cache = factor(X, kind, noise=1e-6)
    points = torch.cat([draw(m, DIM, seed=1), X[:7] + 1e-7])
    exact, _ = reference.mean_variance(cache, points)
    mean, variance = mean_variance(cache, points, backend="triton")
    assert (mean - exact).abs().max() <= 1e-9 * exact.abs().max()
    assert (variance >= 0).all()
    assert (variance - reference.mean_variance(cache, points)[1]).abs().max() <= 1e-9 * SCALE


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", [kind for kind in CORRELATIONS if kind != "matern12"])
def test_few_points_as_a_graph(kind, dtype, recwarn):
    """Captured once for a bucket of sizes, for one factor after another."""
    for n in (33, 40, 64, 400):
        for m in (1, 5, 8, 64):
            cache, X = factor(draw(n, DIM, seed=n, dtype=dtype), kind), draw(m, DIM, seed=m, dtype=dtype)
            assert graphs.takes(cache, X)
            assert_agrees(cache, X, "auto")
    assert not [warning for warning in recwarn if "one by one" in str(warning.message)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n", "m"), [(700, 5003), (64, 5000), (3, 5)])
def test_in_torch(n, m, dtype):
    assert_agrees(factor(draw(n, DIM, dtype=dtype)), draw(m, DIM, seed=1, dtype=dtype), "torch")
    assert_agrees(factor(draw(2, n, DIM, dtype=dtype)), draw(2, m, DIM, seed=1, dtype=dtype), "torch")


def on_device(n: int, device: str = "cuda") -> CachedGP:
    X = draw(n, DIM).to(device)
    return CachedGP(SingleTaskGP(X, X.sin().sum(-1, keepdim=True)))


def test_a_factor_is_made_once():
    """BoTorch's acquisition functions move their model at every call, to where it is."""
    model = on_device(30)
    cache, acquisition = model.cache, UpperConfidenceBound(model, 2.0)
    acquisition(draw(5, 1, DIM, seed=1))
    assert model.cache is cache
    assert model.to("cpu").cache is not cache


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("pending", [0, 3])
def test_optimize_acqf_finds_what_it_finds_on_the_processor(n, pending, monkeypatch):
    found = []
    for device in ("cuda", "cpu"):
        acquisition = HallucinatedUCB(on_device(n, device), 4.0, draw(pending, DIM, seed=2).to(device))
        bounds = torch.tensor([[0.0] * DIM, [1.0] * DIM], dtype=torch.double, device=device)
        torch.manual_seed(0)
        with monkeypatch.context() as patch:
            patch.setattr(botorch.optim, "optimize_acqf", None)  # the fused loop takes it
            found.append(optimize_acqf(acquisition, bounds, 1, 4, 64))
    (ours, value), (X, wanted) = found
    assert ours.is_cuda
    assert value.is_cuda
    torch.testing.assert_close(value.cpu(), wanted, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(ours.cpu(), X, rtol=0, atol=1e-3)


@pytest.mark.parametrize("hedge", [True, False])
def test_a_run_on_the_device(hedge):
    """It queries what a run on the processor queries, as long as rounding does not choose."""
    found = []
    for place in ("cuda", "cpu"):
        history = run(Currin(), MFGPUCB(device=place, hedge=hedge, seed=0), 60, progress=False)
        found.append(torch.tensor([list(record.query.x) for record in history.records[:10]]))
    torch.testing.assert_close(*found, rtol=0, atol=1e-3)


def test_auto_follows_the_device():
    cache, X = factor(draw(50, DIM)), draw(110, DIM, seed=1)
    torch.testing.assert_close(mean_variance(cache, X), mean_variance(cache, X, backend="triton"), rtol=0, atol=0)


def test_memory_is_bounded_for_many_points():
    """Two million points at 512: all covariances at once would take 8 GB."""
    cache, X = factor(draw(512, DIM)), draw(2_000_000, DIM, seed=1)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    mean, variance = mean_variance(cache, X)
    assert torch.cuda.max_memory_allocated() - before < _dispatch.kernels("posterior").scratch_of(X) + 2**30
    some = torch.randint(len(X), (1000,), generator=torch.Generator().manual_seed(0)).cuda()
    expected = reference.mean_variance(cache, X[some])
    assert (mean[some] - expected[0]).abs().max() <= 1e-9 * expected[0].abs().max()
    assert (variance[some] - expected[1]).abs().max() <= 1e-9 * SCALE


@pytest.mark.parametrize("kind", CORRELATIONS)
@pytest.mark.parametrize(("n", "m"), [(0, 100), (30, 1), (200, 10_000), (501, 33_333)])
def test_greedy_picks(n, m, kind):
    cache, X = factor(draw(n, DIM), kind), draw(m, DIM, seed=1)
    assert torch.equal(*(greedy(cache, X, 3.0, 12, backend).indices for backend in ("triton", "torch")))


def test_greedy_ties_go_to_the_first():
    assert (greedy(factor(draw(100, DIM)), draw(700, DIM, seed=1).repeat(40, 1), 3.0, 10).indices < 700).all()


def test_greedy_does_not_wait_for_the_device():
    """Between picks nothing comes back to the host."""
    cache, X = factor(draw(100, DIM)), draw(5000, DIM, seed=1)
    greedy(cache, X, 3.0, 3)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        picks = greedy(cache, X, 3.0, 20).indices
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(picks, greedy(cache, X, 3.0, 20, "torch").indices)
