"""CachedGP says what the wrapped model says, and says when it asks it."""

import copy
import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from botorch import acquisition
from botorch.acquisition.analytic import (
    LogProbabilityOfImprovement,
    PosteriorStandardDeviation,
    qAnalyticProbabilityOfImprovement,
)
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.acquisition.proximal import ProximalAcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP, SingleTaskVariationalGP
from botorch.models.transforms.input import ChainedInputTransform, FilterFeatures, InputPerturbation, Normalize, Warp
from botorch.models.transforms.outcome import Log, Standardize
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling import SobolQMCNormalSampler
from botorch.settings import propagate_grads
from gpytorch.kernels import LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import LinearMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from refusals import refused

from mfbo_torch import CachedGP, HallucinatedUpperConfidenceBound, greedy_hallucinated_ucb
from mfbo_torch.models.gp import exact
from mfbo_torch.models.gp.hyperparameters import MOST_BYTES, Hyperparameters

pytestmark = pytest.mark.filterwarnings("ignore")
DIM = 3
KERNELS = {
    "default": lambda: None,
    "rbf": lambda: RBFKernel(),
    "matern12": lambda: ScaleKernel(MaternKernel(0.5, ard_num_dims=DIM)),
    "matern32": lambda: MaternKernel(1.5, ard_num_dims=DIM),
    "matern52": lambda: ScaleKernel(MaternKernel(2.5)),
}
INPUTS = {
    "none": lambda: None,
    "unit": lambda: Normalize(DIM, bounds=torch.tensor([[0.0] * DIM, [3.0] * DIM])),
    "learnt": lambda: Normalize(DIM),
    "far": lambda: Normalize(DIM, bounds=torch.tensor([[-50.0] * DIM, [-49.0] * DIM])),
    "some": lambda: Normalize(DIM, indices=[0, 2]),
    "warped": lambda: ChainedInputTransform(one=Normalize(DIM), two=Warp(DIM, indices=list(range(DIM)))),
}
OUTCOMES = {"none": lambda: None, "standardized": lambda: Standardize(1)}
NOISES = {"inferred": None, "known": 0.01}


