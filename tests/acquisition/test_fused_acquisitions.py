"""Acquisition functions in closed form, beside the same functions through torch and BoTorch."""

import copy
import pickle

import numpy as np
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.acquisition.analytic import _log_ei_helper
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.settings import propagate_grads
from gaussian import draw
from refusals import refused

from mfbo_torch import CachedGP, HallucinatedUpperConfidenceBound, MultiFidelityUpperConfidenceBound, PerFidelityGP
from mfbo_torch.acquisition import fused as room
from mfbo_torch.acquisition.fused import fused, log_h

ZETA = [0.3, 0.1, 0.0]


def gp(n: int = 12, kernel: str = "default", **settings) -> SingleTaskGP:
    X = draw(n, 2)
    model = SingleTaskGP(X, (5 * X).sin().sum(-1, keepdim=True), **settings)
    model.likelihood.noise = 1e-3
    return model.eval()


def fidelities(link: str) -> PerFidelityGP:
    X = draw(20, 2)
    level = (torch.arange(20) % 3).double().unsqueeze(-1)
    return PerFidelityGP(torch.cat([X, level], -1), (5 * X).sin().sum(-1, keepdim=True) + 0.1 * level, 3, link=link)


MINIMISED = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
OUT = torch.cat([draw(2, 2, seed=4), torch.tensor([[0.0], [2.0]], dtype=torch.double)], -1)
ACQUISITIONS = {
    "upper bound": lambda: UpperConfidenceBound(CachedGP(gp()), 2.0),
    "lower bound": lambda: UpperConfidenceBound(CachedGP(gp()), 2.0, maximize=False),
    "units": lambda: UpperConfidenceBound(
        CachedGP(gp(input_transform=Normalize(2), outcome_transform=Standardize(1))), 2.0
    ),
    "log improvement": lambda: LogExpectedImprovement(CachedGP(gp()), 1.3),
    "log improvement, far": lambda: LogExpectedImprovement(CachedGP(gp()), 40.0),
    "log improvement, minimised": lambda: LogExpectedImprovement(CachedGP(gp()), 1.3, maximize=False),
    "hallucinated": lambda: HallucinatedUpperConfidenceBound(CachedGP(gp()), 2.0, draw(3, 2, seed=4)),
    "hallucinated, minimised": lambda: HallucinatedUpperConfidenceBound(gp(), 2.0, posterior_transform=MINIMISED),
    "recursive": lambda: MultiFidelityUpperConfidenceBound(fidelities("recursive"), 2.0),
    "recursive, pending": lambda: MultiFidelityUpperConfidenceBound(fidelities("recursive"), 2.0, None, OUT[:1]),
    "recursive, all": lambda: MultiFidelityUpperConfidenceBound(fidelities("recursive"), 2.0, ZETA),
    "independent": lambda: MultiFidelityUpperConfidenceBound(fidelities("independent"), 2.0, ZETA, OUT),
    "no width": lambda: MultiFidelityUpperConfidenceBound(fidelities("independent"), 0.0, ZETA),
}


@pytest.mark.parametrize("shape", [(1, 1, 2), (5, 1, 2), (2, 3, 1, 2)], ids=str)
@pytest.mark.parametrize("name", ACQUISITIONS)
def test_value_and_gradient_are_those_through_torch(name, shape, monkeypatch):
    acquisition, X = ACQUISITIONS[name](), draw(*shape, seed=3).requires_grad_()
    form = fused(acquisition)
    value, gradient = form.with_gradient(X.detach().reshape(-1, 2).numpy())
    direct = acquisition(X)
    (own,) = torch.autograd.grad(direct.square().sum(), X)
    monkeypatch.setattr(room, "MOST_BYTES", 0)
    expected = acquisition(X)
    (slow,) = torch.autograd.grad(expected.sum(), X)
    assert direct.shape == expected.shape == shape[:-2]
    assert value == pytest.approx(expected.detach().reshape(-1).numpy(), rel=1e-9, abs=1e-10)
    assert gradient == pytest.approx(slow.reshape(-1, 2).numpy(), rel=1e-8, abs=1e-9)
    assert torch.allclose(direct, expected, rtol=1e-9, atol=1e-10)
    assert torch.allclose(own, 2 * direct[..., None, None] * slow, rtol=1e-8, atol=1e-8)
    assert np.array_equal(form(X.detach().reshape(-1, 2).numpy()), value)


