"""Universal kriging against the process that it is, with its covariance written out."""

import pytest
import torch

from mfbo_torch.ops import kriging
from mfbo_torch.ops.kernels import CORRELATIONS, cross_correlation
from mfbo_torch.ops.kriging import KrigingData, evidences, krige, mean_variance, predict
from mfbo_torch.ops.kriging import covariance as covariance_of


@pytest.mark.parametrize("kernel", CORRELATIONS)
def test_it_is_the_process_with_the_basis_in_its_covariance(kernel):
    torch.manual_seed(0)
    X, Y, basis = torch.rand(9, 2).double(), torch.randn(9).double(), torch.randn(9, 2).double()
    prior = torch.tensor([0.3, 1.0]).double(), torch.tensor([1.0, 2.0]).double()
    lengthscale, outputscale = torch.rand(3, 2).double() + 0.2, torch.rand(3).double() + 0.1
    noise = 0.1 * torch.rand(3, 9).double() + 0.01
    kriging = krige(kernel, KrigingData(X, Y, basis, *prior), lengthscale, outputscale, noise)
    at, there = torch.rand(5, 2).double(), torch.randn(5, 2).double()
    means, variances = mean_variance(kriging, at, there)
    reached = predict(kriging, at, there, at.new_zeros(5, 9))
    joint_means, covariances = reached.mean, covariance_of(kriging, at, reached, at, reached, at.new_zeros(5, 5))
    for h in range(3):

        def covariance(A, B, basis_A, basis_B, h=h):
            near = outputscale[h] * cross_correlation(kernel, A / lengthscale[h], B / lengthscale[h])
            return near + basis_A @ torch.diag(prior[1]) @ basis_B.mT

        total = covariance(X, X, basis, basis) + torch.diag(noise[h])
        cross = covariance(at, X, there, basis)
        mean = there @ prior[0] + cross @ torch.linalg.solve(total, Y - basis @ prior[0])
        rest = covariance(at, at, there, there) - cross @ torch.linalg.solve(total, cross.mT)
        expected = torch.distributions.MultivariateNormal(basis @ prior[0], total).log_prob(Y)
        assert torch.allclose(means[h], mean, atol=1e-10)
        assert torch.allclose(joint_means[h], mean, atol=1e-10)
        assert torch.allclose(variances[h], rest.diagonal(), atol=1e-10)
        assert torch.allclose(covariances[h], rest, atol=1e-10)
        assert torch.allclose(kriging.evidence[h], expected, atol=1e-9)


def test_some_of_the_processes():
    X, Y, basis = torch.rand(4, 1).double(), torch.rand(4).double(), torch.ones(4, 1).double()
    prior = torch.zeros(1).double(), torch.ones(1).double()
    ones = torch.ones(3).double()
    kriging = krige(
        "rbf", KrigingData(X, Y, basis, *prior), ones.unsqueeze(-1) / 3, ones.cumsum(0), 0.1 * torch.ones(3, 4).double()
    )
    means, variances = mean_variance(kriging, X, basis)
    some = torch.tensor([True, False, True])
    fewer, narrower = mean_variance(kriging[some], X, basis)
    assert torch.equal(fewer, means[some])
    assert torch.equal(narrower, variances[some])


def test_evidences_alone(monkeypatch):
    torch.manual_seed(1)
    X, Y, basis = torch.rand(9, 2).double(), torch.randn(9).double(), torch.randn(9, 2).double()
    prior = torch.tensor([0.3, 1.0]).double(), torch.tensor([1.0, 2.0]).double()
    outputscale, noise = torch.rand(5).double() + 0.1, 0.1 * torch.rand(5, 9).double() + 0.01
    lengthscale = torch.tensor([0.3, 0.6]).double()
    whole = krige("matern52", KrigingData(X, Y, basis, *prior), lengthscale.expand(5, -1), outputscale, noise).evidence
    monkeypatch.setattr(kriging, "CHUNK_BYTES", 2 * 9 * 9 * 8)
    torch.testing.assert_close(
        evidences("matern52", KrigingData(X, Y, basis, *prior), lengthscale, outputscale, noise, None), whole
    )
