"""Expected hypervolume improvement against BoTorch's closed form and its Monte-Carlo one, on the same posterior."""

import pytest
import torch
from botorch.acquisition.multi_objective import (
    ExpectedHypervolumeImprovement,
    qLogExpectedHypervolumeImprovement,
)
from botorch.models import ModelListGP, SingleTaskGP
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.multi_objective.box_decompositions import FastNondominatedPartitioning
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated

from mfbo_torch.acquisition import LogExpectedHypervolumeImprovement


def case(outputs, dtype=torch.double):
    """A model, a reference point, a front and some designs."""
    generator = torch.Generator().manual_seed(outputs)
    X, Y = torch.rand(9, 3, generator=generator).to(dtype), torch.randn(9, outputs, generator=generator).to(dtype)
    Y = (Y - Y.mean(0)) / Y.std(0)
    made = [SingleTaskGP(X, Y[:, k : k + 1], outcome_transform=None) for k in range(outputs)]
    return ModelListGP(*made).eval(), Y.amin(0) - 0.1, Y, torch.rand(6, 1, 3, generator=generator).to(dtype)


@pytest.mark.parametrize(("dtype", "digits"), [(torch.double, 1e-10), (torch.float, 1e-3)])
@pytest.mark.parametrize("outputs", [2, 3, 4])
def test_it_is_botorchs_closed_form(outputs, dtype, digits):
    model, reference, Y, X = case(outputs, dtype)
    X.requires_grad_()
    plain = ExpectedHypervolumeImprovement(model, reference.tolist(), FastNondominatedPartitioning(reference, Y))
    own, wanted = LogExpectedHypervolumeImprovement(model, reference, Y)(X).exp(), plain(X)
    torch.testing.assert_close(own, wanted, atol=digits / 100, rtol=digits)  # BoTorch's own cancels where it is small
    slopes = [torch.autograd.grad(values.sum(), X)[0] for values in (own, wanted)]
    torch.testing.assert_close(*slopes, atol=digits, rtol=10 * digits)


def test_samples_agree():
    model, reference, Y, X = case(2)
    sampler = SobolQMCNormalSampler(torch.Size([4096]), seed=0)
    boxes = FastNondominatedPartitioning(reference, Y)
    sampled = qLogExpectedHypervolumeImprovement(model, reference, boxes, sampler)
    with torch.no_grad():  # samples of a covariance with a gradient take a minute
        own, wanted = LogExpectedHypervolumeImprovement(model, reference, Y)(X).exp(), sampled(X).exp()
    torch.testing.assert_close(own, wanted, atol=2e-3, rtol=0.05)


class Known(torch.nn.Module):
    """A model that is sure of its means."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def posterior(self, X):
        self.mean = self.value.expand(*X.shape[:-1], -1)
        self.variance = torch.full_like(self.mean, 1e-20)
        return self


def test_a_known_value_gains_what_it_adds():
    generator = torch.Generator().manual_seed(1)
    front, reference = torch.rand(20, 3, generator=generator).double(), torch.zeros(3).double()
    volume = Hypervolume(reference)
    for value in torch.rand(20, 3, generator=generator).double() + 0.1:
        both = torch.cat([front, value[None]])
        added = volume.compute(both[is_non_dominated(both)]) - volume.compute(front[is_non_dominated(front)])
        found = LogExpectedHypervolumeImprovement(Known(value), reference, front)(torch.zeros(1, 1, 2).double())
        assert found.exp().item() == pytest.approx(added, abs=1e-4)


def test_its_gradient_does_not_vanish():
    """Where BoTorch's own is 0 to the last digit."""
    model, reference, Y, X = case(2)
    X.requires_grad_()
    found = LogExpectedHypervolumeImprovement(model, reference, Y + 60.0)(X)
    assert found.isfinite().all()
    assert found.max() < -700
    (slope,) = torch.autograd.grad(found.sum(), X)
    assert slope.isfinite().all()
    assert slope.abs().amax((-1, -2)).gt(0).all()


def test_no_front_and_values_below_the_reference():
    model, reference, Y, X = case(2)
    none = LogExpectedHypervolumeImprovement(model, reference, Y[:0])(X)
    below = LogExpectedHypervolumeImprovement(model, reference, reference - 1.0 - Y.square())(X)
    torch.testing.assert_close(none, below)
    posterior, sums = model.posterior(X), 0.0
    deviation = posterior.variance.sqrt()
    z = (posterior.mean - reference) / deviation
    normal = torch.distributions.Normal(0.0, 1.0)
    sums = (deviation * (normal.log_prob(z).exp() + z * normal.cdf(z))).prod(-1).squeeze(-1)
    torch.testing.assert_close(none.exp(), sums)
