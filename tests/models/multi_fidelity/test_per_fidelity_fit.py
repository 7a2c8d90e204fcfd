"""Fitting the model of several fidelities: better hyper-parameters, and none where there is nothing to fit."""

import copy
from unittest.mock import Mock

import dense
import numpy as np
import pytest
import torch
from agreement import LINKS, assert_dense, prior_variance, same
from botorch.exceptions import ModelFittingError
from linear_operator.utils.errors import NanError
from tolerances import TOLERANCES

from mfbo_torch.models import PerFidelityGP
from mfbo_torch.models.gp import likelihood
from mfbo_torch.models.multi_fidelity import level, per_fidelity


@pytest.mark.parametrize("link", LINKS)
def test_fit_raises_the_likelihood(link):
    X, Y = dense.data((12, 8, 6))

    def log_likelihood(model: PerFidelityGP) -> float:
        levels = dense.fidelities(model)
        total = 0.0
        for m, fidelity in enumerate(levels):
            below = [fidelity.rho * dense.mean(levels, x, m - 1) if fidelity.rho else 0.0 for x in fidelity.X]
            K = fidelity.gram(fidelity.X, fidelity.X) + np.diag(fidelity.noise)
            centred = fidelity.y - fidelity.constant - below
            total -= 0.5 * (centred @ np.linalg.solve(K, centred) + np.linalg.slogdet(2 * np.pi * K)[1])
        return total

    start = PerFidelityGP(X, Y, 3, link=link)
    short = PerFidelityGP(X, Y, 3, link=link).fit(optimizer_kwargs={"options": {"maxiter": 1}})
    full = PerFidelityGP(X, Y, 3, link=link).fit()
    assert log_likelihood(full) > max(log_likelihood(start), log_likelihood(short)) + 1
    assert short.levels[0].constant != full.levels[0].constant
    assert not full.training


@pytest.mark.parametrize("known", [False, True], ids=["inferred", "known"])
@pytest.mark.parametrize("kind", dense.KINDS)
def test_loss_is_that_of_gpytorch(monkeypatch, kind, known):
    """Value and gradient of what is minimised, at each fidelity, against GPyTorch's marginal likelihood."""
    found = []

    def compared(mll, closure, **kwargs):
        mll.train()
        parameters = [p for p in mll.parameters() if p.requires_grad]
        expected = -mll(mll.model(*mll.model.train_inputs), mll.model.train_targets)
        found.append(((expected, *torch.autograd.grad(expected, parameters)), closure()))

    monkeypatch.setattr(likelihood, "fit_gpytorch_mll", compared)
    X, Y = dense.data((9, 6, 5))
    kernels = [dense.gpytorch_kernel(kind, 2) for _ in range(3)]
    Yvar = torch.linspace(0.01, 0.1, 20, dtype=torch.double).unsqueeze(-1) if known else None
    dense.set_by_hand(PerFidelityGP(X, Y, 3, Yvar, covar_modules=kernels), noise=1e-2).fit()
    assert len(found) == 3
    for (expected, *slopes), (loss, gradients) in found:
        assert loss == pytest.approx(expected.item(), rel=1e-7)  # GPyTorch keeps priors in single precision
        expected = torch.cat([slope.reshape(-1) for slope in slopes])
        torch.testing.assert_close(torch.from_numpy(gradients), expected, rtol=1e-6, atol=1e-9)


def test_recursion_learns_from_below():
    """Six observations of the target are enough where the fidelity below tells the shape."""
    X, Y = dense.data((30, 6))
    held_out, truth = dense.data((0, 40), seed=3)
    error = {}
    for link in LINKS:
        model = PerFidelityGP(X, Y, 2, link=link).fit()
        error[link] = (model.posterior(held_out).mean - truth).square().mean().sqrt().item()
    assert error["recursive"] < 0.5 * error["independent"], error


def test_fit_uses_some_of_many_observations(monkeypatch):
    seen = []
    monkeypatch.setattr(per_fidelity, "FIT_POINTS", 5)
    monkeypatch.setattr(level.Level, "fit", lambda self, U, Y, noise, below: seen.append((U, Y, noise, below)))
    model = dense.hand_made((13, 4)).fit()
    assert [[len(part) for part in parts] for parts in seen] == [[5] * 4, [4] * 4]
    assert torch.equal(seen[0][0], model.train_X[[0, 3, 6, 9, 12], :2])
    assert_dense(model, dense.points(2, 4))


def test_more_observations_than_are_fitted():
    X, Y = dense.data((per_fidelity.FIT_POINTS + 5, 3))
    model = PerFidelityGP(X, Y, 2).fit(optimizer_kwargs={"options": {"maxiter": 5}})
    with torch.no_grad():
        mean = model.posterior(X).mean
    assert model.caches[0].num_points == per_fidelity.FIT_POINTS + 5
    assert (mean - Y).abs().max() < 0.5 * Y.std()


@pytest.mark.parametrize("error", [ModelFittingError, NanError])
def test_what_cannot_be_fitted_keeps_its_hyper_parameters(monkeypatch, error):
    model = dense.hand_made((6, 4))
    before = copy.deepcopy(model)
    monkeypatch.setattr(likelihood, "fit_gpytorch_mll", Mock(side_effect=error("a test")))
    with pytest.warns(UserWarning, match="hyper-parameters stay as they were"):
        model.fit()
    same(model, before, 1e-14)


