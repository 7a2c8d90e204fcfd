"""The multi-fidelity bound of BoTorch's own models, and batches that do not stand still."""

import math

import dense
import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP, SingleTaskMultiFidelityGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from refusals import refused

from mfbo_torch.acquisition import FidelityColumn, MultiFidelityUpperConfidenceBound, cost_thresholds, select_fidelity
from mfbo_torch.utils.errors import SettingError

BETA = 2.0
LEVELS = (0.25, 0.5, 1.0)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def designs(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def values(X: torch.Tensor) -> torch.Tensor:
    """Smooth, and farther from the target the lower the last column is."""
    return ((5 * X[:, :1]).sin() + X[:, 1:2].square()) * (0.5 + X[:, 2:] / 2) - X[:, 2:] * X[:, :1]


def at(X: torch.Tensor, level: float) -> torch.Tensor:
    return torch.cat([X, torch.full_like(X[:, :1], level)], -1)


def data(n: int = 15) -> tuple[torch.Tensor, torch.Tensor]:
    train_X = torch.cat([designs(n), torch.tensor(LEVELS, dtype=torch.double)[torch.arange(n) % 3].unsqueeze(-1)], -1)
    return train_X, values(train_X)


def model(**settings) -> SingleTaskMultiFidelityGP:
    made = SingleTaskMultiFidelityGP(*data(), data_fidelities=[2], **settings)
    made.likelihood.noise = 1e-3
    return made.eval()


def by_botorch(gp, x: torch.Tensor, level: float, pending: torch.Tensor | None) -> tuple[float, float]:
    """Mean of the data; deviation of BoTorch's model after made-up values at the pending points."""
    point = at(x.reshape(1, -1), level)
    mean = gp.posterior(point).mean.item()
    if pending is not None:
        gp = gp.condition_on_observations(pending, torch.ones(len(pending), 1).to(x))
    return mean, gp.posterior(point).variance.sqrt().item()


@pytest.mark.parametrize("transform", [None, Normalize(3)], ids=["plain", "normalized"])
@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
def test_bounds_are_those_of_the_joint_posterior(out, transform):
    gp = model(input_transform=transform, outcome_transform=None)
    pending = at(designs(3, 5), 0.5) if out else None
    zeta = [0.3, 0.1, 0.0]
    acquisition = MultiFidelityUpperConfidenceBound(gp, BETA, zeta, pending)
    target = MultiFidelityUpperConfidenceBound(gp, BETA, X_pending=pending)
    U = designs(4, 1)
    for x, least, top in zip(U, acquisition(U.unsqueeze(1)), target(U.unsqueeze(1)), strict=True):
        moments = [by_botorch(gp, x, level, pending) for level in LEVELS]
        bounds = [m + math.sqrt(BETA) * s + z for (m, s), z in zip(moments, zeta, strict=True)]
        assert least.item() == pytest.approx(min(bounds), rel=1e-6)
        assert top.item() == pytest.approx(bounds[-1], rel=1e-6)
    assert torch.autograd.gradcheck(target, U.unsqueeze(1).requires_grad_())


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
def test_fantasies_by_plain_loops(out):
    gp, new, pending = model(outcome_transform=None), at(designs(2, 4), 0.5), at(designs(3, 5), 0.5) if out else None
    gp.posterior(new)  # GPyTorch conditions only a model that has made a prediction
    fantasies = gp.fantasize(new, SobolQMCNormalSampler(torch.Size([3]), seed=0))
    acquisition = MultiFidelityUpperConfidenceBound(fantasies, BETA, [0.3, 0.1, 0.0], pending)
    for shape in ((1,), (3,), (4, 3), (4, 1)):
        X = designs(torch.Size(shape).numel(), 1).reshape(*shape, 1, 2)
        found = acquisition(X)
        assert found.shape == torch.broadcast_shapes(shape, (3,))
        assert acquisition.bounds(X[..., 0, :].reshape(-1, 2)).shape == (3, torch.Size(shape).numel(), 3)
        for i in range(3):
            known = gp.condition_on_observations(new, fantasies.train_targets[i, -2:].unsqueeze(-1))
            alone = MultiFidelityUpperConfidenceBound(FidelityColumn(known, LEVELS), BETA, [0.3, 0.1, 0.0], pending)
            expected = alone(X.expand(*found.shape, 1, 2)[..., i, :, :])
            assert torch.allclose(found[..., i], expected.reshape(found[..., i].shape), rtol=1e-8)


def test_fidelity_by_what_it_explains_of_the_target():
    """The threshold of a fidelity is where its squared correlation with the target is worth its cost."""
    gp, x = model(outcome_transform=None), designs(1, 3)
    joint = gp.posterior(torch.cat([at(x, level) for level in LEVELS])).distribution.covariance_matrix
    shares = joint[-1].square() / (joint.diagonal() * joint[-1, -1])
    for factor, cheap in ((0.99, True), (1.01, False)):
        costs = [factor * shares[0].item(), 1e9, 1e9]
        costs[2] = 1.0
        costs[1] = 1.01 * shares[1].item()
        assert (select_fidelity(gp, x, BETA, cost_thresholds(gp, x, BETA, costs)) == 0) is cheap


@pytest.mark.parametrize("make", [lambda: model(), lambda: dense.hand_made((8, 3), noise=1e-6)], ids=["any", "chain"])
def test_a_batch_does_not_stand_still(make):
    """A value at the target tells of all processes that it is the sum of, so that the next point is elsewhere."""
    acquisition = MultiFidelityUpperConfidenceBound(make(), 20.0)
    options = {"num_restarts": 2, "raw_samples": 32, "options": {"seed": 0, "maxiter": 30}}
    found, _ = optimize_acqf(acquisition, BOUNDS, 4, sequential=True, **options)
    assert torch.pdist(found).min() > 1e-2
    assert acquisition.X_pending is None
    before = acquisition.bounds(found)
    acquisition.set_X_pending(found)
    mean = MultiFidelityUpperConfidenceBound(make(), 0.0).bounds(found)
    assert ((acquisition.bounds(found) - mean)[:, -1] < 0.2 * (before - mean)[:, -1].max()).all()


def test_input_constructor():
    construct, gp = get_acqf_input_constructor(MultiFidelityUpperConfidenceBound), model(outcome_transform=None)
    pending, U = at(designs(2, 5), 1.0), designs(3, 1).unsqueeze(1)
    made = MultiFidelityUpperConfidenceBound(**construct(model=gp, X_pending=pending, target_fidelities={2: 1.0}))
    assert torch.equal(made(U), MultiFidelityUpperConfidenceBound(gp, 0.2, None, pending)(U))
    down = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
    turned = MultiFidelityUpperConfidenceBound(**construct(model=gp, beta=0.0, posterior_transform=down))
    assert torch.allclose(turned(U), -MultiFidelityUpperConfidenceBound(gp, 0.0)(U))
    turned.set_X_pending(pending[:, :-1])
    assert torch.equal(turned.X_pending, pending[:, :-1])
    refused(r"target_fidelities = \{2: 2\.0\}: must be \{2: 1\.0\}", construct, model=gp, target_fidelities={2: 2.0})


def test_what_is_missing_is_said():
    X, Y = data()
    with pytest.raises(SettingError, match=r"model = 'SingleTaskGP': must be told its fidelities: FidelityColumn\("):
        MultiFidelityUpperConfidenceBound(SingleTaskGP(X, Y), BETA)
    told = FidelityColumn(SingleTaskGP(X, Y), LEVELS)
    assert MultiFidelityUpperConfidenceBound(told, BETA)(designs(2).unsqueeze(1)).shape == (2,)
    with pytest.raises(UnsupportedError, match="model = ModelListGP: must be an exact GP"):
        MultiFidelityUpperConfidenceBound(ModelListGP(SingleTaskGP(X, Y)), BETA)
    with pytest.raises(SettingError, match=r"data_fidelities = \[0\]: must be \[2\], the last column alone"):
        MultiFidelityUpperConfidenceBound(SingleTaskMultiFidelityGP(X, Y, data_fidelities=[0]), BETA)
    for wrong in ([], [0.5, 0.5], [math.nan, 1.0], "ab"):
        refused("fidelities = ", FidelityColumn, model(), wrong)
    acquisition = MultiFidelityUpperConfidenceBound(model(), BETA)
    with pytest.raises(InputDataError, match=r"X_pending: fidelity 0\.7: must be one of 0\.25, 0\.5, 1"):
        acquisition.set_X_pending(at(designs(1), 0.7))
    with pytest.raises(BotorchTensorDimensionError, match="X_pending of shape"):
        acquisition.set_X_pending(torch.rand(2, 5).double())
