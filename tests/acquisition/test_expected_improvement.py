"""What a normal variable is expected to exceed a threshold by, as a logarithm: values and gradients everywhere."""

import mpmath
import pytest
import torch
from botorch.acquisition.analytic import _log_ei_helper

from mfbo_torch.acquisition.expected_improvement import log_gain


def exact(u):
    with mpmath.workdps(200):
        return float(mpmath.log(mpmath.npdf(u) + u * mpmath.ncdf(u)))


@pytest.mark.parametrize("u", [30.0, 3.0, 0.0, -0.999, -1.0, -1.001, -5.0, -100.0, -8000.0, -8192.0, -8193.0, -1e5])
def test_the_value_is_the_one_of_two_hundred_digits(u):
    assert log_gain(torch.tensor(u, dtype=torch.double)).item() == pytest.approx(exact(u), rel=1e-13, abs=1e-13)


def test_as_botorch_has_it_with_its_gradient():
    u = torch.cat([torch.linspace(-50, 9, 600), -(10.0 ** torch.linspace(1, 12, 200))]).double().requires_grad_()
    ours, theirs = log_gain(u), _log_ei_helper(u)
    assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    (mine,), (other,) = (torch.autograd.grad(value.sum(), u, retain_graph=True) for value in (ours, theirs))
    assert mine.isfinite().all()
    near = u > -1e5  # BoTorch's gradient loses digits further down
    assert torch.allclose(mine[near], other[near], rtol=1e-5)
    assert torch.allclose(mine[~near], -u[~near], rtol=1e-9)


def test_single_precision():
    u = torch.linspace(-200, 5, 400)
    assert torch.allclose(log_gain(u).double(), log_gain(u.double()), rtol=1e-4, atol=1e-3)
