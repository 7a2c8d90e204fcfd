"""The Triton kernels on the CPU, under Triton's interpreter, against dense formulas and the torch reference.

The interpreter is chosen when Triton is imported, so the tests run in a process of their own: here
each one asks for its outcome there.
"""

import functools
import importlib.util
import json
import math
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import dense
import numpy as np
import pytest
import torch
from filelock import FileLock
from gaussian import draw, picks_by_refactoring
from tolerances import TOLERANCES
from torch import Tensor

from mfbo_torch.ops.cache import Cache, extend, factorize
from mfbo_torch.ops.kernels import CORRELATIONS
from mfbo_torch.ops.posterior import mean_variance, reference

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DTYPES = tuple(TOLERANCES)
PATHS = ("few", "recomputed", "stored")
SCALE = 1.7
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
]


@functools.cache
def outcomes(folder: Path) -> dict[str, tuple[str, str]]:
    """What became of each test in a process with the interpreter: passed, skipped or failed, and why.

    Args:
        folder: Where its report is. Of several workers the first to ask starts the process, the others wait.
    """
    report, said = folder / "interpreter.xml", folder / "interpreter.txt"
    with FileLock(folder / "interpreter.lock"):
        if not said.exists():
            coverage = sys.modules.get("coverage")  # its files are combined when this process ends
            counted = coverage is not None and coverage.Coverage.current() is not None
            measured = ["-m", "coverage", "run", "--parallel-mode"] if counted else []
            options = [__file__, "-p", "no:cov", "-o", "addopts=", "-q", f"--junitxml={report}"]
            run = subprocess.run(
                [sys.executable, *measured, "-m", "pytest", *options],
                env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            said.write_text(run.stdout + run.stderr)
    if not report.exists():
        return {"": ("failed", said.read_text())}
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        verdict, why = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                verdict = "skipped" if child.tag == "skipped" else "failed"
                why = child.get("message", "") + "\n" + (child.text or "")
        found[case.get("name", "")] = (verdict, why)
    return found


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers have."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def interpreted(test: Callable) -> Callable:
    """Runs the test under the interpreter; elsewhere, has it run there and takes over the outcome."""

    @functools.wraps(test)
    def outcome(**arguments):
        if INTERPRETED:
            return test(**arguments)
        folder = arguments["triton_file"]
        name = os.environ["PYTEST_CURRENT_TEST"].partition("::")[2].removesuffix(" (call)")
        verdict, why = outcomes(folder).get(name) or outcomes(folder).get("", ("failed", f"{name} did not run"))
        if verdict == "skipped":
            pytest.skip(why)
        assert verdict == "passed", why

    return outcome


@functools.cache
def loops() -> bool:
    """Whether the interpreter can loop up to a number that the kernel was given."""
    from triton.runtime.errors import InterpreterError

    from mfbo_torch.ops.posterior import triton

    try:
        triton.forward(factor(draw(1, 1)), draw(1, 1))
    except InterpreterError as error:
        if "0-dimensional" in str(error):
            return False
        raise
    return True


@pytest.fixture
def triton_file(monkeypatch: pytest.MonkeyPatch, shared: Path) -> Iterator[ModuleType | Path]:
    """The kernels' file; whatever the kernels do not write is NaN. Elsewhere, the folder of the outcomes."""
    if not INTERPRETED:
        yield shared
        return
    from mfbo_torch.ops.posterior import triton

    if not loops():
        pytest.skip("this Triton's interpreter does not loop with this NumPy (Triton 3.6 wants NumPy below 2.4)")
    empty = torch.empty

    def poisoned(*shape, **options) -> Tensor:
        values = empty(*shape, **options)
        return values.fill_(math.nan) if values.is_floating_point() else values.fill_(2**30)

    monkeypatch.setattr(torch, "empty", poisoned)
    yield triton


def force(monkeypatch: pytest.MonkeyPatch, triton_file: ModuleType, path: str) -> None:
    """Small problems go the way of large ones."""
    for name in ("FEW", "VERY_FEW"):
        monkeypatch.setattr(triton_file, name, 10**9 if path == "few" else 0)
    monkeypatch.setattr(triton_file, "RECOMPUTE", 10**9 if path == "recomputed" else 0)


def factor(
    X: Tensor,
    kind: str = "rbf",
    noise: float = 1e-3,
    lengthscale: float = 0.4,
    outputscale: float = SCALE,
    targets: float = 1.0,
    mask: Tensor | None = None,
) -> Cache:
    """The factor with lengthscales around the given one and targets of the given size."""
    batch, d = X.shape[:-2], X.shape[-1]
    one = X.new_ones(batch)
    wide = d**0.5  # so that points in many dimensions still know of each other
    return factorize(
        kind,
        X,
        targets * X.sin().sum(-1),
        torch.full_like(X[..., 0], noise * outputscale),
        (lengthscale * wide * (1 + 0.1 * torch.arange(d, dtype=X.dtype) / d)).expand(*batch, d),
        outputscale * one,
        0.4 * targets * one,
        torch.ones_like(X[..., 0]) if mask is None else mask,
    )


def assert_agrees(triton_file: ModuleType, cache: Cache, X: Tensor, targets: float = 1.0, slack: float = 1.0) -> None:
    """Value and gradient are those of the formula as it stands, differentiated by torch in float64."""
    exact = Cache(cache.kernel, *(value.double() for name, value in vars(cache).items() if name in FIELDS))
    points = X.double().clone().requires_grad_()
    expected = reference.mean_variance(exact, points)
    weights = [draw(*expected[0].shape, seed=seed) - 0.5 for seed in (5, 6)]
    (expected_gradient,) = torch.autograd.grad(expected, points, weights)
    mean, variance = triton_file.forward(cache, X)
    weights = [w.to(X.dtype) for w in weights]
    gradient = triton_file.backward(cache, X, *weights)
    if X.shape[-2]:  # what the values leave for the gradient changes neither
        *values, kept = triton_file.forward_kept(cache, X)
        assert all(map(torch.equal, values, (mean, variance)))
        assert torch.equal(triton_file.backward(cache, X, *weights, kept=kept), gradient)
    assert mean.dtype == variance.dtype == gradient.dtype == X.dtype
    assert mean.shape == variance.shape == expected[0].shape
    assert gradient.shape == X.shape
    prior = cache.outputscale.max().item()
    atol = slack * TOLERANCES[X.dtype]
    assert (mean - expected[0]).abs().max() <= atol * targets * prior**0.5
    assert (variance - expected[1]).abs().max() <= atol * prior
    assert (variance >= 0).all()
    assert (gradient - expected_gradient).abs().max() <= atol * max(expected_gradient.abs().max().item(), 1.0)


FIELDS = ("inputs", "mask", "inverse", "alpha", "lengthscale", "outputscale", "constant", "noise", "center")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CORRELATIONS)
@interpreted
def test_values_by_the_dense_formula(triton_file, kind, dtype):
    X, A = draw(13, 3), draw(7, 3, seed=1)
    cache = factor(X.to(dtype), kind)
    settings = (cache.lengthscale.double().tolist(), SCALE)
    K = dense.gram(kind, X.tolist(), X.tolist(), *settings) + 1e-3 * SCALE * np.eye(13)
    cross = dense.gram(kind, A.tolist(), X.tolist(), *settings)
    mean, variance = triton_file.forward(cache, A.to(dtype))
    expected = 0.4 + cross @ np.linalg.solve(K, X.sin().sum(-1).numpy())
    assert mean.numpy() == pytest.approx(expected, abs=10 * TOLERANCES[dtype])
    expected = SCALE - np.einsum("mn,nm->m", cross, np.linalg.solve(K, cross.T))
    assert variance.numpy() == pytest.approx(expected, abs=SCALE * TOLERANCES[dtype])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("kind", "dtype"), [*((kind, torch.double) for kind in CORRELATIONS), ("matern52", torch.float)], ids=str
)
@interpreted
def test_every_path_and_kernel(triton_file, monkeypatch, kind, path, dtype):
    force(monkeypatch, triton_file, path)
    assert_agrees(triton_file, factor(draw(131, 3, dtype=dtype), kind, noise=1e-2), draw(35, 3, seed=1, dtype=dtype))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (2, 17, 2), (64, 16, 7), (65, 15, 30), (129, 35, 1)])
