"""Batches from a finite set, against BoTorch's own discrete optimiser and its conditioned models."""

import math

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize, Warp
from botorch.models.transforms.outcome import Standardize
from botorch.optim import optimize_acqf_discrete
from gaussian import draw
from gpytorch.kernels import LinearKernel, MaternKernel, ScaleKernel
from refusals import refused

from mfbo_torch.acquisition import HallucinatedUpperConfidenceBound, greedy_hallucinated_ucb
from mfbo_torch.acquisition import greedy as module
from mfbo_torch.models import CachedGP
from mfbo_torch.utils.errors import SettingError

pytestmark = pytest.mark.filterwarnings("ignore")
DIM, BETA = 2, 2.0
KERNELS = {"matern52": lambda: ScaleKernel(MaternKernel(2.5)), "linear": lambda: ScaleKernel(LinearKernel())}


def gp(kernel: str = "matern52", n: int = 9, **settings) -> SingleTaskGP:
    X = draw(n, DIM)
    settings = {"outcome_transform": Standardize(1), "covar_module": KERNELS[kernel](), **settings}
    model = SingleTaskGP(X, 3 + 20 * (4 * X).sin().sum(-1, keepdim=True), **settings).to(X)
    model.likelihood.noise = 0.05
    return model.eval()


def by_conditioning(model: SingleTaskGP, choices: torch.Tensor, q: int, pending: torch.Tensor | None) -> list[int]:
    """The picks by BoTorch, with zeros observed at whatever is pending."""
    picks: list[int] = []
    with torch.no_grad():
        mean = model.posterior(choices.unsqueeze(1)).mean.reshape(-1)
        for _ in range(q):
            out = choices[picks] if pending is None else torch.cat([pending, choices[picks]])
            current = model.condition_on_observations(out, torch.zeros(len(out), 1).double()) if len(out) else model
            score = mean + math.sqrt(BETA) * current.posterior(choices.unsqueeze(1)).variance.reshape(-1).sqrt()
            picks.append(int((score >= score.max() - 1e-9).nonzero()[0]))
    return picks


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
@pytest.mark.parametrize("inputs", [None, "normalized", "warped"])
@pytest.mark.parametrize(("kernel", "together"), [("matern52", 0), ("linear", 0), ("linear", 100)])
def test_agrees_with_botorch(kernel, together, inputs, out, monkeypatch):
    monkeypatch.setattr(module, "CHOICES_AT_ONCE", 17)
    monkeypatch.setattr(module, "MOST_JOINT", together)
    transforms = {None: None, "normalized": Normalize(DIM), "warped": Warp(DIM, indices=[0, 1])}
    model = gp(kernel, input_transform=transforms[inputs])
    choices, pending = draw(50, DIM, seed=1), draw(3, DIM, seed=2) if out else None
    choices = torch.cat([choices, choices[:20]])
    expected = by_conditioning(model, choices, 8, pending)
    for lazy in (True, False):
        for given in (model, CachedGP(model)):
            found = greedy_hallucinated_ucb(given, choices, BETA, 8, X_pending=pending, lazy=lazy)
            assert found.indices.tolist() == expected
            assert found.num_variances == 8 * 70


@pytest.mark.parametrize("kernel", KERNELS)
def test_is_the_discrete_optimiser(kernel):
    model, choices = gp(kernel), draw(80, DIM, seed=1)
    acquisition = HallucinatedUpperConfidenceBound(model, BETA, draw(2, DIM, seed=2))
    X, _ = optimize_acqf_discrete(acquisition, 6, choices, unique=False)
    found = greedy_hallucinated_ucb(model, choices, BETA, 6, X_pending=draw(2, DIM, seed=2))
    assert torch.equal(choices[found.indices], X)


def test_as_many_as_there_are():
    assert greedy_hallucinated_ucb(gp(), draw(5, DIM, seed=1), BETA, 5).indices.shape == (5,)
    assert greedy_hallucinated_ucb(gp(), draw(1, DIM, seed=1), BETA, 1).indices.tolist() == [0]


def test_laziness_is_counted():
    choices = draw(5000, DIM, seed=1)
    lazy, whole = (greedy_hallucinated_ucb(gp(n=60), choices, BETA, 10, lazy=flag) for flag in (True, False))
    assert torch.equal(lazy.indices, whole.indices)
    assert lazy.num_variances < 0.5 * whole.num_variances == 0.5 * 10 * 5000


def test_bad_input():
    model, choices = gp(), draw(5, DIM, seed=1)
    for q in (0, 6, 2.0):
        with pytest.raises(SettingError, match=r"q = .*: must be a whole number from 1 to 5, the number of choices"):
            greedy_hallucinated_ucb(model, choices, BETA, q)
    with pytest.raises(SettingError, match="choices = 'an empty set': must be at least one point"):
        greedy_hallucinated_ucb(model, choices[:0], BETA, 1)
    refused(r"beta = -1.0: must be a number from 0 on", greedy_hallucinated_ucb, model, choices, -1.0, 1)
    for wrong in (draw(5, 3), draw(5), draw(1, 5, DIM)):
        with pytest.raises(BotorchTensorDimensionError, match=r"choices of shape .*: must be n x 2"):
            greedy_hallucinated_ucb(model, wrong, BETA, 1)
        with pytest.raises(BotorchTensorDimensionError, match="X_pending of shape"):
            greedy_hallucinated_ucb(model, choices, BETA, 1, X_pending=wrong)
    broken = choices.clone()
    broken[2, 1] = math.nan
    refused("choices: must be finite", greedy_hallucinated_ucb, model, broken, BETA, 1, error=InputDataError)
    with pytest.raises(InputDataError, match="X_pending: must be finite"):
        greedy_hallucinated_ucb(model, choices, BETA, 1, X_pending=broken)
    with pytest.raises(UnsupportedError, match="2 outputs"):
        greedy_hallucinated_ucb(SingleTaskGP(choices, draw(5, 2)), choices, BETA, 1)
    refused("backend", greedy_hallucinated_ucb, model, choices, BETA, 1, backend="fast", error=UnsupportedError)
