"""Pending points, as every model takes them: deviations shrink, means stay, and only new points cost anything."""

import copy
import pickle
from collections.abc import Callable

import dense
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Log, Standardize
from botorch.sampling import SobolQMCNormalSampler
from botorch.settings import propagate_grads
from gaussian import draw
from gpytorch.kernels import LinearKernel, MaternKernel, ScaleKernel
from refusals import refused
from torch import Tensor

from mfbo_torch import CachedGP, DeconditionalGP, GaussianConditional
from mfbo_torch.models.gp.conditioned import ConditionedModel

pytestmark = pytest.mark.filterwarnings("ignore")
KERNELS = {"matern52": lambda: ScaleKernel(MaternKernel(2.5)), "linear": lambda: ScaleKernel(LinearKernel())}
"""With a factor and without."""


def single(kernel: str = "matern52", known: bool = False) -> SingleTaskGP:
    X = draw(9, 2)
    Y = 3 + 2 * (4 * X).sin().sum(-1, keepdim=True)
    Yvar = 0.02 * (1 + torch.arange(9).double().unsqueeze(-1)) if known else None
    model = SingleTaskGP(
        X, Y, Yvar, covar_module=KERNELS[kernel](), input_transform=Normalize(2), outcome_transform=Standardize(1)
    )
    if not known:
        model.likelihood.noise = 0.02
    return model.to(X).eval()


def averages() -> DeconditionalGP:
    A = draw(6, 2, seed=3)
    return DeconditionalGP(A, (5 * A).sin().sum(-1, keepdim=True), GaussianConditional(0.1)).eval()


MODELS: dict[str, tuple[Callable[[], ConditionedModel], Tensor]] = {
    "cached": (lambda: CachedGP(single()), draw(5, 2, seed=2)),
    "per fidelity": (lambda: dense.hand_made((5, 4)), dense.points(2, 5, seed=7)),
    "averages": (averages, draw(5, 2, seed=2)),
}


def counted(monkeypatch: pytest.MonkeyPatch, model: ConditionedModel) -> list[int]:
    """The numbers of points by which its factors are extended from here on."""
    sizes, extended = [], type(model)._extended
    monkeypatch.setattr(type(model), "_extended", lambda self, f, X: sizes.append(len(X)) or extended(self, f, X))
    return sizes


def variance(model: ConditionedModel) -> Tensor:
    X = dense.points(2, 4, seed=1) if model.train_inputs[0].shape[-1] == 3 else draw(4, 2, seed=1)
    return model.posterior(X.unsqueeze(-2)).variance.reshape(-1).detach()