@pytest.mark.parametrize("name", ["hallucinated", "recursive, pending", "independent"])
def test_gradcheck(name):
    acquisition, X = ACQUISITIONS[name](), draw(3, 1, 2, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(acquisition, X)
    (gradient,) = torch.autograd.grad(acquisition(X).sum(), X, create_graph=True)
    refused("a second one was requested", gradient.sum().backward, error=UnsupportedError)


@pytest.mark.parametrize(
    "make",
    [
        lambda: UpperConfidenceBound(gp(), 2.0),
        lambda: UpperConfidenceBound(CachedGP(gp()), torch.tensor([1.0, 2.0])),
        lambda: UpperConfidenceBound(CachedGP(gp()), 2.0, posterior_transform=MINIMISED),
        lambda: UpperConfidenceBound(CachedGP(gp().float()), 2.0),
        lambda: HallucinatedUpperConfidenceBound(gp(input_transform=Normalize(2, indices=[0])), 2.0),
        lambda: MultiFidelityUpperConfidenceBound(fidelities("recursive").float(), 2.0),
    ],
)
def test_what_has_no_closed_form(make):
    assert fused(make()) is None


def test_gradients_in_the_factor_have_none():
    acquisition = UpperConfidenceBound(CachedGP(gp()), 2.0)
    with propagate_grads(True):
        assert fused(acquisition) is None


def test_it_follows_the_model():
    """New data, new pending points, another width: never an old answer."""
    acquisition, X = ACQUISITIONS["hallucinated"](), draw(4, 1, 2, seed=3)
    before = acquisition(X)
    acquisition.set_X_pending(draw(3, 2, seed=6))
    assert (acquisition(X) < before).any()
    acquisition.set_X_pending(draw(3, 2, seed=4))
    assert torch.allclose(acquisition(X), before, rtol=1e-12)
    for same in (copy.deepcopy(acquisition), pickle.loads(pickle.dumps(acquisition))):
        assert torch.allclose(same(X), before, rtol=1e-12)
    acquisition.beta = 0.0
    mean = acquisition(X)
    assert (mean < before).all()
    acquisition.model.model.set_train_data(targets=1 + acquisition.model.train_targets, strict=False)
    assert (acquisition(X) > mean).all()


def test_log_h():
    """Beside BoTorch's own down to where it has digits, and by the series beyond."""
    u = torch.cat([-torch.logspace(-3, 3, 300), torch.linspace(-3, 60, 300)]).double().requires_grad_()
    expected = _log_ei_helper(u)
    (slope,) = torch.autograd.grad(expected.sum(), u)
    value, found, rest = log_h(u.detach().numpy())
    assert value == pytest.approx(expected.detach().numpy(), rel=1e-9, abs=1e-12)
    assert found == pytest.approx(slope.numpy(), rel=1e-6, abs=1e-12)
    assert rest == pytest.approx(1 - found * u.detach().numpy(), rel=1e-6, abs=1e-6)
    far = -np.logspace(2, 8, 20)
    value, found, rest = log_h(far)
    assert value == pytest.approx(-0.5 * far**2 - 0.5 * np.log(2 * np.pi) - 2 * np.log(-far), rel=1e-3)
    assert found == pytest.approx(-far, rel=1e-3)
    assert rest == pytest.approx(far**2, rel=1e-3)
    for part in log_h(np.nextafter([-1.0, -1.0, room.SERIES_BELOW, room.SERIES_BELOW], [0.0, -2.0, 0.0, -99.0])):
        assert part[::2] == pytest.approx(part[1::2], rel=1e-9)