def data(n: int = 11, seed: int = 0, low: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    X = low + 3 * torch.rand(n, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return X, 40 + 7 * (2 * X).sin().sum(-1, keepdim=True)


def gp(kernel="default", inputs="none", outcomes="standardized", noise="inferred", n=11, **settings) -> SingleTaskGP:
    X, Y = data(n, low=-50.0 if inputs == "far" else 0.0)
    Yvar = None if NOISES[noise] is None else NOISES[noise] * (1 + torch.arange(n).double().unsqueeze(-1))
    settings = {"covar_module": KERNELS[kernel](), "input_transform": INPUTS[inputs](), **settings}
    return SingleTaskGP(X, Y, Yvar, outcome_transform=OUTCOMES[outcomes](), **settings).to(X)


def ask(model: SingleTaskGP, *shape: int) -> torch.Tensor:
    """Points between and at those of the model."""
    X, _ = data(max(1, int(torch.Size(shape).numel())), seed=5)
    model.eval()
    own = model._original_train_inputs if model._has_transformed_inputs else model.train_inputs[0]
    X = X + own.min() if own.min() < -10 else X
    return torch.cat([X, own.reshape(-1, DIM)[:1]])[: len(X)].reshape(*shape, 1, DIM)


def assert_same(model: SingleTaskGP, cached: CachedGP, X: torch.Tensor, tolerance: float = 1e-9) -> None:
    """Mean, variance and their gradients."""
    X = X.clone().requires_grad_()
    theirs, ours = model.posterior(X), cached.posterior(X)
    assert ours.mean.shape == theirs.mean.shape
    assert ours.variance.shape == theirs.variance.shape
    scale = max(1.0, float(theirs.mean.detach().abs().max()))
    for a, b, unit in ((ours.mean, theirs.mean, scale), (ours.variance, theirs.variance, scale**2)):
        assert (a - b).abs().max() <= tolerance * unit
        (da,) = torch.autograd.grad(a.sum(), X, retain_graph=True)
        (db,) = torch.autograd.grad(b.sum(), X, retain_graph=True)
        assert (da - db).abs().max() <= 100 * tolerance * unit


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("outcomes", OUTCOMES)
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_same_posterior(kernel, inputs, outcomes, noise):
    model = gp(kernel, inputs, outcomes, noise)
    cached = CachedGP(model)
    assert cached.explain().startswith("q = 1 posteriors come from the cache")
    # GPyTorch takes distances from inner products, which costs the kernel with a kink half of its digits
    tolerance = 1e-7 if kernel == "matern12" else 1e-9
    for shape in ((4,), (2, 3), ()):
        assert_same(model, cached, ask(model, *shape), tolerance)


@pytest.mark.parametrize("n", [1, 2, 300])
def test_other_sizes(n):
    model = gp(n=n, outcomes="none")
    assert_same(model, CachedGP(model), ask(model, 4))


def test_variances_have_gpytorchs_floor():
    model = gp(noise="known", outcomes="none")
    model.likelihood.noise_covar.noise = torch.full((11,), 1e-12, dtype=torch.double)
    model.likelihood.noise_covar.register_constraint = None
    X = model.train_inputs[0].unsqueeze(1)
    model.eval()
    ours, theirs = CachedGP(model).posterior(X).variance, model.posterior(X).variance
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-9)
    assert ours.min() >= 1e-10


ACQUISITIONS = {
    "ucb": lambda model: acquisition.UpperConfidenceBound(model, 2.0),
    "lower": lambda model: acquisition.UpperConfidenceBound(model, 2.0, maximize=False),
    "ei": lambda model: acquisition.ExpectedImprovement(model, 45.0),
    "log_ei": lambda model: acquisition.LogExpectedImprovement(model, 45.0),
    "pi": lambda model: acquisition.ProbabilityOfImprovement(model, 45.0),
    "log_pi": lambda model: LogProbabilityOfImprovement(model, 45.0),
    "mean": lambda model: acquisition.PosteriorMean(model),
    "deviation": lambda model: PosteriorStandardDeviation(model),
    "q_pi": lambda model: qAnalyticProbabilityOfImprovement(model, 45.0),
    "minimised": lambda model: acquisition.LogExpectedImprovement(
        model, -45.0, posterior_transform=ScalarizedPosteriorTransform(torch.tensor([-1.0]).double())
    ),
    "q_log_ei": lambda model: acquisition.qLogExpectedImprovement(
        model, 45.0, sampler=SobolQMCNormalSampler(torch.Size([16]), seed=0)
    ),
}


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_acquisitions_are_the_same(name):
    model = gp("matern52", "learnt")
    X = ask(model, 9).requires_grad_()
    found, expected = (ACQUISITIONS[name](either) for either in (CachedGP(model), model))
    a, b = found(X), expected(X)
    assert torch.allclose(a, b, rtol=1e-8, atol=1e-9)
    (da,), (db,) = torch.autograd.grad(a.sum(), X), torch.autograd.grad(b.sum(), X, retain_graph=True)
    assert torch.allclose(da, db, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["ucb", "ei", "log_ei", "pi"])
def test_optimizing_is_the_same(name):
    model = gp("matern52", "learnt")
    bounds = torch.tensor([[0.0] * DIM, [3.0] * DIM], dtype=torch.double)
    settings = {"q": 1, "num_restarts": 4, "raw_samples": 32, "options": {"seed": 0}}
    torch.manual_seed(0)  # the starting points are drawn from the raw samples
    x, value = optimize_acqf(ACQUISITIONS[name](CachedGP(model)), bounds, **settings)
    torch.manual_seed(0)
    y, expected = optimize_acqf(ACQUISITIONS[name](model), bounds, **settings)
    assert torch.allclose(x, y, rtol=0, atol=1e-4)
    assert torch.allclose(value, expected, rtol=1e-7, atol=1e-9)


class Other(GaussianLikelihood):
    """A likelihood that only looks like one that is known."""


class WarpedRBF(RBFKernel):
    def forward(self, x1, x2, **params):
        return super().forward(x1**3, x2**3, **params)


class Doubled(ScaleKernel):
    def forward(self, x1, x2, **params):
        return 2 * super().forward(x1, x2, **params)


class Tilted(SingleTaskGP):
    def forward(self, x):
        prior = super().forward(x)
        return type(prior)(prior.mean + x[..., 0], prior.lazy_covariance_matrix)


class Widened(SingleTaskGP):
    def posterior(self, X, *args, **kwargs):
        return super().posterior(2 * X, *args, **kwargs)


UNSUPPORTED = {
    "kernel = WarpedRBF": lambda X, Y: SingleTaskGP(X, Y, covar_module=WarpedRBF()),
    "kernel = Doubled": lambda X, Y: SingleTaskGP(X, Y, covar_module=Doubled(RBFKernel())),
    "forward of Tilted: must be that of SingleTaskGP": Tilted,
    "posterior of Widened: must be that of SingleTaskGP": Widened,
    "training data: must not require a gradient": lambda X, Y: SingleTaskGP(X.requires_grad_(), Y),
    "kernel = LinearKernel": lambda X, Y: SingleTaskGP(X, Y, covar_module=LinearKernel()),
    "active_dims": lambda X, Y: SingleTaskGP(X, Y, covar_module=RBFKernel(active_dims=(0,))),
    "mean = LinearMean": lambda X, Y: SingleTaskGP(X, Y, mean_module=LinearMean(DIM)),
    "likelihood = Other": lambda X, Y: SingleTaskGP(X, Y, likelihood=Other()),
    "outcome_transform = Log": lambda X, Y: SingleTaskGP(X, Y, outcome_transform=Log()),
    "batch_shape": lambda X, Y: SingleTaskGP(X.expand(2, *X.shape), Y.expand(2, *Y.shape)),
    "input_transform = InputPerturbation": lambda X, Y: SingleTaskGP(
        X, Y, input_transform=InputPerturbation(torch.zeros(2, DIM).double())
    ),
}


@pytest.mark.parametrize("named", UNSUPPORTED)
def test_unsupported_parts_are_named_and_passed_on(named):
    model = UNSUPPORTED[named](*data()).double().eval()
    cached = CachedGP(model)
    assert cached.explain().startswith(f"everything goes through {type(model).__name__}: {named}")
    assert cached.cache is None
    X = ask(model, 2)
    assert torch.equal(cached.posterior(X).mean, model.posterior(X).mean)
    assert torch.equal(cached.posterior(X).variance, model.posterior(X).variance)


def test_models_that_cannot_be_wrapped():
    X, Y = data()
    with pytest.raises(UnsupportedError, match="model = SingleTaskGP with 2 outputs: must have a single one"):
        CachedGP(SingleTaskGP(X, Y.expand(-1, 2)))
    with pytest.raises(UnsupportedError, match="model = SingleTaskVariationalGP: must be an exact GP of BoTorch"):
        CachedGP(SingleTaskVariationalGP(X, Y))
    refused("model = ModelListGP: must be an exact GP of BoTorch", CachedGP, ModelListGP(gp()), error=UnsupportedError)


def test_everything_else_goes_through_the_model():
    model = gp()
    cached, X = CachedGP(model), ask(model, 4)
    pairs = X.reshape(2, 2, DIM)
    assert torch.equal(cached.posterior(pairs).mean, model.posterior(pairs).mean)
    noisy = cached.posterior(X, observation_noise=True).variance
    assert torch.equal(noisy, model.posterior(X, observation_noise=True).variance)
    assert torch.equal(cached.posterior(X, output_indices=[0]).mean, model.posterior(X, output_indices=[0]).mean)
    doubled = {"posterior_transform": ScalarizedPosteriorTransform(torch.tensor([2.0]).double())}
    assert torch.equal(cached.posterior(X, **doubled).mean, model.posterior(X, **doubled).mean)
    with propagate_grads(True):
        assert type(cached.posterior(X)) is GPyTorchPosterior
    assert "q > 1, posterior transforms and observation noise go through SingleTaskGP" in cached.explain()
    assert "come from the cache by torch (the tensor is on cpu)" in cached.explain()


def test_the_light_posterior_is_a_whole_one():
    model = gp()
    X = ask(model, 4)
    light, whole = CachedGP(model).posterior(X), model.posterior(X)
    assert isinstance(light, GPyTorchPosterior)
    assert (light.device, light.dtype) == (whole.device, whole.dtype)
    assert light.batch_range == whole.batch_range
    assert light.base_sample_shape == whole.base_sample_shape
    assert light._extended_shape() == whole._extended_shape()
    base = torch.randn(5, 4, 1, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    draws = [part.rsample_from_base_samples(torch.Size([5]), base) for part in (light, whole)]
    assert torch.allclose(*draws, rtol=1e-9)
    value = torch.tensor(0.9).double()
    assert torch.allclose(light.quantile(value), whole.quantile(value), rtol=1e-9)
    assert light.rsample(torch.Size([3])).shape == (3, 4, 1, 1)


def test_follows_the_model():
    """Fitting, new data, new parameters and a state dict are seen."""
    model = gp("matern52", "learnt")
    cached, X = CachedGP(model), ask(model, 4)
    before = cached.posterior(X).mean
    assert cached.cache is cached.cache
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), optimizer_kwargs={"options": {"maxiter": 5}})
    assert not torch.allclose(cached.posterior(X).mean, before)
    assert_same(model, cached, X)
    with torch.no_grad():
        model.mean_module.raw_constant.add_(0.5)
    model.train()
    assert_same(model.eval(), cached, X)
    state = copy.deepcopy(model.state_dict())
    other = gp("matern52", "learnt")
    follower = CachedGP(other)
    follower.posterior(X)
    other.load_state_dict(state)
    assert_same(other, follower, X)
    new_X, new_Y = data(6, seed=9)
    model = gp(outcomes="none")
    cached = CachedGP(model)
    cached.posterior(X)
    model.set_train_data(new_X, new_Y.squeeze(-1), strict=False)
    assert_same(model, cached, X)
    with torch.no_grad():
        model.covar_module.raw_lengthscale.mul_(2.0)
    model.prediction_strategy = None
    assert_same(model, cached, X)