@interpreted
def test_odd_sizes(triton_file, monkeypatch, n, m, d, path):
    force(monkeypatch, triton_file, path)
    for dtype in DTYPES if n < 64 else DTYPES[:1]:
        assert_agrees(triton_file, factor(draw(n, d, dtype=dtype), noise=1e-2), draw(m, d, seed=1, dtype=dtype))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", CORRELATIONS)
@interpreted
def test_near_duplicates(triton_file, monkeypatch, kind, path):
    """Twins in the data and among the points, down to none apart, with little noise."""
    force(monkeypatch, triton_file, path)
    X = draw(9, 2)
    X = torch.cat([X, X[:4] + 1e-9, X[:2]])
    cache = factor(X, kind, noise=1e-6)
    assert_agrees(triton_file, cache, torch.cat([draw(3, 2, seed=1), X[5:] + 1e-7]))
    _, variance = triton_file.forward(cache, X)
    assert (variance >= 0).all()
    assert (variance <= 1.01e-6 * SCALE + 1e-9).all()
    flat = kind != "matern12"  # it has a cusp
    assert triton_file.backward(cache, X, torch.ones(len(X)).double(), torch.ones(len(X)).double()).isfinite().all()
    if flat:
        assert_agrees(triton_file, cache, X)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("lengthscale", "outputscale", "targets", "shift"),
    [(1e-2, 1.0, 1.0, 0.0), (1e2, 1.0, 1.0, 0.0), (0.4, 1e6, 1e6, 0.0), (0.4, 1e-6, 1e-6, 0.0), (0.4, 1.0, 1.0, 1e3)],
)
@interpreted
def test_magnitudes(triton_file, monkeypatch, lengthscale, outputscale, targets, shift, path):
    force(monkeypatch, triton_file, path)
    for dtype in DTYPES:
        X, A = draw(21, 2, dtype=dtype) + shift, draw(18, 2, seed=1, dtype=dtype) + shift
        cache = factor(X, "matern52", 1e-2, lengthscale, outputscale, targets)
        assert_agrees(triton_file, cache, A, targets=targets / outputscale**0.5 + 1)


