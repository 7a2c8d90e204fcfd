"""A known function as a model."""

import torch
from botorch.models.model import ModelList

from mfbo_torch.acquisition import LogExpectedHypervolumeImprovement
from mfbo_torch.models.known_output import KnownOutput


def curved(U):
    return U.square().sum(-1) + U[:, 0] * U[:, 1]


def test_values_and_slopes_are_those_of_the_function():
    X = torch.rand(5, 1, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    X[0] = torch.tensor([0.0, 1.0, 0.5])  # the edges have one side only
    inside, exact = X.clone().requires_grad_(), X.clone().requires_grad_()
    posterior = KnownOutput(curved, 2.0).posterior(inside)
    assert posterior.mean.shape == (5, 1, 1)
    assert not posterior.variance.any()
    (slopes,) = torch.autograd.grad(posterior.mean.sum(), inside)
    values = curved(exact.squeeze(1)) / 2
    (wanted,) = torch.autograd.grad(values.sum(), exact)
    assert torch.equal(posterior.mean.reshape(-1), values)
    torch.testing.assert_close(slopes, wanted, rtol=1e-8, atol=1e-5)


def test_known_outputs_gain_the_hypervolume_itself():
    joint = ModelList(KnownOutput(lambda U: U[:, 0]), KnownOutput(lambda U: 1 - U[:, 0]))
    front = torch.tensor([[0.25, 0.75], [0.75, 0.25]]).double()
    gain = LogExpectedHypervolumeImprovement(joint, torch.zeros(2).double(), front)
    at = torch.tensor([[[0.5]], [[0.6]], [[0.9]]]).double()
    wanted = torch.tensor([0.25 * 0.25, 0.35 * 0.15, 0.15 * 0.1]).double()
    torch.testing.assert_close(gain(at).exp(), wanted, atol=1e-9, rtol=1e-6)
