"""The probability that a design can be evaluated: what it learns, what it leaves alone, and its gradient."""

import math

import pytest
import torch

from mfbo_torch.acquisition.feasible import Feasible
from mfbo_torch.models import feasibility
from mfbo_torch.strategies.common.initial_design import sobol, uniform

REGIONS = {
    "half-plane": lambda U: U.sum(-1) > 0.585 * U.shape[-1],
    "one parameter": lambda U: U[:, 0] > 0.65,
    "disc": lambda U: (U - 0.5).norm(dim=-1) < 0.3,
    "most": lambda U: (U[:, 0] > 0.45) | (U[:, -1] < 0.55),
}


def learned(U: torch.Tensor, failed: torch.Tensor, fidelity: int = 0) -> feasibility.Feasibility:
    """The model of designs at fidelity 0."""
    points = torch.cat([U, torch.zeros_like(U[:, :1])], -1)
    return feasibility.Feasibility(points, ~failed, fidelity, feasibility.likeliest(points, ~failed))


@pytest.mark.parametrize(
    ("name", "dim"),
    [("half-plane", 2), ("half-plane", 5), ("one parameter", 2), ("one parameter", 5), ("disc", 2), ("most", 2)],
)
def test_regions_that_fail_are_learned(name, dim):
    U, T, region = sobol(dim, 60, 0), uniform(dim, 500, 1), REGIONS[name]
    failed, truth = region(U), region(T)
    p, rate = learned(U, failed)(T), (~failed).double().mean()
    assert torch.where(truth, 1 - p, p).log().mean() > 0.6 * torch.where(truth, 1 - rate, rate).log().mean()


def test_chance_teaches_nothing_of_a_place():
    for seed in range(5):
        failed = torch.rand(80, generator=torch.Generator().manual_seed(seed)) < 0.1
        p = learned(sobol(2, 80, seed), failed)(uniform(2, 500, 1))
        assert p.min() > 0.5
        assert p.max() - p.min() < 0.4


def test_near_failures_it_is_low_and_recovers_and_is_never_zero():
    U = torch.cat([0.2 + 0.02 * uniform(2, 40, 0), sobol(2, 20, 0)])
    model = learned(U, (U - 0.21).norm(dim=-1) < 0.1)
    p = model(torch.tensor([[0.21, 0.21], [0.3, 0.3], [0.45, 0.45], [0.8, 0.8]], dtype=torch.double))
    assert 0 < p[0] < 0.05 < p[1] < p[2]
    assert p[2:].min() > 0.8
    assert model(torch.zeros(1, 2, dtype=torch.double)) > 0


@pytest.mark.parametrize("succeeded", [False, True])
def test_all_alike(succeeded):
    p = learned(sobol(2, 12, 0), torch.full((12,), not succeeded))(sobol(2, 100, 1))
    assert ((p > 0) & (p < 1)).all()
    assert ((p > 0.5) == succeeded).all()


def test_fidelities_that_fail_apart():
    """Where the target alone fails, the successes of the cheap fidelity do not hide it."""
    U = sobol(2, 64, 0)
    points = torch.cat([U, torch.arange(64).remainder(2).unsqueeze(-1)], -1)
    failed = (U[:, 0] > 0.6) & (points[:, -1] == 1)
    structure = feasibility.likeliest(points, ~failed)
    assert structure.share < 1
    low, high = torch.tensor([[0.2, 0.5]], dtype=torch.double), torch.tensor([[0.85, 0.5]], dtype=torch.double)
    at = [feasibility.Feasibility(points, ~failed, m, structure) for m in (0, 1)]
    assert at[1](high) < 0.3 < 0.6 < at[1](low)
    assert at[0](high) > at[1](high)