@pytest.mark.parametrize("path", PATHS)
@interpreted
def test_processes_of_different_sizes(triton_file, monkeypatch, path):
    """One full, one short by more than a block, one empty."""
    force(monkeypatch, triton_file, path)
    mask = torch.zeros(3, 131, dtype=torch.double)
    mask[0], mask[1, :5] = 1, 1
    for dtype in DTYPES if path == "stored" else DTYPES[:1]:
        X = draw(3, 131, 2, dtype=dtype)
        X[1:, 100:] = 1e3
        cache = factor(X, "matern32", noise=1e-2, mask=mask.to(dtype))
        assert_agrees(triton_file, cache, draw(2, 3, 9, 2, seed=1, dtype=dtype))
        mean, variance = triton_file.forward(cache, draw(3, 9, 2, seed=1, dtype=dtype))
        assert torch.equal(mean[2], torch.full_like(mean[2], 0.4))
        assert torch.equal(variance[2], torch.full_like(variance[2], SCALE))


@pytest.mark.parametrize("path", PATHS)
@interpreted
def test_pending_points(triton_file, monkeypatch, path):
    """Points without weight in the mean, some of them in one process only."""
    force(monkeypatch, triton_file, path)
    for dtype in DTYPES:
        cache = factor(draw(2, 7, 2, dtype=dtype))
        mask = torch.tensor([[1, 0, 0, 1], [0, 1, 0, 0]], dtype=dtype)
        cache = extend(cache, draw(1, 4, 2, seed=3, dtype=dtype), mask)
        assert cache.alpha.shape[-1] == 7
        assert_agrees(triton_file, cache, draw(2, 11, 2, seed=1, dtype=dtype))


@pytest.mark.parametrize(
    ("batch", "points"),
    [((), (2, 3, 5)), ((2,), (5,)), ((2,), (4, 2, 5)), ((1,), (4, 3, 5)), ((2, 1), (3, 5)), ((2, 3), (4, 1, 3, 5))],
)
@interpreted
def test_points_broadcast_against_processes(triton_file, batch, points):
    assert_agrees(triton_file, factor(draw(*batch, 6, 2)), draw(*points, 2, seed=1))


@interpreted
def test_points_in_any_layout(triton_file):
    cache, X = factor(draw(6, 3)), draw(3, 8, seed=1)
    assert_agrees(triton_file, cache, X.mT)
    assert_agrees(triton_file, cache, draw(8, 6, seed=1)[:, ::2])


@interpreted
def test_no_observations_and_no_points(triton_file):
    assert_agrees(triton_file, factor(draw(0, 2)), draw(3, 2))
    mean, variance = triton_file.forward(factor(draw(4, 2)), draw(0, 2))
    assert mean.shape == variance.shape == (0,)
    assert triton_file.backward(factor(draw(4, 2)), draw(0, 2), mean, variance).shape == (0, 2)


@pytest.mark.parametrize("path", PATHS)
@interpreted
def test_chunks_are_the_whole(triton_file, monkeypatch, path):
    force(monkeypatch, triton_file, path)
    m = 20 if path == "few" else 135
    cache, X = factor(draw(2, 70, 2)), draw(2, m, 2, seed=1)
    weights = draw(2, m, seed=2), draw(2, m, seed=3)
    torch.testing.assert_close(triton_file.forward(cache, X), triton_file.forward(cache, X, scratch=1), rtol=0, atol=0)
    whole, part = (triton_file.backward(cache, X, *weights, scratch=scratch) for scratch in (2**30, 1))
    assert torch.equal(whole, part)


@interpreted
def test_which_way(triton_file):
    """Few points go the short way unless there are many to compare them with."""
    ways = {(1024, 1024): "few", (1025, 256): "recomputed", (1025, 257): "stored"}
    ways |= {(128, 4096): "few", (129, 4096): "stored", (1024, 1025): "stored"}
    assert {sizes: triton_file.path(*sizes) for sizes in ways} == ways


