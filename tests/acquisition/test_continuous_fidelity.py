"""The choice of a continuous fidelity against dense formulas."""

import math

import numpy as np
import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError
from refusals import refused
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from mfbo_torch.acquisition.continuous_fidelity import WORTHWHILE, AtFidelity, information_gaps, select_value
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.acquisition.optimize import optimize_acqf
from mfbo_torch.models import CachedGP
from mfbo_torch.strategies.common.gp import single_task_gp

LENGTHSCALE = (0.4, 0.7, 0.8)
VALUES = torch.linspace(0, 1, 21, dtype=torch.double)
COSTS = (0.1 + 0.9 * VALUES**2).tolist()


@pytest.fixture(scope="module")
def data():
    X = torch.rand(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    Y = torch.sin(4 * X).sum(-1, keepdim=True)
    return X, (Y - Y.mean()) / Y.std()


@pytest.fixture(scope="module")
def model(data):
    gp = single_task_gp(*data)
    gp.covar_module.lengthscale = torch.tensor(LENGTHSCALE)
    gp.likelihood.noise = 1e-3
    return CachedGP(gp.eval())


@pytest.fixture(scope="module")
def dense(data):
    X, Y = data
    return GaussianProcessRegressor(RBF(LENGTHSCALE), alpha=1e-3, optimizer=None).fit(X.numpy(), Y.numpy().ravel())


def test_gap_has_a_closed_form(model):
    gap = information_gaps(model, torch.tensor([[0.2, 0.9]]).double(), VALUES)
    correlation = np.exp(-0.5 * ((VALUES.numpy() - 1) / LENGTHSCALE[-1]) ** 2)
    assert gap.tolist() == pytest.approx(np.sqrt(1 - correlation**2).tolist(), abs=1e-7)


@pytest.mark.parametrize("factor", [0.05, 0.6, 1.0, 1.5, 50.0])
@pytest.mark.parametrize("pending", [False, True])
def test_choice_is_the_cheapest_that_qualifies(data, model, dense, factor, pending):
    x, out = torch.tensor([[0.55, 0.45]]).double(), torch.tensor([[0.5, 0.4, 0.3]]).double()
    if pending:  # a value that is out conditions the deviation, whatever it is
        dense = GaussianProcessRegressor(RBF(LENGTHSCALE), alpha=1e-3, optimizer=None)
        dense.fit(np.r_[data[0].numpy(), out.numpy()], np.zeros(10))
    deviation = dense.predict(np.c_[np.repeat(x.numpy(), 21, 0), VALUES.numpy()], return_std=True)[1]
    gap = np.sqrt(1 - np.exp(-(((VALUES.numpy() - 1) / LENGTHSCALE[-1]) ** 2)))
    gamma = factor * gap * np.array(COSTS) ** (1 / 5)
    able = [m for m in range(20) if deviation[m] > gamma[m] and COSTS[m] <= WORTHWHILE]
    found = select_value(model, x, VALUES, COSTS, factor=factor, X_pending=out if pending else None)
    assert found == (able[0] if able else 20)


def test_cost_at_the_design_counts(model):
    """Of fidelities that qualify the cheapest is taken, wherever it is."""
    x, costs = torch.tensor([[0.55, 0.45]]).double(), [0.5] * 20 + [1.0]
    costs[13] = 0.3
    assert select_value(model, x, VALUES, costs, factor=1e-3) == 13
    assert select_value(model, x, VALUES, [1.0] * 21, factor=1e-3) == 20


def test_at_fidelity_is_the_bound_there(model, dense):
    at = AtFidelity(HallucinatedUpperConfidenceBound(model, 2.0), 1.0)
    X = torch.rand(7, 1, 2, generator=torch.Generator().manual_seed(3), dtype=torch.double)
    mean, deviation = dense.predict(np.c_[X[:, 0].numpy(), np.ones(7)], return_std=True)
    assert at(X).tolist() == pytest.approx((mean + math.sqrt(2) * deviation).tolist(), abs=1e-6)
    form = at.fused()
    assert form.takes(X)
    assert form(X[:, 0].numpy()).tolist() == pytest.approx(at(X).tolist(), abs=1e-9)
    U = X.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(at(U).sum(), U)
    assert torch.allclose(torch.from_numpy(form.with_gradient(X[:, 0].numpy())[1]), wanted[:, 0], atol=1e-9)
    cube = torch.tensor([[0.0], [1.0]]).double().expand(2, 2)
    _, best = optimize_acqf(at, cube, q=1, num_restarts=4, raw_samples=64)
    assert best >= at(torch.rand(500, 1, 2, dtype=torch.double)).max() - 1e-6


def test_bad_input_is_named(model):
    x = torch.tensor([[0.55, 0.45]]).double()
    refused(r"costs = .*21 numbers", select_value, model, x, VALUES, COSTS[:-1])
    refused("factor = 0", select_value, model, x, VALUES, COSTS, factor=0)
    refused("must be 1 x 2", select_value, model, x[0], VALUES, COSTS, error=BotorchTensorDimensionError)
