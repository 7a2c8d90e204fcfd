"""The log marginal likelihood and its gradient, against the density of the normal distribution."""

import pytest
import torch

from mfbo_torch.ops.evidence import log_evidence
from mfbo_torch.ops.kernels import CORRELATIONS, cross_correlation


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("kernel", CORRELATIONS)
def test_value_and_gradient(kernel, offset):
    torch.manual_seed(0)
    X = torch.rand(12, 3).double()
    X[1] = X[0]
    residuals, noise = torch.randn(12).double(), 0.1 * torch.rand(12).double() + 0.01
    lengthscale, outputscale = torch.rand(3).double() + 0.2, torch.tensor(0.7).double()
    arguments = [part.requires_grad_(True) for part in (residuals, lengthscale, outputscale, noise)]

    def plain(residuals, lengthscale, outputscale, noise):
        K = outputscale * cross_correlation(kernel, X / lengthscale, X / lengthscale) + torch.diag(noise)
        return torch.distributions.MultivariateNormal(torch.zeros(12).double(), K).log_prob(residuals)

    found, expected = log_evidence(kernel, X + offset, *arguments), plain(*arguments)
    assert torch.allclose(found.value, expected, atol=1e-7)
    for a, b in zip(found[1:], torch.autograd.grad(expected, arguments), strict=True):
        assert torch.allclose(a, b, rtol=1e-6, atol=1e-6)


def test_a_matrix_that_is_not_quite_positive_definite():
    X = torch.zeros(6, 1).double()
    noise = torch.zeros(6).double()
    one = torch.ones(1).double()
    assert log_evidence("rbf", X, torch.zeros(6).double(), one, one.squeeze(), noise).value.isfinite()
