"""What BoTorch does with the model of several fidelities: fantasies, acquisitions, datasets, transforms, states."""

import copy
import io
import pickle
from collections.abc import Callable

import dense
import pytest
import torch
from agreement import LINKS, same
from botorch.acquisition import (
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogExpectedImprovement,
)
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.datasets import SupervisedDataset
from gpytorch.mlls import ExactMarginalLogLikelihood
from refusals import refused

from mfbo_torch.models import CoKrigingGP, PerFidelityGP
from mfbo_torch.utils.errors import SettingError


@pytest.mark.parametrize("link", LINKS)
def test_fantasies(link):
    model = dense.hand_made((6, 4, 3), link=link)
    X, grid = dense.points(3, 6, seed=4).reshape(3, 2, 3), dense.points(3, 4)
    posterior = model.fantasize(X, SobolQMCNormalSampler(torch.Size([32]), seed=0)).posterior(grid.expand(3, 4, 3))
    assert posterior.mean.shape == posterior.variance.shape == (32, 3, 4, 1)
    # the mean over what may be seen is what is believed now
    now = model.posterior(grid)
    assert (posterior.mean.mean(0) - now.mean).abs().max() < 0.2 * now.variance.max().sqrt()
    assert torch.allclose(posterior.variance, posterior.variance[:1].expand(32, 3, 4, 1), rtol=0, atol=1e-9)