@pytest.mark.parametrize("structure", [(0.25, 4.0, 1.0), (0.1, 32.0, 1.0)])
def test_the_approximation_against_draws(structure):
    """The evidence and the probabilities are the means over draws of the latent function, weighed by the likelihood."""
    structure, U, T = feasibility.Structure(*structure), sobol(2, 15, 0), uniform(2, 5, 1)
    succeeded = U[:, 0] < 0.6
    fitted = feasibility._propagated(U - 0.5, torch.zeros(15), succeeded, [structure])
    X = torch.cat([U, T]) - 0.5
    scale = 1 / (2 * structure.lengthscale**2)
    K = structure.variance * ((-0.5 * scale * torch.cdist(X, X).square()).exp() + 4.0 * X @ X.T)
    root = torch.linalg.cholesky(K + 1e-9 * torch.eye(20, dtype=torch.double))
    f = fitted.mean + root @ torch.randn(20, 1_000_000, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    logs = torch.special.log_ndtr(torch.where(succeeded, 1.0, -1.0).double()[:, None] * f[:15]).sum(0)
    assert fitted.evidence.item() == pytest.approx(logs.logsumexp(0).item() - math.log(1_000_000), abs=0.2)
    k = K[15:, :15]
    deviation = (1 + K.diagonal()[15:] - (k @ fitted.precision[0] * k).sum(-1)).sqrt()
    found = torch.special.ndtr((fitted.mean + k @ fitted.gradient[0]) / deviation)
    torch.testing.assert_close(found, torch.special.ndtr(f[15:]) @ logs.softmax(0), atol=0.05, rtol=0)


def test_amid_failures_little_is_left():
    U = torch.cat([0.8 + 0.2 * uniform(2, 40, 0), sobol(2, 40, 0)])
    assert learned(U, U.sum(-1) > 1.2)(torch.tensor([[0.95, 0.9]], dtype=torch.double)) < 0.03


def test_evidence_of_chance():
    """The integral of ``p^s (1 - p)^(n - s)``."""
    p = torch.linspace(0, 1, 100001, dtype=torch.double)
    mean, evidence = feasibility._by_chance(torch.tensor([True] * 7 + [False] * 2))
    assert mean == pytest.approx(8 / 11)
    assert math.exp(evidence) == pytest.approx(torch.trapezoid(p**7 * (1 - p) ** 2, p).item(), rel=1e-6)


@pytest.mark.parametrize("structure", feasibility.STRUCTURES[::5])
def test_gradient(structure):
    U = sobol(3, 30, 0)
    points = torch.cat([U, torch.arange(30).remainder(2).unsqueeze(-1)], -1)
    model = feasibility.Feasibility(points, U.sum(-1) < 1.7, 1, structure)
    assert torch.autograd.gradcheck(model, (uniform(3, 4, 5).unsqueeze(-2).requires_grad_(),))


def test_many_records_are_thinned_of_successes_first():
    points, succeeded = uniform(3, 1000, 0), torch.arange(1000) % 50 != 0
    few, kept = feasibility.thinned(points, succeeded)
    assert len(few) == feasibility.MAX_RECORDS
    assert int((~kept).sum()) == 20
    assert all(len(some) == feasibility.MAX_RECORDS for some in feasibility.thinned(points, ~succeeded))
    few = feasibility.thinned(points, torch.arange(1000) % 2 == 0)
    assert all(len(some) <= feasibility.MAX_RECORDS for some in few)


class Plane(torch.nn.Module):
    """An acquisition with the values of the first parameter."""

    model = None

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X[:, 0, 0]


def test_acquisitions_are_discounted():
    U = sobol(2, 40, 0)
    model, X = learned(U, U[:, 1] > 0.5), uniform(2, 50, 1).unsqueeze(-2)
    value, p = X[:, 0, 0], model(X[:, 0])
    torch.testing.assert_close(Feasible(Plane(), model)(X), value + p.log())
    gain = value - 0.4
    torch.testing.assert_close(Feasible(Plane(), model, 0.4)(X), gain - (1 - p) * gain.abs())
    wide = torch.cat([X, torch.ones_like(X[..., :1])], -1)
    torch.testing.assert_close(Feasible(Plane(), model)(wide), value + p.log())
