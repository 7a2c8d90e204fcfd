"""GP-BUCB's bound against BoTorch's conditioned models and 80-bit floats, and in BoTorch's optimisers."""

import copy
import math
import pickle

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ExpectationPosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms.input import Normalize, Warp
from botorch.models.transforms.outcome import Log, Standardize
from botorch.optim import (
    optimize_acqf,
    optimize_acqf_discrete,
    optimize_acqf_discrete_local_search,
    optimize_acqf_mixed,
)
from gaussian import draw, exact
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from refusals import refused
from tolerances import TOLERANCES

from mfbo_torch.acquisition import HallucinatedUpperConfidenceBound
from mfbo_torch.models import CachedGP, PerFidelityGP
from mfbo_torch.models.gp import cached as module

pytestmark = pytest.mark.filterwarnings("ignore")
DIM, BETA = 2, 1.75
EXACT = TOLERANCES[torch.double]
BOUNDS = torch.tensor([[0.0] * DIM, [1.0] * DIM], dtype=torch.double)
KERNELS = {
    "default": lambda: None,
    "matern52": lambda: ScaleKernel(MaternKernel(2.5, ard_num_dims=DIM)),
    "matern12": lambda: ScaleKernel(MaternKernel(0.5)),
    "linear": lambda: ScaleKernel(LinearKernel()),
    "sum": lambda: ScaleKernel(RBFKernel()) + ScaleKernel(MaternKernel(1.5)),
}
DATA = {
    "plain": {},
    "standardized": {"outcome_transform": lambda: Standardize(1)},
    "normalized": {"input_transform": lambda: Normalize(DIM), "outcome_transform": lambda: Standardize(1)},
    "warped": {"input_transform": lambda: Warp(DIM, indices=[0, 1])},
    "known noise": {"Yvar": 0.02},
}


def gp(kernel: str = "matern52", data: str = "standardized", n: int = 9, noise: float = 0.02) -> SingleTaskGP:
    settings = dict(DATA[data])
    Yvar = settings.pop("Yvar", None)
    made = {"outcome_transform": None, **{name: make() for name, make in settings.items()}}
    X = draw(n, DIM)
    Y = 3 + 2 * (4 * X).sin().sum(-1, keepdim=True)
    Yvar = None if Yvar is None else Yvar * (1 + torch.arange(n).double().unsqueeze(-1))
    likelihood = GaussianLikelihood(noise_constraint=GreaterThan(1e-12)) if Yvar is None else None
    model = SingleTaskGP(X, Y, Yvar, likelihood, covar_module=KERNELS[kernel](), **made).to(X)
    if Yvar is None:
        model.likelihood.noise = noise
    return model.eval()


def conditioned(model: SingleTaskGP, pending: torch.Tensor, seed: int = 0) -> SingleTaskGP:
    """The model with arbitrary values at the pending points, by BoTorch."""
    model.posterior(draw(1, DIM))
    values = 50 * draw(len(pending), 1, seed=seed)
    noise = {}
    if not hasattr(model.likelihood, "raw_noise"):
        noise = {"noise": model.likelihood.noise.mean() * torch.ones_like(values)}
    return model.condition_on_observations(pending, values, **noise)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("kernel", KERNELS)
def test_deviation_is_that_of_any_values_and_the_mean_of_none(kernel, data):
    model, pending, X = gp(kernel, data), draw(4, DIM, seed=2), draw(7, 1, DIM, seed=1)
    acquisition = HallucinatedUpperConfidenceBound(model, BETA, pending)
    assert (acquisition.cache is not None) == (kernel in ("default", "matern52", "matern12"))
    mean = CachedGP(model).posterior(X).mean.detach()
    with torch.no_grad():
        still = HallucinatedUpperConfidenceBound(model, 0.0, pending)(X)
        assert torch.equal(still, HallucinatedUpperConfidenceBound(model, 0.0)(X))
        assert torch.allclose(still, mean.reshape(-1), rtol=1e-13, atol=1e-13)
        for seed in (0, 1):
            reference = conditioned(model, pending, seed)
            expected = (mean + math.sqrt(BETA) * reference.posterior(X).variance.sqrt()).reshape(-1)
            # GPyTorch takes distances from inner products, which costs a kernel with a kink half of its digits
            assert torch.allclose(acquisition(X), expected, rtol=0, atol=1e-7 if kernel == "matern12" else EXACT)


