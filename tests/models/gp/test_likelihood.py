"""The loss in closed form is the one of GPyTorch, and is used where it may be."""

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP, SingleTaskMultiFidelityGP
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior as gamma_kernel
from gpytorch.kernels import MaternKernel, PeriodicKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from mfbo_torch.models.gp.closed_form import ClosedForm
from mfbo_torch.models.gp.likelihood import maximize, maximize_twice
from mfbo_torch.models.gp.shared_lengthscales import ard_kernel
from mfbo_torch.models.multi_fidelity.level import Level, little_noise
from mfbo_torch.strategies.common.fit_schedule import _quick, fitting, standardized

torch.manual_seed(0)
X = torch.rand(11, 2).double()
Y = torch.sin(5 * X).sum(-1, keepdim=True)
MODELS = {
    "default": lambda: SingleTaskGP(X, Y, outcome_transform=None),
    "known noise": lambda: SingleTaskGP(X, Y, 0.01 + 0.1 * X[:, :1], outcome_transform=None),
    "scaled Matérn": lambda: SingleTaskGP(X, Y, covar_module=ScaleKernel(MaternKernel(1.5)), outcome_transform=None),
    "shared lengthscale": lambda: SingleTaskGP(X, Y, covar_module=ard_kernel(2, (0, 0)), outcome_transform=None),
    "gamma priors": lambda: SingleTaskGP(X, Y, covar_module=gamma_kernel(ard_num_dims=2), outcome_transform=None),
    "residual": lambda: SingleTaskGP(X, Y, covar_module=Level(2, True, True).covar_module, outcome_transform=None),
}


def likelihood_of(make):
    model = make()
    return ExactMarginalLogLikelihood(model.likelihood, model).train()


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_value_and_gradient_are_those_of_gpytorch(make):
    mll = likelihood_of(make)
    value, gradients = _quick(mll)()
    names = [name for name, p in mll.named_parameters() if p.requires_grad]
    mll.zero_grad()
    with fitting():
        expected = -mll(mll.model(*mll.model.train_inputs), mll.model.train_targets)
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-6, abs=1e-6)
    slopes = torch.cat([mll.get_parameter(name).grad.reshape(-1) for name in names])
    torch.testing.assert_close(torch.from_numpy(gradients), slopes, rtol=1e-6, atol=1e-8)


def test_parameters_of_something_else_are_refused():
    mll = likelihood_of(MODELS["default"])
    with pytest.raises(UnsupportedError, match=r"raw_constant: must be of the kernel, the noise or the mean"):
        ClosedForm(mll, X, Y.squeeze(-1), mll.model.covar_module, [])


def test_other_models_keep_the_loss_of_gpytorch():
    fidelities = torch.cat([X, torch.arange(11).remainder(2).unsqueeze(-1)], -1).double()
    assert _quick(likelihood_of(lambda: SingleTaskMultiFidelityGP(fidelities, Y, data_fidelities=[2]))) is None
    periodic = likelihood_of(lambda: SingleTaskGP(X, Y, covar_module=PeriodicKernel()))
    assert _quick(periodic) is None
    with pytest.raises(UnsupportedError, match="kernel = PeriodicKernel"):
        ClosedForm(periodic, X, Y.squeeze(-1), periodic.model.covar_module, [])


def fit_to(Y, fit):
    """Lengthscale and noise of one input after a fit to evenly spaced values."""
    U = torch.linspace(0, 1, len(Y), dtype=torch.double).unsqueeze(-1)
    model = SingleTaskGP(U, standardized(Y.unsqueeze(-1)), likelihood=little_noise(), outcome_transform=None)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    with fitting():
        fit(mll, _quick(mll))
    return model.covar_module.lengthscale.item(), model.likelihood.noise.item()


def test_a_quick_function_is_not_taken_for_noise():
    x = torch.linspace(0.5, 2.5, 64, dtype=torch.double)
    quick = torch.sin(31.416 * x) / x + (x - 1.2) ** 2
    slow = fit_to(quick, lambda mll, closure: maximize(mll, closure=closure))
    found = fit_to(quick, maximize_twice)
    assert slow[1] > 0.1
    assert found[0] < 0.1
    assert found[1] < 1e-6


def test_noise_about_a_slow_function_is_not_taken_for_a_quick_function():
    for seed in range(5):
        noise = torch.randn(24, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
        noisy = torch.linspace(-1, 1, 24, dtype=torch.double) + 0.5 * noise
        assert fit_to(noisy, maximize_twice) == fit_to(noisy, lambda mll, closure: maximize(mll, closure=closure))