def test_no_fantasy():
    model = dense.hand_made((6, 4))
    fantasies = model.fantasize(torch.empty(0, 3, dtype=torch.double), SobolQMCNormalSampler(torch.Size([2])))
    mean = fantasies.posterior(dense.points(2, 4)).mean
    assert torch.allclose(mean, model.posterior(dense.points(2, 4)).mean.expand(2, 4, 1), rtol=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_knowledge_gradient(link):
    """BoTorch's one-step look-ahead differentiates through the fantasies' points."""
    acquisition = qKnowledgeGradient(dense.hand_made((6, 4, 3), link=link), num_fantasies=3)
    X = dense.points(3, 4, seed=4).requires_grad_()
    (gradient,) = torch.autograd.grad(acquisition(X), X)
    for column in (0, 1):
        shift = torch.zeros_like(X)
        shift[0, column] = 1e-5
        slope = (acquisition((X + shift).detach()) - acquisition((X - shift).detach())) / 2e-5
        assert gradient[0, column].item() == pytest.approx(slope.item(), rel=1e-4, abs=1e-6)
    assert gradient[0, :2].abs().min() > 1e-6


@pytest.mark.parametrize(
    "make",
    [
        lambda model: UpperConfidenceBound(model, beta=2.0),
        lambda model: LogExpectedImprovement(model, best_f=1.0),
        lambda model: PosteriorMean(model),
        lambda model: qLogExpectedImprovement(model, 1.0, SobolQMCNormalSampler(torch.Size([16]), seed=0)),
    ],
    ids=["ucb", "log_ei", "mean", "q_log_ei"],
)
def test_acquisitions_of_botorch(make: Callable):
    model = dense.hand_made((8, 5))
    acquisition = make(model)
    bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
    options = {"num_restarts": 2, "raw_samples": 16, "options": {"maxiter": 30, "seed": 0}}
    x, value = optimize_acqf(acquisition, bounds, 1, fixed_features={2: 1.0}, **options)
    assert x[0, 2] == 1.0
    u, other = optimize_acqf(FixedFeatureAcquisitionFunction(acquisition, 3, [2], [1.0]), bounds[:, :2], 1, **options)
    assert u.shape == (1, 2)
    raw = torch.cat([dense.points(1, 64)[:, :2], torch.ones(64, 1)], dim=-1)
    with torch.no_grad():
        assert min(value, other) >= acquisition(raw.unsqueeze(-2)).max() - 1e-6


def test_joint_improvement_of_several_points():
    model = dense.hand_made((8, 5))
    acquisition = qLogExpectedImprovement(model, best_f=1.0, sampler=SobolQMCNormalSampler(torch.Size([64]), seed=0))
    X = dense.points(2, 3).unsqueeze(0).requires_grad_()
    value = acquisition(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    singles = torch.stack([acquisition(x.reshape(1, 1, 3)) for x in X[0].detach()])
    assert value.item() >= singles.max().item() - 0.1  # logarithms, of smoothed maxima
    assert gradient.isfinite().all()


def test_posterior_transform():
    transform = ScalarizedPosteriorTransform(torch.tensor([-2.0], dtype=torch.double), offset=1.0)
    model, X = dense.hand_made((6, 4)), dense.points(2, 3)
    found, plain = model.posterior(X, posterior_transform=transform), model.posterior(X)
    assert torch.allclose(found.mean, 1 - 2 * plain.mean, rtol=1e-12)
    assert torch.allclose(found.variance, 4 * plain.variance, rtol=1e-9)


def test_from_a_dataset():
    X, Y = dense.data((6, 4))
    names = {"feature_names": ["a", "b", "fidelity"], "outcome_names": ["y"]}
    dataset = SupervisedDataset(X, Y, **names)
    inputs = PerFidelityGP.construct_inputs(dataset, fidelity_features=[2])
    assert set(inputs) == {"train_X", "train_Y", "num_fidelities", "link"}
    assert PerFidelityGP(**inputs).num_fidelities == 2
    noisy = SupervisedDataset(X, Y, Yvar=torch.full_like(Y, 0.1), **names)
    inputs = PerFidelityGP.construct_inputs(noisy, fidelity_features=[-1], num_fidelities=4, link="independent")
    model = PerFidelityGP(**inputs)
    assert (model.num_fidelities, model.link) == (4, "independent")
    assert torch.equal(model.train_Yvar, torch.full_like(Y, 0.1))
    with pytest.raises(SettingError, match=r"fidelity_features = \[0\]: must be \[2\], the last column"):
        PerFidelityGP.construct_inputs(dataset, fidelity_features=[0])


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("learned", [False, True])
def test_input_transform(learned, fitted):
    """A model with a transform is the model of the transformed designs, whichever method comes first."""
    X, Y = dense.data((7, 5))
    units = torch.tensor([[-5.0, 0.0, 0.0], [10.0, 0.01, 1.0]], dtype=torch.double)
    raw = units[0] + X * (units[1] - units[0])
    seen = torch.stack([raw.amin(0), raw.amax(0)])
    bounds = {"indices": [0, 1]} if learned else {"bounds": units, "indices": [0, 1]}
    low, high = (seen if learned else units)[:, :2]
    scaled = torch.cat([(raw[:, :2] - low) / (high - low), X[:, -1:]], dim=-1)
    wide = dense.set_by_hand(PerFidelityGP(raw, Y, 2, input_transform=Normalize(3, **bounds)))
    plain = dense.set_by_hand(PerFidelityGP(scaled, Y, 2))
    if fitted:
        wide.fit(optimizer_kwargs={"options": {"maxiter": 3}})
        plain.fit(optimizer_kwargs={"options": {"maxiter": 3}})
    grid, fidelity = dense.points(2, 5)[:, :2], torch.tensor([[0.0, 1.0, 1.0, 0.0, 1.0]]).double().mT
    Z = low + grid * (high - low)
    for model in (wide.train(), copy.deepcopy(wide).train()):
        found, expected = model.mean_variance(Z), plain.mean_variance(grid)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    a = wide.train().posterior(torch.cat([Z, fidelity], -1))
    b = plain.posterior(torch.cat([grid, fidelity], -1))
    assert torch.allclose(a.mean, b.mean, rtol=1e-6)
    assert torch.allclose(a.variance, b.variance, rtol=0, atol=1e-6)
    a = wide.train().hallucinate(torch.cat([Z, fidelity], -1)[:2]).mean_variance(Z)
    b = plain.hallucinate(torch.cat([grid, fidelity], -1)[:2]).mean_variance(grid)
    assert torch.allclose(a[1], b[1], rtol=0, atol=1e-6)
    more = wide.condition_on_observations(torch.cat([Z, fidelity], -1)[:2], Y[:2]).mean_variance(Z)
    fewer = plain.condition_on_observations(torch.cat([grid, fidelity], -1)[:2], Y[:2]).mean_variance(grid)
    assert torch.allclose(more[0], fewer[0], rtol=1e-6, atol=1e-6)


def test_states():
    """A state dict, a deep copy and a pickle hold the model; so does a file."""
    model = dense.hand_made((6, 4, 3))
    X, Y = dense.data((6, 4, 3))
    other = PerFidelityGP(X, Y * 3 + 1, 3, covar_modules=[dense.gpytorch_kernel("rbf", 2) for _ in range(3)])
    other.posterior(dense.points(3, 2))
    other.load_state_dict(model.state_dict())
    same(other, model, 1e-14)
    same(copy.deepcopy(model), model, 1e-14)
    same(pickle.loads(pickle.dumps(model)), model, 1e-14)
    fitted = PerFidelityGP(X, Y, 3).fit(optimizer_kwargs={"options": {"maxiter": 3}})
    file = io.BytesIO()
    torch.save(fitted.hallucinate(X[:2]), file)
    file.seek(0)
    same(torch.load(file, weights_only=False), fitted.hallucinate(X[:2]), 1e-14)


def test_a_state_is_loaded_into_this_model_alone():
    """Neither the caller's data nor a conditioned model follow."""
    model, (X, Y) = dense.hand_made((6, 4, 3)), dense.data((6, 4, 3))
    mine, kernels = (X.clone(), 3 * Y + 1), [dense.gpytorch_kernel("rbf", 2) for _ in range(3)]
    other, grid = PerFidelityGP(*mine, 3, covar_modules=kernels), X[:4, :-1] + 0.05
    more = other.condition_on_observations(X[:1], Y[:1])
    before = [part.clone() for part in more.mean_variance(grid)]
    other.load_state_dict(model.state_dict())
    same(other, model, 1e-14)
    assert torch.equal(mine[0], X)
    assert torch.equal(mine[1], 3 * Y + 1)
    more._forget()
    assert all(map(torch.equal, more.mean_variance(grid), before))


def test_noise_where_the_model_infers_its_own():
    model, (X, Y) = dense.hand_made((6, 4, 3)), dense.data((6, 4, 3))
    refused("left out where a model was given no train_Yvar", model.condition_on_observations, X[:1], Y[:1], Y[:1] ** 2)


def test_the_words_of_botorch():
    """``train_Yvar`` third, ``fit_gpytorch_mll``, and a message for an outcome transform."""
    X = torch.rand(12, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    train_X = torch.cat([X, (torch.arange(12) % 3 == 0).double().unsqueeze(-1)], -1)
    Y, Yvar = X.sum(-1, keepdim=True), torch.full((12, 1), 0.01, dtype=torch.double)
    ours = PerFidelityGP(train_X, Y, 2, Yvar).fit()
    for theirs in (PerFidelityGP(train_X, Y, Yvar), PerFidelityGP(train_X, Y, Yvar, 2)):
        fit_gpytorch_mll(ExactMarginalLogLikelihood(theirs.likelihood, theirs))
        assert theirs.mean_variance(X)[0].equal(ours.mean_variance(X)[0])
    with pytest.raises(UnsupportedError, match=r"^outcome_transform = Standardize: must be left out"):
        PerFidelityGP(train_X, Y, Yvar, outcome_transform=Standardize(1))
    with pytest.raises(SettingError, match=r"^train_Yvar = 0.1"):
        PerFidelityGP(train_X, Y, 2, 0.1)
    with pytest.raises(AttributeError, match="fit its chain"):
        _ = CoKrigingGP(ours).likelihood
