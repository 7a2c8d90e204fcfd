"""Greedy selection, against refactoring after each pick, against BoTorch and against itself without laziness."""

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP
from gaussian import draw, factor, picks_by_refactoring
from refusals import refused
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from mfbo_torch import CachedGP
from mfbo_torch.ops.cache import Cache, extend
from mfbo_torch.ops.greedy import bounds, greedy, lazy, reference
from mfbo_torch.ops.kernels import CORRELATIONS
from mfbo_torch.ops.posterior import chunked

SELECTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "lazy": lambda *arguments: greedy(*arguments).indices,
    "whole": lambda *arguments: greedy(*arguments, lazy=False).indices,
    "reference": reference.select,
}
either = pytest.mark.parametrize("select", SELECTIONS.values(), ids=SELECTIONS)


def correlation(kind: str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    r = cdist(A, B)
    if kind == "rbf":
        return np.exp(-r * r / 2)
    s = r * math.sqrt({"matern12": 1, "matern32": 3, "matern52": 5}[kind])
    return {"matern12": 1, "matern32": 1 + s, "matern52": 1 + s + s * s / 3}[kind] * np.exp(-s)


def brute_force(cache: Cache, n: int, Y: torch.Tensor, X: torch.Tensor, width: float, q: int) -> list[int]:
    """The picks from the covariance of all points, factored anew before each; equal up to rounding, the first."""
    points, choices = cache.inputs.numpy(), cache.scaled(X).numpy()
    scale, noise = cache.outputscale.item(), cache.noise.item()
    mean, picks = np.full(len(X), cache.constant.item()), []
    if n:
        K = scale * correlation(cache.kernel, points[:n], points[:n]) + noise * np.eye(n)
        mean += scale * correlation(cache.kernel, choices, points[:n]) @ np.linalg.solve(K, Y.numpy())
    for _ in range(q):
        known = np.concatenate([points, choices[picks]])
        L = np.linalg.cholesky(scale * correlation(cache.kernel, known, known) + noise * np.eye(len(known)))
        V = solve_triangular(L, scale * correlation(cache.kernel, known, choices), lower=True)
        score = mean + width * np.sqrt(np.maximum(scale - (V * V).sum(0), 0))
        picks.append(int(np.flatnonzero(score >= score.max() - 1e-10)[0]))
    return picks


@pytest.mark.parametrize("seed", range(200))
def test_lazy_whole_and_brute_force_agree(seed):
    """Random sizes, kernels, widths, pending points, and every other time duplicates in the set."""
    rng = np.random.default_rng(seed)
    large = seed % 10 == 0
    n, m = int(rng.integers(1, 301 if large else 60)), int(rng.integers(2, 5001 if large else 400))
    q, d, p = int(rng.integers(1, min(50 if large else 20, m) + 1)), int(rng.integers(1, 5)), int(rng.integers(0, 6))
    kind, width, noise = rng.choice(CORRELATIONS), float(rng.choice([0.3, 1.0, 3.0, 30.0])), 10 ** rng.uniform(-4, -1)
    X = torch.from_numpy(rng.random((m, d)))
    if seed % 2:
        X[torch.from_numpy(rng.integers(0, m, m // 2))] = X[torch.from_numpy(rng.integers(0, m, m // 2))]
    train = torch.from_numpy(rng.random((n, d)))
    Y = (5 * train).sin().sum(-1)
    cache = factor(train, Y - 0.4, kind, noise)
    cache = extend(cache, torch.from_numpy(rng.random((p, d))), torch.ones(p).double())
    found, whole = (greedy(cache, X, width, q, lazy=flag) for flag in (True, False))
    assert torch.equal(found.indices, whole.indices)
    assert found.indices.tolist() == brute_force(cache, n, Y - 0.4, X, width, q)
    assert whole.num_variances == q * m
    assert found.num_variances <= q * m


@pytest.mark.parametrize("n", [0, 1, 7, 230])
@pytest.mark.parametrize("width", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("kind", CORRELATIONS)
@either
def test_is_refactoring_after_each_pick(select, kind, width, n):
    cache, X = factor(draw(n, 2), kind=kind, noise=0.05), draw(60, 2, seed=1)
    found = select(cache, X, width, 9)
    assert found.dtype == torch.long
    assert found.tolist() == picks_by_refactoring(cache, X, width, 9)


@either
def test_agrees_with_botorch(select):
    X, Y = draw(12, 3), draw(12, 3).sin().sum(-1, keepdim=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskGP(X, Y).eval()
        model.likelihood.noise = 1e-2
        choices, current, picks = draw(80, 3, seed=1), model, []
        with torch.no_grad():
            mean = model.posterior(choices.unsqueeze(1)).mean
            for _ in range(6):
                variance = current.posterior(choices.unsqueeze(1)).variance
                picks.append(int((mean + 2 * variance.sqrt()).reshape(-1).argmax()))
                best = slice(picks[-1], picks[-1] + 1)
                current = current.condition_on_observations(choices[best], mean[best].reshape(1, 1))
    assert select(CachedGP(model).cache, choices, 2.0, 6).tolist() == picks


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_without_noise(kind):
    """A pick leaves nothing to learn at its place: the next is elsewhere, the same one up to the rounding of equals."""
    cache = factor(draw(8, 2), kind=kind, noise=0.0)
    X = torch.cat([draw(12, 2, seed=1), draw(4, 2), draw(3, 2, seed=1)])
    picks = [[i % 16 for i in select(cache, X, 30.0, 10).tolist()] for select in SELECTIONS.values()]
    assert picks[0] == picks[1] == picks[2]
    assert len(set(picks[0])) == 10


@either
def test_pending_points_count(select):
    cache, X, pending = factor(draw(8, 2)), draw(60, 2, seed=1), draw(3, 2, seed=2)
    cache = extend(cache, pending, torch.ones(3).double())
    assert select(cache, X, 2.0, 5).tolist() == picks_by_refactoring(cache, X, 2.0, 5)


def test_reference_in_pieces(monkeypatch):
    cache, X = factor(draw(20, 2)), draw(60, 2, seed=1)
    whole = reference.select(cache, X, 2.0, 5)
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 20 * 8 * 7)
    assert torch.equal(reference.select(cache, X, 2.0, 5), whole)


@pytest.mark.parametrize("kept", [0, 40_000, 2**30])
@pytest.mark.parametrize("block", [1, 7, 100])
def test_blocks_and_memory_do_not_matter(monkeypatch, block, kept):
    cache, X = factor(draw(40, 2), kind="matern52"), draw(500, 2, seed=1)
    expected = greedy(cache, X, 3.0, 12).indices
    monkeypatch.setattr(lazy, "REFRESHED", block)
    monkeypatch.setattr(bounds, "STEP_BYTES", 40 * 8 * 33)
    monkeypatch.setattr(lazy, "KEPT_BYTES", kept)
    for flag in (True, False):
        assert torch.equal(greedy(cache, X, 3.0, 12, lazy=flag).indices, expected)


def test_candidates_of_less_precision_and_wrong_widths():
    cache, X = factor(draw(20, 2)), draw(30, 2, seed=1).float()
    assert torch.equal(greedy(cache, X, 2.0, 3).indices, greedy(cache, X.double(), 2.0, 3).indices)
    refused("^width = -1.0", greedy, cache, X, torch.tensor(-1.0), 3)


def test_laziness_saves_most_variances():
    cache, X = factor(draw(150, 3), kind="matern52"), draw(20_000, 3, seed=1)
    found = greedy(cache, X, 2.0, 10)
    assert found.num_variances < 0.1 * 10 * len(X)
    assert found.indices.tolist() == reference.select(cache, X, 2.0, 10).tolist()


def test_memory_is_bounded(monkeypatch):
    """With little to keep, no matrix of all candidates is made: at most a few vectors and a block."""
    monkeypatch.setattr(lazy, "KEPT_BYTES", 2**20)
    n, m = 64, 100_000
    cache, X = factor(draw(n, 2)), draw(m, 2, seed=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        greedy(cache, X, 2.0, 3)
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    peak = max(np.cumsum([event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]))
    assert peak < 10 * 8 * m + 2**22 < n * 8 * m / 4


@pytest.mark.parametrize("flag", [True, False], ids=["lazy", "whole"])
@pytest.mark.parametrize("copies", [3, 300])
def test_of_duplicates_the_first(copies, flag):
    """Rounding may tell copies apart that fall into different blocks; their order must not suffer."""
    X = draw(23, 2, seed=1).repeat(copies, 1)
    X = X[torch.randperm(len(X), generator=torch.Generator().manual_seed(0))]
    first = {tuple(x): i for i, x in reversed(list(enumerate(X.tolist())))}
    picks = greedy(factor(draw(31, 2)), X, 3.0, 20, lazy=flag).indices.tolist()
    assert all(pick == first[tuple(X[pick].tolist())] for pick in picks)


@pytest.mark.parametrize("flag", [True, False], ids=["lazy", "whole"])
def test_of_equals_the_first_and_again(flag):
    """One place seven times, whose noise leaves something to learn; places far from all data, in several blocks."""
    assert greedy(factor(draw(0, 2)), draw(1, 2).expand(7, 2), 1.0, 3, lazy=flag).indices.tolist() == [0, 0, 0]
    X = 100 * torch.arange(1000).double().unsqueeze(-1)
    assert greedy(factor(draw(5, 1)), X[10:], 3.0, 20, lazy=flag).indices.tolist() == list(range(20))


@either
def test_single_precision_and_a_width_as_a_tensor(select):
    cache, X = factor(draw(8, 2), noise=0.05), draw(60, 2, seed=1)
    expected = select(cache, X, 2.0, 5)
    assert torch.equal(select(cache.to(torch.float32), X.float(), 2.0, 5), expected)
    assert torch.equal(select(cache, X, torch.tensor(2.0).double(), 5), expected)


def test_wrong_settings():
    cache, X = factor(draw(4, 2)), draw(5, 2)
    for wrong in (draw(5, 3), draw(2, 5, 2), draw(0, 2), draw(2)):
        refused("must be m x 2, m at least 1", greedy, cache, wrong, 1.0, 2, error=BotorchTensorDimensionError)
    refused("q = 0: must be a whole number from 1 on", greedy, cache, X, 1.0, 0)
    for width in (-1.0, math.nan, math.inf):
        refused("width", greedy, cache, X, width, 1)
    with pytest.raises(UnsupportedError, match=r"cache of \(3,\) processes: must be of one"):
        greedy(factor(draw(3, 4, 2)), X, 1.0, 1)
    refused("backend", greedy, cache, X, 1.0, 1, backend="fast", error=UnsupportedError)