@pytest.mark.parametrize("name", MODELS)
def test_only_further_points_cost_anything(name, monkeypatch):
    make, pending = MODELS[name]
    model = make()
    sizes = counted(monkeypatch, model)
    two = model.hallucinate(pending[:2])
    assert sizes == []
    variance(two)
    three = model.hallucinate(pending[:3], two)
    variance(three)
    five = three.hallucinate(pending[3:])
    found = variance(five)
    variance(five)
    assert sizes == [2, 1, 2]
    assert torch.allclose(found, variance(model.hallucinate(pending)), rtol=1e-9)
    other = model.hallucinate(pending.flip(0), five)
    assert torch.equal(variance(other), variance(model.hallucinate(pending.flip(0))))
    assert sizes == [2, 1, 2, 5, 5, 5]
    assert model.hallucinate(None, five) is model
    assert torch.allclose(variance(model.hallucinate(pending[:3], five)), variance(three), rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_factors_are_renewed(name):
    """A factor with pending points does not outlive that of the data."""
    make, pending = MODELS[name]
    model = make()
    hallucinated = model.hallucinate(pending[:2])
    before = variance(hallucinated)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    model.train().eval()
    assert torch.equal(variance(model.hallucinate(pending, hallucinated)), variance(model.hallucinate(pending)))
    assert not torch.allclose(variance(model.hallucinate(pending[:2])), before)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_copies(name, used, copied):
    make, pending = MODELS[name]
    for model in (make(), make().hallucinate(pending)):
        with torch.no_grad():
            if used:
                variance(model)
            clone = copied(model)
            assert torch.allclose(variance(clone), variance(model), rtol=1e-12)
        assert not {id(part) for part in clone.modules()} & {id(part) for part in model.modules()}


@pytest.mark.parametrize("name", MODELS)
def test_pending_points_are_copied(name):
    make, pending = MODELS[name]
    given = pending.clone().requires_grad_()
    model = make()
    hallucinated = model.hallucinate(given)
    with torch.no_grad():
        given.zero_()
    assert torch.equal(variance(hallucinated), variance(model.hallucinate(pending)))


@pytest.mark.parametrize("name", MODELS)
def test_wrong_points(name):
    make, pending = MODELS[name]
    model, width = make(), pending.shape[-1]
    for wrong in (pending[0], pending[:, :1], pending.unsqueeze(0)):
        with pytest.raises(BotorchTensorDimensionError, match=rf"X_pending of shape .*: must be n x {width}"):
            model.hallucinate(wrong)
    refused("X_pending: must be finite, found NaN", model.hallucinate, pending / 0, error=InputDataError)


def expected(model: SingleTaskGP, pending: Tensor, X: Tensor, noise: bool = False) -> tuple[Tensor, Tensor]:
    """The mean of the data, and the covariance of BoTorch's model with arbitrary values at the pending points."""
    model.posterior(X)
    known = {} if hasattr(model.likelihood, "raw_noise") else {"noise": model.likelihood.noise.mean().expand(4, 1)}
    conditioned = model.condition_on_observations(pending, 50 * draw(4, 1, seed=6), **known)
    covariance = conditioned.posterior(X).distribution.covariance_matrix
    if noise:
        free = (model.posterior(X, observation_noise=wish).variance.squeeze(-1) for wish in (True, False))
        covariance = covariance + torch.diag_embed(torch.sub(*free))
    return model.posterior(X).mean.squeeze(-1), covariance


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_joint_posterior(kernel, known, q):
    model, pending, X = single(kernel, known), draw(4, 2, seed=2), draw(5, q, 2, seed=1)
    cached = CachedGP(model).hallucinate(pending)
    assert (cached.cache is not None) == (kernel == "matern52")
    for noise in (False, True):
        mean, covariance = expected(model, pending, X, noise)
        found = cached.posterior(X, observation_noise=noise)
        assert torch.allclose(found.mean.squeeze(-1), mean, rtol=1e-9)
        assert torch.allclose(found.variance.squeeze(-1), covariance.diagonal(dim1=-2, dim2=-1), rtol=0, atol=1e-9)
        assert torch.allclose(found.distribution.covariance_matrix, covariance, rtol=0, atol=1e-9)
    transform = ScalarizedPosteriorTransform(torch.tensor([-2.0]).double(), offset=0.3)
    minimised = cached.posterior(X, posterior_transform=transform)
    assert torch.allclose(minimised.mean, 0.3 - 2 * cached.posterior(X).mean, rtol=1e-9)
    assert torch.allclose(minimised.variance, 4 * cached.posterior(X).variance, rtol=1e-9)
    with propagate_grads(True):
        asked = cached.posterior(X, output_indices=[0])
    assert torch.allclose(asked.variance, cached.posterior(X).variance, rtol=0, atol=1e-9)
    assert cached.posterior(X).rsample(torch.Size([3])).shape == (3, 5, q, 1)
    if kernel == "matern52":
        assert cached.explain() == "q = 1 posteriors come from the cache, and all others with points pending"


def test_pending_points_are_never_left_out_in_silence():
    pending, X = draw(4, 2, seed=2), draw(3, 1, 2, seed=1)
    cached = CachedGP(single()).hallucinate(pending)
    for wish in (lambda: cached(X.squeeze(-2)), lambda: cached.fantasize(X[0], SobolQMCNormalSampler(torch.Size([2])))):
        refused("must be called on the model without pending points", wish, error=UnsupportedError)
    refused("there is one output", cached.posterior, X, output_indices=[1], error=UnsupportedError)
    with pytest.raises(UnsupportedError, match="observation_noise = given variances: must be True or False"):
        cached.posterior(X, observation_noise=torch.full((3, 1, 1), 0.3, dtype=torch.double))
    logarithmic = CachedGP(SingleTaskGP(draw(5, 2), 1 + draw(5, 1), outcome_transform=Log()))
    refused(r"posterior = .*: must be Gaussian", logarithmic.hallucinate(pending).posterior, X, error=UnsupportedError)


def test_observations_come_with_points_pending():
    model, pending, X = single(), draw(4, 2, seed=2), draw(5, 1, 2, seed=1)
    A, Y = draw(2, 2, seed=8), draw(2, 1, seed=9)
    found = CachedGP(model).hallucinate(pending).condition_on_observations(A, Y).posterior(X)
    more = CachedGP(model).condition_on_observations(A, Y).hallucinate(pending).posterior(X)
    assert torch.allclose(found.mean, more.mean, rtol=1e-9)
    assert torch.allclose(found.variance, more.variance, rtol=1e-9)
