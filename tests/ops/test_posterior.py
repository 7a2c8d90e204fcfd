"""Posterior mean, variance and covariance, against GPyTorch's exact ones and dense formulas."""

import dense
import gpytorch
import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gaussian import draw
from tolerances import TOLERANCES

from mfbo_torch.ops.cache import Cache, extend, factorize
from mfbo_torch.ops.kernels import CORRELATIONS, describe
from mfbo_torch.ops.posterior import mean_covariance, mean_variance

DIM = 3


def peer(kind: str, n: int = 13, noise: float = 1e-3) -> SingleTaskGP:
    """A BoTorch model with hyper-parameters set by hand."""
    X, Y = dense.data([n], DIM)
    kernel = dense.gpytorch_kernel(kind, DIM)
    model = SingleTaskGP(X[:, :DIM], Y, covar_module=kernel, outcome_transform=None).double()
    model.covar_module.base_kernel.lengthscale = torch.tensor([[0.4, 0.7, 0.55]], dtype=torch.double)
    model.covar_module.outputscale = torch.tensor(2.3, dtype=torch.double)
    model.mean_module.constant.data.fill_(0.6)
    model.likelihood.noise = torch.tensor(noise, dtype=torch.double)
    return model.eval()


def factored(model: SingleTaskGP, dtype: torch.dtype = torch.double) -> Cache:
    """The factor of the same process."""
    kind, lengthscale, outputscale = describe(model.covar_module, DIM)
    X, constant = model.train_inputs[0], model.mean_module.constant.detach()
    noise = model.likelihood.noise.detach().expand(len(X))
    parts = (X, model.train_targets - constant, noise, lengthscale, outputscale, constant, torch.ones_like(noise))
    return factorize(kind, *(part.detach().to(dtype) for part in parts))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("kind", CORRELATIONS)
def test_agrees_with_gpytorch(kind, dtype):
    model = peer(kind)
    X = torch.cat([draw(17, DIM, seed=3), model.train_inputs[0][:2]])
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        posterior = model.posterior(X)
        expected_mean, expected = posterior.mean.squeeze(-1), posterior.distribution.covariance_matrix
    cache, atol = factored(model, dtype), TOLERANCES[dtype]
    mean, covariance = mean_covariance(cache, X.to(dtype))
    assert mean.dtype == covariance.dtype == dtype
    assert torch.allclose(mean.double(), expected_mean, rtol=0, atol=2.3**0.5 * atol)
    assert torch.allclose(covariance.double(), expected, rtol=0, atol=2.3 * atol)
    single_mean, variance = mean_variance(cache, X.to(dtype))
    assert torch.allclose(single_mean.double(), expected_mean, rtol=0, atol=2.3**0.5 * atol)
    assert torch.allclose(variance.double(), expected.diagonal(), rtol=0, atol=2.3 * atol)


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_agrees_with_the_dense_formula(kind):
    model = peer(kind, n=7)
    X, A = model.train_inputs[0].tolist(), draw(5, DIM, seed=3)
    settings = ([0.4, 0.7, 0.55], 2.3)
    K = dense.gram(kind, X, X, *settings) + 1e-3 * np.eye(7)
    cross = dense.gram(kind, A.tolist(), X, *settings)
    mean, covariance = mean_covariance(factored(model), A)
    expected = 0.6 + cross @ np.linalg.solve(K, model.train_targets.numpy() - 0.6)
    assert mean.numpy() == pytest.approx(expected, abs=1e-9)
    expected = dense.gram(kind, A.tolist(), A.tolist(), *settings) - cross @ np.linalg.solve(K, cross.T)
    assert covariance.numpy() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_gradients(kind):
    cache = factored(peer(kind, n=5))
    cache = extend(cache, draw(2, DIM, seed=4), torch.ones(2, dtype=torch.double))
    X = draw(3, DIM, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: mean_covariance(cache, X), X)


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_gradients_are_finite_at_an_observation(kind):
    """The distance has no gradient at zero; that of the kernels is zero there, or taken to be."""
    model = peer(kind)
    X = model.train_inputs[0][:2].clone().requires_grad_()
    mean, variance = mean_variance(factored(model), X)
    (gradient,) = torch.autograd.grad((mean + variance).sum(), X)
    assert gradient.isfinite().all()


def test_points_broadcast_against_processes():
    one, other = factored(peer("rbf")), factored(peer("rbf", noise=0.1))
    both = Cache(
        "rbf", *(torch.stack([getattr(one, f), getattr(other, f)]) for f in list(Cache.__dataclass_fields__)[1:])
    )
    X = draw(4, 5, DIM, seed=3)
    mean, variance = mean_variance(both, X.unsqueeze(-3))
    assert mean.shape == variance.shape == (4, 2, 5)
    for m, cache in enumerate((one, other)):
        for i in range(4):
            expected = mean_variance(cache, X[i])
            assert torch.allclose(mean[i, m], expected[0], rtol=0, atol=1e-12)
            assert torch.allclose(variance[i, m], expected[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_variance_is_never_negative(dtype):
    model = peer("rbf", n=40, noise=1e-4)
    cache = factored(model, dtype)
    _, variance = mean_variance(cache, torch.cat([model.train_inputs[0], model.train_inputs[0] + 1e-8]).to(dtype))
    assert (variance >= 0).all()
    assert (variance <= 1.1e-4).all()