def set_lengthscale(model: SingleTaskGP) -> None:
    model.covar_module.lengthscale = 0.7


def set_noise(model: SingleTaskGP) -> None:
    model.likelihood.noise = torch.full_like(model.likelihood.noise.detach(), 0.3)


def set_constant(model: SingleTaskGP) -> None:
    model.initialize(**{"mean_module.constant": 0.4})


def write_past_the_count(model: SingleTaskGP) -> None:
    model.covar_module.raw_lengthscale.data.mul_(3.0)


def write_in_place(model: SingleTaskGP) -> None:
    with torch.no_grad():
        model.covar_module.raw_lengthscale.mul_(3.0)


def swap_data(model: SingleTaskGP) -> None:
    model.covar_module.raw_lengthscale.data = 3.0 * model.covar_module.raw_lengthscale.data


CHANGES = [set_lengthscale, set_noise, set_constant, write_past_the_count, write_in_place, swap_data]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("change", CHANGES)
def test_follows_hyper_parameters_assigned_in_evaluation_mode(change, noise, factorized):
    """With one point, several, and points pending, and in an acquisition function."""
    model = gp(noise=noise)
    cached, X = CachedGP(model), ask(model, 4)
    pairs, pending, bound = X.reshape(2, 2, DIM), cached.hallucinate(X[0]), HallucinatedUpperConfidenceBound(model, 2.0)
    before = [cached.posterior(X).mean, pending.posterior(X).variance, bound(X), cached.posterior(pairs).mean]
    assert factorized == [11]
    change(model)
    fresh = copy.deepcopy(model).train().eval()
    found, expected = cached.posterior(pairs), fresh.posterior(pairs)
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.variance, expected.variance)
    assert_same(fresh, cached, X)
    after = [cached.posterior(X).mean, pending.posterior(X).variance, bound(X), cached.posterior(pairs).mean]
    anew = CachedGP(copy.deepcopy(model).train()), HallucinatedUpperConfidenceBound(fresh, 2.0)
    expected = [anew[0].posterior(X).mean, anew[0].hallucinate(X[0]).posterior(X).variance, anew[1](X)]
    assert factorized == [11, 11, 11, 11]
    for i, value in enumerate(expected):
        assert torch.equal(after[i], value)
    assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True) if change is not set_constant)