@pytest.mark.parametrize("kind", ["rbf", "matern52"])
def test_in_long_double(kind):
    base = RBFKernel() if kind == "rbf" else MaternKernel(2.5)
    X, Y, pending, A = draw(12, DIM), draw(12, 1, seed=3), draw(5, DIM, seed=2), draw(30, DIM, seed=1)
    model = SingleTaskGP(X, Y, covar_module=ScaleKernel(base), outcome_transform=None).to(X).eval()
    base.lengthscale, model.covar_module.outputscale, model.likelihood.noise = 0.4, 1.3, 1e-3
    model.mean_module.constant.data.fill_(0.2)
    parts = (base.lengthscale, model.covar_module.outputscale, model.likelihood.noise, model.mean_module.constant)
    settings = [part.item() for part in parts]
    mean, _ = exact(kind, X, Y.squeeze(-1), A, *settings)
    _, variance = exact(kind, torch.cat([X, pending]), torch.zeros(17), A, *settings)
    found = HallucinatedUpperConfidenceBound(model, BETA, pending)(A.unsqueeze(1)).detach().numpy()
    assert abs(found - (mean + math.sqrt(BETA) * variance**0.5)).max() <= EXACT


@pytest.mark.parametrize("m", [1, 5, 64, 9001])
@pytest.mark.parametrize("n", [1, 3, 33, 260])
def test_the_mean_is_the_same_to_the_last_bit(n, m):
    model, X = gp(n=n), draw(m, 1, DIM, seed=1)
    free, out = (HallucinatedUpperConfidenceBound(model, 0.0, p) for p in (None, draw(3, DIM, seed=2)))
    with torch.no_grad():
        assert torch.equal(free(X), out(X))
        assert torch.allclose(free(X), CachedGP(model).posterior(X).mean.reshape(-1), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kernel", ["matern52", "linear"])
def test_without_pending_points_it_is_the_upper_confidence_bound(kernel):
    model, X = gp(kernel), draw(3, 4, 1, DIM, seed=1)
    for none in (None, draw(0, DIM)):
        found = HallucinatedUpperConfidenceBound(model, BETA, none)(X)
        assert found.shape == (3, 4)
        assert torch.allclose(found, UpperConfidenceBound(model, BETA)(X), rtol=0, atol=EXACT)


@pytest.mark.parametrize("data", ["plain", "known noise", "normalized"])
@pytest.mark.parametrize("kernel", ["matern52", "linear"])
def test_several_points_have_their_bounds_in_turn(kernel, data):
    model, pending, X = gp(kernel, data), draw(2, DIM, seed=2), draw(6, 3, DIM, seed=1)
    with torch.no_grad():
        for batch, value in zip(X, HallucinatedUpperConfidenceBound(model, BETA, pending)(X), strict=True):
            terms = [
                HallucinatedUpperConfidenceBound(model, BETA, torch.cat([pending, batch[:j]]))(batch[j : j + 1])
                for j in range(3)
            ]
            assert value.item() == pytest.approx(sum(terms).item(), rel=EXACT)


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("data", ["normalized", "warped", "known noise"])
@pytest.mark.parametrize("kernel", ["matern52", "linear"])
def test_gradients(kernel, data, q):
    acquisition = HallucinatedUpperConfidenceBound(gp(kernel, data), BETA, draw(3, DIM, seed=2))
    assert torch.autograd.gradcheck(acquisition, draw(4, q, DIM, seed=1).requires_grad_())


def test_gradient_where_nothing_is_uncertain():
    model = gp(data="known noise")
    model.likelihood.noise_covar.noise = torch.full((9,), 1e-14, dtype=torch.double)
    X = draw(9, DIM).unsqueeze(1).requires_grad_()
    (gradient,) = torch.autograd.grad(HallucinatedUpperConfidenceBound(model.train().eval(), BETA)(X).sum(), X)
    assert gradient.isfinite().all()


def test_minimising():
    model, pending, X = gp(), draw(3, DIM, seed=2), draw(5, 1, DIM, seed=1)
    transform = ScalarizedPosteriorTransform(torch.tensor([-2.0]).double(), offset=0.3)
    found = HallucinatedUpperConfidenceBound(model, BETA, pending, posterior_transform=transform)(X)
    mean, bound = (HallucinatedUpperConfidenceBound(model, b, pending)(X) for b in (0.0, BETA))
    assert torch.allclose(found, 0.3 - 2 * mean + 2 * (bound - mean), rtol=EXACT)


def test_only_new_points_cost_an_extension(monkeypatch):
    acquisition, X = HallucinatedUpperConfidenceBound(gp(), BETA), draw(4, 1, DIM, seed=1)
    base, pending, sizes, extend = acquisition(X), draw(5, DIM, seed=2), [], module.extend
    monkeypatch.setattr(module, "extend", lambda cache, X, mask: sizes.append(len(X)) or extend(cache, X, mask))
    values = []
    for p in (2, 3, 5):
        acquisition.set_X_pending(pending[:p])
        values.append(acquisition(X))
        acquisition(X)
    assert sizes == [2, 1, 2]
    acquisition.set_X_pending(pending[:3].clone())
    assert torch.equal(acquisition(X), values[1])
    acquisition.set_X_pending(None)
    assert torch.equal(acquisition(X), base)
    assert sizes == [2, 1, 2]


def test_follows_its_model():
    model, pending, X = gp(), draw(3, DIM, seed=2), draw(4, 1, DIM, seed=1)
    acquisition = HallucinatedUpperConfidenceBound(model, BETA, pending)
    before = acquisition(X)
    with torch.no_grad():
        model.covar_module.base_kernel.raw_lengthscale.add_(0.5)
    after = acquisition(X)
    assert not torch.allclose(before, after)
    assert torch.equal(after, HallucinatedUpperConfidenceBound(model, BETA, pending)(X))
    for other in (copy.deepcopy(acquisition), pickle.loads(pickle.dumps(acquisition))):
        assert torch.allclose(other(X), after, rtol=1e-14)


@pytest.mark.parametrize("noise", [1e-8, 1e-4])
@pytest.mark.parametrize("kernel", ["matern52", "default", "linear"])
def test_hard_pending_points(kernel, noise):
    """On a training point, on each other, a hundred times: finite deviations that are not negative."""
    model = gp(kernel, "plain" if kernel == "linear" else "standardized", noise=noise)
    assert model.likelihood.noise.item() == pytest.approx(noise)
    train = model.train_inputs[0]
    X = torch.cat([train, draw(20, DIM, seed=1)]).unsqueeze(1)
    hundred = draw(1, DIM, seed=2).expand(100, DIM)
    free = HallucinatedUpperConfidenceBound(model, 1.0)(X) - HallucinatedUpperConfidenceBound(model, 0.0)(X)
    for pending in (train[:1], hundred, torch.cat([train, train, hundred])):
        values = HallucinatedUpperConfidenceBound(model, 1.0, pending)(torch.cat([X, hundred[:1, None]]))
        deviation = values - HallucinatedUpperConfidenceBound(model, 0.0, pending)(torch.cat([X, hundred[:1, None]]))
        assert deviation.isfinite().all()
        assert (deviation >= 0).all()
        assert (deviation[:-1] <= free + 1e-6).all()


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_precision(dtype):
    model, pending, X = gp(), draw(3, DIM, seed=2), draw(5, 1, DIM, seed=1)
    expected = HallucinatedUpperConfidenceBound(model, BETA, pending)(X)
    found = HallucinatedUpperConfidenceBound(copy.deepcopy(model).to(dtype), BETA, pending.to(dtype))(X.to(dtype))
    assert found.dtype == dtype
    assert torch.allclose(found.double(), expected, rtol=0, atol=10 * TOLERANCES[dtype])


def assert_greedy(acquisition, chosen: torch.Tensor, grid: torch.Tensor, base: torch.Tensor | None) -> None:
    """Each choice is the best of a grid given those before it, and nothing has stayed behind."""
    for j in range(len(chosen)):
        pending = chosen[:j] if base is None else torch.cat([base, chosen[:j]])
        given = HallucinatedUpperConfidenceBound(acquisition.model, BETA, pending)
        with torch.no_grad():
            assert given(chosen[j : j + 1]).item() >= given(grid.unsqueeze(1)).max().item() - 1e-6
    assert (base is None) == (acquisition.X_pending is None)
    assert base is None or torch.equal(acquisition.X_pending, base)


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
@pytest.mark.parametrize("kernel", ["matern52", "linear"])
def test_sequential(kernel, out):
    base = draw(2, DIM, seed=2) if out else None
    acquisition, grid = HallucinatedUpperConfidenceBound(gp(kernel), BETA, base), draw(300, DIM, seed=1)
    before = acquisition(grid.unsqueeze(1))
    options = {"num_restarts": 4, "raw_samples": 64, "options": {"seed": 0}}
    X, values = optimize_acqf(acquisition, BOUNDS, 3, sequential=True, **options)
    assert X.shape == (3, DIM)
    assert_greedy(acquisition, X, grid, base)
    assert values.sum().item() == pytest.approx(acquisition(X).item(), rel=EXACT)
    assert torch.equal(acquisition(grid.unsqueeze(1)), before)


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
def test_mixed(out):
    base = draw(2, DIM, seed=2) if out else None
    acquisition, fixed = HallucinatedUpperConfidenceBound(gp(), BETA, base), [{0: 0.25}, {0: 0.75}]
    options = {"num_restarts": 2, "raw_samples": 32, "options": {"seed": 0}}
    X, value = optimize_acqf_mixed(acquisition, BOUNDS, 3, fixed_features_list=fixed, **options)
    lines = [torch.stack([torch.full((50,), line[0]), torch.linspace(0, 1, 50)], -1) for line in fixed]
    assert_greedy(acquisition, X, torch.cat(lines).double(), base)
    assert value.item() == pytest.approx(acquisition(X).item(), rel=EXACT)


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
@pytest.mark.parametrize("kernel", ["matern52", "linear"])
def test_discrete(kernel, out):
    base = draw(2, DIM, seed=2) if out else None
    acquisition, grid = HallucinatedUpperConfidenceBound(gp(kernel), BETA, base), draw(60, DIM, seed=1)
    X, _ = optimize_acqf_discrete(acquisition, 4, grid, unique=False)
    assert_greedy(acquisition, X, grid, base)


def test_local_search():
    acquisition = HallucinatedUpperConfidenceBound(gp(), BETA, draw(2, DIM, seed=2))
    base, levels = acquisition.X_pending, [torch.linspace(0, 1, 9).double()] * DIM
    X, _ = optimize_acqf_discrete_local_search(acquisition, levels, q=3, num_restarts=5, raw_samples=40, unique=False)
    assert_greedy(acquisition, X, torch.cartesian_prod(*levels), base)


def test_input_constructor():
    model, pending = gp(), draw(3, DIM, seed=2)
    construct = get_acqf_input_constructor(HallucinatedUpperConfidenceBound)
    transform = ScalarizedPosteriorTransform(torch.tensor([-1.0]).double())
    unused = {"training_data": {}, "bounds": [(0.0, 1.0)] * DIM, "objective": None, "target_fidelities": {1: 1.0}}
    inputs = construct(model=model, beta=BETA, X_pending=pending, posterior_transform=transform, **unused)
    acquisition = HallucinatedUpperConfidenceBound(**inputs)
    assert (acquisition.beta, acquisition.weight) == (BETA, -1.0)
    assert torch.equal(acquisition.X_pending, pending)
    plain = HallucinatedUpperConfidenceBound(**construct(model=model))
    assert (plain.beta, plain.weight, plain.X_pending) == (0.2, 1.0, None)


def test_bad_widths_and_points():
    for beta in (-0.1, math.nan, math.inf):
        refused(r"beta = .*: must be a number from 0 on", HallucinatedUpperConfidenceBound, gp(), beta)
    acquisition = HallucinatedUpperConfidenceBound(gp(), BETA, draw(1, DIM))
    for wrong in (draw(3, 1), draw(3, 4), draw(2), draw(1, 2, DIM)):
        with pytest.raises(BotorchTensorDimensionError, match=r"X_pending of shape .*: must be n x 2"):
            acquisition.set_X_pending(wrong)
        with pytest.raises(BotorchTensorDimensionError, match="X_pending of shape"):
            HallucinatedUpperConfidenceBound(gp(), BETA, wrong)
    with pytest.raises(InputDataError, match="X_pending: must be finite, found NaN"):
        acquisition.set_X_pending(torch.tensor([[0.5, math.nan]]).double())
    assert torch.equal(acquisition.X_pending, draw(1, DIM))
    refused("the last axis must be d = 2", acquisition, draw(3, 1, 1), error=BotorchTensorDimensionError)


def test_bad_models():
    X, Y = draw(5, DIM), draw(5, 2, seed=1)
    one = SingleTaskGP(X, Y[:, :1])
    fidelities = PerFidelityGP(torch.cat([X, torch.zeros(5, 1)], -1).double(), Y[:, :1], 1)
    for model in (SingleTaskGP(X, Y), ModelListGP(one, one), fidelities):
        refused(r"model = .*: must", HallucinatedUpperConfidenceBound, model, BETA, error=UnsupportedError)
    logarithmic = SingleTaskGP(X, Y[:, :1], outcome_transform=Log())
    with pytest.raises(UnsupportedError, match=r"posterior = .*: must be Gaussian"):
        HallucinatedUpperConfidenceBound(logarithmic, BETA)(X.unsqueeze(1))
    for transform in (ScalarizedPosteriorTransform(torch.ones(2).double()), ExpectationPosteriorTransform(n_w=2)):
        with pytest.raises(UnsupportedError, match=r"posterior_transform = .*: must be"):
            HallucinatedUpperConfidenceBound(one, BETA, posterior_transform=transform)
