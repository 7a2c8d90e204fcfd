"""A GP by its dense factor, against GPyTorch's own posteriors."""

import dense
import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError
from botorch.models import SingleTaskGP

from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.gp.dense import DenseGP
from mfbo_torch.models.multi_fidelity.additive_kernel import AdditiveFidelityKernel


@pytest.fixture(params=["inferred", "known"])
def model(request):
    X = dense.points(3, 20)
    known = torch.linspace(0.01, 0.02, 20).double().unsqueeze(-1) if request.param == "known" else None
    kernel = AdditiveFidelityKernel(2, 3)
    return SingleTaskGP(X, X[:, :1].sin() + X[:, -1:], known, covar_module=kernel, outcome_transform=None).eval()


@pytest.fixture
def pairs():
    return dense.points(3, 10, seed=3).reshape(5, 2, 3)


def test_posterior_is_that_of_gpytorch(model, pairs):
    for noisy in (False, True):
        found = DenseGP(model).posterior(pairs, observation_noise=noisy).distribution
        wanted = model.posterior(pairs, observation_noise=noisy).distribution
        assert torch.allclose(found.mean, wanted.mean, atol=1e-10)
        assert torch.allclose(found.covariance_matrix, wanted.covariance_matrix, atol=1e-9)


def test_gradient_is_that_of_gpytorch(model, pairs):
    def slope(which):
        X = pairs.clone().requires_grad_()
        posterior = which.posterior(X).distribution
        return torch.autograd.grad(posterior.mean.sum() + posterior.covariance_matrix.square().sum(), X)[0]

    wanted = slope(model)
    assert torch.allclose(slope(DenseGP(model)), wanted, atol=1e-8)


def test_pending_points_lower_the_deviations_and_leave_the_means(model, pairs):
    pending = dense.points(3, 3, seed=7)
    free, busy = DenseGP(model), DenseGP(model).hallucinate(pending[:2]).hallucinate(pending[2:])
    wanted = CachedGP(model).hallucinate(pending).posterior(pairs).distribution
    assert torch.allclose(busy.posterior(pairs).mean, free.posterior(pairs).mean, atol=1e-12)
    assert torch.allclose(busy.posterior(pairs).distribution.covariance_matrix, wanted.covariance_matrix, atol=1e-9)


def test_a_pending_point_of_another_size(model):
    with pytest.raises(BotorchTensorDimensionError, match="X_pending"):
        DenseGP(model).hallucinate(torch.zeros(1, 2).double())