def test_changes_of_a_network_are_counted():
    """Its weights are too many to be compared at every posterior."""
    layer = torch.nn.Linear(200, 200)
    assert layer.weight.nbytes > MOST_BYTES
    seen = Hyperparameters(layer)
    assert seen.unchanged()
    with torch.no_grad():
        layer.weight.mul_(1.0)
    assert not seen.unchanged()


@pytest.fixture
def factorized(monkeypatch) -> list[int]:
    """The sizes of the factors that are made from here on."""
    sizes, factorize = [], exact.factorize
    monkeypatch.setattr(
        exact, "factorize", lambda kernel, X, *rest: sizes.append(len(X)) or factorize(kernel, X, *rest)
    )
    return sizes


def test_all_that_wrap_a_model_share_its_factor(factorized):
    model = gp("matern52", "learnt")
    X = ask(model, 4)
    one, two = CachedGP(model), CachedGP(model)
    bound = HallucinatedUpperConfidenceBound(model, 2.0, X_pending=X[0])
    for _ in range(3):
        one.posterior(X)
        two.posterior(X)
        bound(X)
        HallucinatedUpperConfidenceBound(model, 2.0)(X)
        greedy_hallucinated_ucb(model, X.squeeze(-2), 2.0, 2)
    assert factorized == [11]
    assert one.cache is two.cache
    with torch.no_grad():
        model.covar_module.base_kernel.raw_lengthscale.add_(0.5)
    assert torch.equal(one.posterior(X).mean, two.posterior(X).mean)
    assert factorized == [11, 11]
    two.train()
    two.eval()
    assert torch.equal(one.posterior(X).mean, two.posterior(X).mean)
    assert factorized == [11, 11, 11]


