"""Scaling, refit schedule and conditioning of the shared surrogate, against dense formulas."""

from itertools import pairwise

import dense
import numpy as np
import pytest
import torch
from botorch.exceptions.errors import ModelFittingError

from mfbo_torch.models.gp import likelihood
from mfbo_torch.strategies.common import fit_schedule as room
from mfbo_torch.strategies.common.fit_schedule import Surrogate, refit_size, standardized
from mfbo_torch.strategies.common.gp import UnitCubeGP, single_task_gp


def surrogate(refit_every: int = 1) -> Surrogate:
    return Surrogate(refit_every, torch.device("cpu"), torch.double)


def data(n: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.rand(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return X, (3.0 * X[:, :1]).sin() + X[:, 1:]


@pytest.mark.parametrize("scale", [1.0, 1e9, 1e-9, 1e200, 1e-200])
def test_standardized(scale):
    Y = scale * torch.tensor([[1.0], [4.0], [-2.0], [0.5]], dtype=torch.double)
    expected = np.array([1.0, 4.0, -2.0, 0.5])
    expected = (expected - expected.mean()) / expected.std(ddof=1)
    assert standardized(Y).numpy()[:, 0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("value", [0.0, 1e9, -1e-9, 1.1])
def test_equal_targets_are_zeros(value):
    assert torch.equal(standardized(torch.full((3, 1), value, dtype=torch.double)), torch.zeros(3, 1).double())
    assert standardized(torch.full((1, 1), value, dtype=torch.double)).item() == 0.0


def test_refit_schedule():
    sizes = [refit_size(n, 5) for n in range(1, 101)]
    assert sizes[:20] == list(range(1, 21))
    assert sizes == sorted(sizes)
    assert all(n - size < 5 for n, size in enumerate(sizes, 1))
    assert [refit_size(n, 1) for n in range(1, 101)] == list(range(1, 101))
    assert len({refit_size(n, 50) for n in range(1, 501)}) < 60


@pytest.mark.slow
def test_large_histories_are_refitted_as_they_grow_by_a_tenth():
    sizes = sorted({refit_size(n, 5) for n in range(1000, 10_001)})
    assert all(later - size == size // 10 for size, later in pairwise(sizes))
    assert len(sizes) < 30


def test_fits_are_to_the_first_part_and_large_ones_to_some_evenly_spaced(monkeypatch):
    X, Y = data(21)  # the fit is to 20 of them, the data are all
    found = surrogate(5).model(single_task_gp, X, Y)
    first = surrogate(5).model(single_task_gp, X[:20], Y[:20])
    assert torch.equal(found.covar_module.lengthscale, first.covar_module.lengthscale)
    assert len(found.train_inputs[0]) == 21
    X, Y = data(40)
    monkeypatch.setattr(room, "LARGE", 14)
    monkeypatch.setattr(room, "FITTED", 14)
    found = surrogate(5).model(single_task_gp, X, Y)
    some = torch.linspace(0, refit_size(40, 5) - 1, 14).round().long()
    part = surrogate(50).model(single_task_gp, X[some], Y[some])
    assert torch.equal(found.covar_module.lengthscale, part.covar_module.lengthscale)
    assert len(found.train_inputs[0]) == 40


def test_posterior_is_the_dense_formula():
    X, Y = data()
    before = torch.random.get_rng_state()
    model = surrogate().model(single_task_gp, X, Y)
    assert torch.equal(before, torch.random.get_rng_state())
    grid = torch.rand(50, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    lengthscale = model.covar_module.lengthscale[0].tolist()
    noise, constant = model.likelihood.noise.item(), model.mean_module.constant.item()
    gram = dense.gram("rbf", X.tolist(), X.tolist(), lengthscale, 1.0) + noise * np.eye(len(X))
    cross = dense.gram("rbf", grid.tolist(), X.tolist(), lengthscale, 1.0)
    mean = constant + cross @ np.linalg.solve(gram, standardized(Y).numpy()[:, 0] - constant)
    variance = 1.0 - (cross * np.linalg.solve(gram, cross.T).T).sum(-1)
    posterior = model.posterior(grid)
    assert posterior.mean.detach().numpy()[:, 0] == pytest.approx(mean, abs=1e-8)
    assert posterior.variance.detach().numpy()[:, 0] == pytest.approx(variance, abs=1e-8)


def test_pending_points_move_the_deviation_only():
    X, Y = data()
    pending = torch.tensor([[0.9, 0.1], [0.2, 0.95]], dtype=torch.double)
    grid = torch.rand(50, 1, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    model, left = UnitCubeGP(surrogate()).posterior(X, Y, None, pending)
    before, after = model.posterior(grid), model.hallucinate(left).posterior(grid)
    assert torch.allclose(before.mean, after.mean, atol=1e-8)
    assert (after.variance <= before.variance + 1e-10).all()
    there = model.hallucinate(left).posterior(pending.unsqueeze(-2)).variance
    assert (there <= model.likelihood.noise * (1 + 1e-6)).all()


def test_a_failed_fit_leaves_the_priors_modes(monkeypatch):
    def failing(*args, **kwargs):
        raise ModelFittingError("a test")

    X, Y = data()
    monkeypatch.setattr(likelihood, "fit_gpytorch_mll", failing)
    found = surrogate().model(single_task_gp, X, Y)
    assert torch.equal(found.covar_module.lengthscale, single_task_gp(X, Y).covar_module.lengthscale)


@pytest.mark.parametrize("value", [0.1, 0.5, 1e9, 1e-9])
def test_constants_are_as_uncertain_as_their_size(value):
    """Whether or not their sum rounds."""
    X, _ = data()
    at = torch.tensor([[0.9, 0.1]], dtype=torch.double)
    mean, deviation = UnitCubeGP(surrogate()).predict(X, torch.full((9, 1), value, dtype=torch.double), None, at)
    unit = UnitCubeGP(surrogate()).predict(X, torch.ones(9, 1, dtype=torch.double), None, at)[1]
    assert mean.item() == pytest.approx(value)
    assert deviation.item() == pytest.approx(value * unit.item())