@interpreted
def test_a_factor_is_laid_out_once(triton_file):
    cache = factor(draw(2, 7, 2))
    laid_out = triton_file.PackedFactor.of(cache)
    assert triton_file.PackedFactor.of(cache) is laid_out
    assert laid_out.inverse.shape == (2, 128, 128)
    assert laid_out.inverse.is_contiguous()
    assert torch.equal(laid_out.inverse[:, :7, :7], cache.inverse)
    assert laid_out.inverse.count_nonzero() == cache.inverse.count_nonzero()


@interpreted
def test_the_benchmark_of_a_device_runs(triton_file, tmp_path, capsys):
    """Every section, its results and its page, at sizes of no account."""
    from benchmarks.gpu.__main__ import main
    from benchmarks.gpu.sections import SECTIONS

    assert main(["--dry", "--results", str(tmp_path)]) == 0, capsys.readouterr().out
    report = json.loads((tmp_path / "dry.json").read_text())
    assert list(report["sections"]) == list(SECTIONS)
    assert all(row["right"] for name in ("forward", "backward") for row in report["sections"][name] if "right" in row)
    page = (tmp_path / "dry.md").read_text()
    assert all(f"## {name}" in page for name in SECTIONS)


@pytest.mark.parametrize("path", PATHS)
@interpreted
def test_no_gradient_where_the_variance_is_clamped(triton_file, monkeypatch, path):
    """A factor that explains more than there is: exact arithmetic never does, rounding may."""
    force(monkeypatch, triton_file, path)
    cache = factor(draw(30, 2))
    cache = replace(cache, inverse=1.1 * cache.inverse)
    X = torch.cat([draw(12, 2), draw(5, 2, seed=1) + 5])
    _, variance = triton_file.forward(cache, X)
    assert 0 < (variance == 0).sum() < 17
    assert_agrees(triton_file, cache, X)
    gradient = triton_file.backward(cache, X, torch.zeros(17).double(), torch.ones(17).double())
    assert (gradient[variance == 0] == 0).all()


@interpreted
def test_public_function_and_its_gradient(triton_file):
    cache, X = factor(draw(2, 5, 2), "matern52"), draw(2, 3, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: mean_variance(cache, X, backend="triton"), X)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", CORRELATIONS)
@interpreted
def test_greedy_picks(triton_file, monkeypatch, kind, path):
    from mfbo_torch.ops.greedy import triton as greedy

    force(monkeypatch, triton_file, path)
    monkeypatch.setattr(greedy, "BLOCK", 16)  # several blocks, and blocks of blocks
    monkeypatch.setattr(greedy, "GATHER", 4)
    cache, X = factor(draw(13, 2), kind), draw(83, 2, seed=1)
    for scratch in (2**30, 1):
        picks = greedy.select(cache, X, 3.0, 6, scratch=scratch)
        assert picks.dtype == torch.int64
        assert picks.tolist() == picks_by_refactoring(cache, X, 3.0, 6)


@interpreted
def test_greedy_ties_go_to_the_first(triton_file, monkeypatch):
    from mfbo_torch.ops.greedy import triton as greedy

    monkeypatch.setattr(greedy, "BLOCK", 16)
    monkeypatch.setattr(greedy, "GATHER", 4)
    cache, X = factor(draw(13, 2)), draw(11, 2, seed=1).repeat(9, 1)
    picks = greedy.select(cache, X, 3.0, 7).tolist()
    assert picks == picks_by_refactoring(cache, X, 3.0, 7)
    assert max(picks) < 11
    assert greedy.select(factor(draw(0, 2)), X, 3.0, 1).tolist() == [0]


@interpreted
def test_greedy_by_its_public_name(triton_file):
    """Kernels compute all variances before every pick, whatever is asked."""
    from mfbo_torch.ops.greedy import greedy

    cache, X = factor(draw(5, 2)), draw(9, 2, seed=1)
    found = greedy(cache, X, 3.0, 4, backend="triton")
    assert found.num_variances == 4 * 9
    assert torch.equal(found.indices, greedy(cache, X, 3.0, 4, backend="torch").indices)


@interpreted
def test_greedy_may_pick_again(triton_file):
    """With a single candidate there is nothing else, and its variance falls as it should."""
    from mfbo_torch.ops.greedy import triton as greedy

    assert greedy.select(factor(draw(5, 2)), draw(1, 2, seed=1), 3.0, 4).tolist() == [0, 0, 0, 0]
    cache, X, single = factor(draw(5, 2)), draw(3, 2, seed=1), torch.tensor([3.0]).squeeze()
    assert greedy.select(cache, X, single, 9).tolist() == picks_by_refactoring(cache, X, 3.0, 9)