def test_fits_in_single_precision():
    X, Y = dense.data((40, 20))
    Y = Y + 0.2 * torch.randn(60, 1, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    torch.manual_seed(0)  # a fit that stops too early is tried again from random hyper-parameters
    single, double = PerFidelityGP(X.float(), Y.float(), 2).fit(), PerFidelityGP(X, Y, 2).fit()
    U, atol, variance = dense.points(1, 30)[:, :-1], TOLERANCES[torch.float32], prior_variance(double)
    found = single.mean_variance(U.float())
    exact = copy.deepcopy(single).double().mean_variance(U)
    assert torch.allclose(found[0].double(), exact[0], rtol=0, atol=atol * variance**0.5)
    assert torch.allclose(found[1].double(), exact[1], rtol=0, atol=atol * variance)
    # the two optimisers stop at different places of the same hill
    truth = torch.cat([dense.value(U, 0), dense.value(U, 1)], dim=-1)
    errors = [(mean - truth).square().mean().sqrt() for mean in (found[0], double.mean_variance(U)[0])]
    assert errors[0] < 1.5 * errors[1]


@pytest.mark.parametrize("counts", [(4, 0), (0, 4), (0, 3, 0), (1, 1, 1), (1,), (0, 1, 0), (2, 1)], ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_few_observations(link, counts):
    X, Y = dense.data(counts)
    model = PerFidelityGP(X, Y, len(counts), link=link).fit()
    assert_dense(model, dense.points(len(counts), 4))
    mean, variance = model.mean_variance(torch.full((1, 2), 50.0, dtype=torch.double))
    assert mean.isfinite().all()
    assert (variance > 0).all()
    if len(X) == 1:
        assert mean[0].tolist() == pytest.approx([Y.item()] * len(counts), abs=3.0)


@pytest.mark.parametrize("value", [0.0, 1.0, -1e9, 1e-9])
@pytest.mark.parametrize("link", LINKS)
def test_constant_targets(link, value):
    X, _ = dense.data((7, 4))
    model = PerFidelityGP(X, torch.full((11, 1), value, dtype=torch.double), 2, link=link).fit()
    mean, variance = model.mean_variance(X[:, :-1])
    assert mean.flatten().tolist() == pytest.approx([value] * 22, rel=1e-6, abs=1e-6)
    assert variance.isfinite().all()
    assert (variance >= 0).all()


@pytest.mark.parametrize("scale", [2.0**30, 2.0**-30], ids=["1e9", "1e-9"])
@pytest.mark.parametrize("link", LINKS)
def test_scale_of_the_targets(link, scale):
    """A power of two changes no digit of the standardised targets."""
    X, Y = dense.data((9, 5))
    usual, scaled = PerFidelityGP(X, Y, 2, link=link).fit(), PerFidelityGP(X, scale * Y, 2, link=link).fit()
    U = dense.points(1, 6)[:, :-1]
    for power, a, b in zip((1, 2), usual.mean_variance(U), scaled.mean_variance(U), strict=True):
        assert torch.allclose(scale**power * a, b, rtol=1e-12, atol=0)
    Z = torch.cat([U, torch.ones_like(U[:, :1])], dim=-1)
    assert torch.allclose(scale**2 * usual.posterior(Z).variance, scaled.posterior(Z).variance, rtol=1e-9, atol=0)


def test_offset_of_the_targets():
    X, Y = dense.data((9, 5))
    shifted = PerFidelityGP(X, Y + 1e9, 2).fit()
    U = dense.points(1, 6)[:, :-1]
    mean, variance = PerFidelityGP(X, Y, 2).fit().mean_variance(U)
    # beside 1e9 a double has 1e-7 left, and the fit sees it
    assert torch.allclose(shifted.mean_variance(U)[0] - 1e9, mean, rtol=0, atol=1e-2)
    assert torch.allclose(shifted.mean_variance(U)[1], variance, rtol=0.1, atol=1e-3)


def test_conditioning_and_fitting_again_is_a_model_of_its_own():
    X, Y = dense.data((14, 6))
    first, rest = [*range(10), *range(14, 18)], [*range(10, 14), 18, 19]
    base = PerFidelityGP(X[first], Y[first], 2).fit()
    U = dense.points(1, 7)[:, :-1]
    before = [part.clone() for part in base.mean_variance(U)]
    grown = base.condition_on_observations(X[rest], Y[rest]).fit()
    found = grown.mean_variance(U)
    grown.train().eval()
    torch.testing.assert_close(found, grown.mean_variance(U), rtol=1e-9, atol=1e-12)
    base.train().eval()
    torch.testing.assert_close(before, base.mean_variance(U), rtol=1e-9, atol=1e-12)
    assert not torch.equal(base.levels[0].covar_module.lengthscale, grown.levels[0].covar_module.lengthscale)


def test_a_fidelity_that_got_data_by_conditioning_is_linked_by_the_fit():
    X, Y = dense.data((12, 5))
    grown = PerFidelityGP(X[:12], Y[:12], 2).fit().condition_on_observations(X[12:], Y[12:])
    assert grown.linked == [False, False]
    grown.fit()
    fresh = PerFidelityGP(X, Y, 2)
    assert grown.linked == fresh.linked == [False, True]
    assert torch.equal(grown.scale, fresh.scale)
    assert torch.equal(grown.shift, fresh.shift)
    assert grown.levels[1].rho.requires_grad
