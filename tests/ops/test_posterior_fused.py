"""The fused value and gradient at a few points, beside the plain formula."""

import numpy as np
import pytest
import torch
from gaussian import draw, exact, factor

from mfbo_torch.ops.cache import Cache, extend, factorize
from mfbo_torch.ops.kernels import CORRELATIONS
from mfbo_torch.ops.posterior import fused, mean_variance, reference

MASK = torch.tensor([[1.0] * 7, [1.0] * 4 + [0.0] * 3], dtype=torch.double)
CACHES = {
    "one point": lambda kind: factor(draw(1, 2), kind=kind),
    "no point": lambda kind: factor(draw(0, 2), kind=kind),
    "several blocks": lambda kind: factor(draw(450, 2), kind=kind, noise=0.1),
    "pending": lambda kind: extend(factor(draw(7, 2), kind=kind), draw(3, 2, seed=5), torch.ones(3).double()),
    "twice": lambda kind: factor(draw(6, 2).repeat(2, 1), kind=kind),
    "off centre": lambda kind: factor(draw(7, 2) + 1e4, kind=kind),
    "two processes": lambda kind: factor(draw(2, 7, 2), kind=kind, mask=MASK),
}


def outputs_of(cache: Cache) -> fused.Outputs:
    """Three outputs of the processes of a cache."""
    processes = cache.prepared.processes
    weights = np.array([[1.0, 0.0], [0.7, 1.3], [0.0, 2.0]])[:, : len(processes)]
    return fused.Outputs(processes, weights, np.array([[0.1], [0.0], [-0.3]]))


@pytest.mark.parametrize("b", [1, 5])
@pytest.mark.parametrize("kind", CORRELATIONS)
@pytest.mark.parametrize("case", CACHES)
def test_outputs_and_gradients_are_those_of_the_formula(case, kind, b):
    cache = CACHES[case](kind)
    X = (draw(b, 2, seed=3) + (1e4 if case == "off centre" else 0.0)).requires_grad_()
    outputs = outputs_of(cache)
    mean, variance = reference.mean_variance(cache, X)
    mean, variance = mean.reshape(-1, b), variance.reshape(-1, b)
    W, offsets = torch.from_numpy(outputs.weights), torch.from_numpy(outputs.offsets)
    means, variances = W @ mean + offsets, W.square() @ variance
    by = draw(2, 3, b, seed=7)
    (expected,) = torch.autograd.grad((by[0] * means).sum() + (by[1] * variances).sum(), X)
    points = X.detach().numpy()
    found_mean, found_variance, found = outputs.moments(points, gradient=True)
    found_gradient = outputs.gradient(found, *by.numpy())
    for value, wanted in ((found_mean, means), (found_variance, variances), (found_gradient, expected)):
        assert value == pytest.approx(wanted.detach().numpy(), rel=1e-9, abs=1e-10)
    for value, again in zip(outputs.moments(points), (found_mean, found_variance), strict=False):
        assert np.array_equal(value, again)  # a line search compares both


@pytest.mark.parametrize(("points", "threads"), [(32, 64), (0, 64), (32, 0)])
@pytest.mark.parametrize(("rows", "reach", "b"), [(1, 1, 1), (17, 90, 5), (90, 17, 5), (0, 0, 3), (4, 0, 3)])
def test_products_in_every_way(monkeypatch, points, threads, rows, reach, b):
    for name, value in {"SMALL": 200, "MIN_ROWS": 3, "FEW_POINTS": points, "FEW_THREADS": threads}.items():
        monkeypatch.setattr(fused, name, value)
    A, B = draw(rows, reach).numpy(), draw(b, reach, seed=1).numpy().T
    assert fused._product(A, B) == pytest.approx(A @ B, rel=1e-12)
    assert fused._product(A.T, A @ B) == pytest.approx(A.T @ (A @ B), rel=1e-12)


def test_the_last_output_has_its_own_processes_alone():
    outputs = outputs_of(CACHES["two processes"]("rbf"))
    last, X = outputs.last, draw(4, 2, seed=3).numpy()
    assert len(last.processes) == 1
    for value, wanted in zip(last.moments(X)[:2], outputs.moments(X)[:2], strict=True):
        assert value == pytest.approx(wanted[-1], rel=1e-12)


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_at_a_point_of_the_data(kind):
    """Where distances are zero nothing is infinite."""
    cache, X, one = factor(draw(7, 2), kind=kind), draw(7, 2).numpy(), np.ones(7)
    outputs = fused.Outputs(cache.prepared.processes)
    mean, variance, found = outputs.moments(X, gradient=True)
    for part in (mean, variance, outputs.gradient(found, one, one)):
        assert np.isfinite(part).all()


def in_closed_form(cache: Cache, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mean, variance, _ = fused.Outputs(cache.prepared.processes).moments(X.numpy())
    return torch.from_numpy(mean), torch.from_numpy(variance)


@pytest.mark.parametrize("posterior", [in_closed_form, mean_variance, reference.mean_variance])
@pytest.mark.parametrize("noise", [1e-6, 1e-3])
@pytest.mark.parametrize("centre", [0.0, 1e6])
@pytest.mark.parametrize("kind", CORRELATIONS)
def test_exact(kind, centre, noise, posterior):
    """Also far off centre, inputs like years or pressures, in 80-bit floats."""
    X, A, Y = centre + draw(40, 2), centre + draw(9, 2, seed=1), draw(40, 2).sin().sum(-1)
    one = X.new_ones(())
    cache = factorize(
        kind, X, Y - 0.4, noise * torch.ones_like(Y), X.new_full((2,), 0.3), 1.7 * one, 0.4 * one, torch.ones_like(Y)
    )
    mean, variance = exact(kind, X, Y, A, 0.3, 1.7, noise, 0.4)
    found = posterior(cache, A)
    assert np.abs(found[0].numpy() - mean).max() <= 1e-9
    assert np.abs(found[1].numpy() - variance).max() <= 1e-9


def test_moments_without_a_gradient_have_none():
    (process,) = factor(draw(7, 2)).prepared.processes
    with pytest.raises(ValueError, match="gradient=True"):
        fused.gradient(process, fused.moments(process, draw(5, 2).numpy()), np.ones(5), np.ones(5))