def test_a_factor_belongs_to_one_model_and_goes_with_it(factorized):
    model = gp("matern52", "learnt")
    X = ask(model, 4)
    with torch.no_grad():
        CachedGP(model).posterior(X)
        CachedGP(copy.deepcopy(model)).posterior(X)
        assert factorized == [11, 11]
        CachedGP(model).posterior(X)
        assert factorized == [11, 11]
    assert not any("exact" in name for name in vars(model))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_moving():
    model = gp()
    cached, X = CachedGP(model), ask(model, 4)
    cached.posterior(X)
    assert cached.to(X) is cached
    kept = cached.cache
    acquisition.UpperConfidenceBound(cached, 2.0)(X)
    assert cached.cache is kept
    exact = cached.posterior(X).mean
    single = copy.deepcopy(cached).float()
    assert single.posterior(X.float()).mean.dtype == torch.float32
    assert single.cache.inverse.dtype == torch.float32
    assert torch.allclose(single.posterior(X.float()).mean.double(), exact, rtol=1e-3)


def test_the_rest_of_a_model():
    model = gp(outcomes="none").eval()
    cached = CachedGP(model)
    X, Y = data(2, seed=7)
    conditioned = cached.condition_on_observations(X, Y)
    assert isinstance(conditioned, CachedGP)
    A = ask(model, 4)
    expected = model.condition_on_observations(X, Y).posterior(A).mean
    assert torch.allclose(conditioned.posterior(A).mean, expected, rtol=1e-8)
    assert cached.fantasize(X, SobolQMCNormalSampler(torch.Size([3]), seed=0)).batch_shape == (3,)
    assert cached.subset_output([0]) is cached
    refused("there is one output", cached.subset_output, [1], error=UnsupportedError)
    assert (cached.num_outputs, cached.batch_shape) == (1, torch.Size([]))
    assert cached.train_inputs[0] is model.train_inputs[0]
    assert cached.train_targets is model.train_targets
    assert cached.likelihood is model.likelihood
    assert not cached.train().eval().training


def test_inputs_are_found_in_the_users_units():
    model = gp(inputs="learnt")
    cached = CachedGP(model)
    cached.posterior(ask(model, 1))
    assert cached.input_transform is model.input_transform
    assert cached.outcome_transform is model.outcome_transform
    plain = CachedGP(gp(outcomes="none"))
    assert not hasattr(plain, "input_transform")
    assert not hasattr(plain, "outcome_transform")
    X = ask(model, 4)
    weights = torch.ones(DIM, dtype=torch.double)
    found, expected = (
        ProximalAcquisitionFunction(acquisition.UpperConfidenceBound(either, 2.0), weights)(X)
        for either in (cached, model)
    )
    assert torch.allclose(found, expected, rtol=1e-8)
    first = ask(model, 2).squeeze(-2)
    assert torch.allclose(cached(first).mean, model(first).mean)


def test_transforms_that_leave_inputs_out():
    X, Y = data()
    model = SingleTaskGP(X, Y, input_transform=FilterFeatures(torch.tensor([0, 1]))).eval()
    cached, choices = CachedGP(model), ask(model, 20).squeeze(-2)
    assert_same(model, cached, ask(model, 4))
    assert cached.dim == DIM
    assert len(greedy_hallucinated_ucb(model, choices, 2.0, 3).indices) == 3
    assert HallucinatedUpperConfidenceBound(model, 2.0, X_pending=choices[:1])(choices.unsqueeze(-2)).shape == (20,)


def test_another_width_is_refused():
    cached = CachedGP(gp())
    with pytest.raises(BotorchTensorDimensionError, match=r"X of shape \(4, 1, 1\): the last axis must be d = 3"):
        cached.posterior(torch.rand(4, 1, 1, dtype=torch.double))


def test_threads_share_a_model():
    """Whoever asks first makes the factor; the others wait for it."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for seed in range(10):
                model = gp("matern52", "learnt", n=30)
                X = ask(model, 3)
                expected = copy.deepcopy(model).eval().posterior(X).mean
                cached = CachedGP(model)
                together = Barrier(8)

                def answer(_, cached=cached, together=together, X=X):
                    together.wait()
                    return cached.posterior(X).mean

                for found in pool.map(answer, range(8)):
                    assert torch.allclose(found, expected, rtol=1e-8), seed
    finally:
        sys.setswitchinterval(interval)
