"""``optimize_acqf``: BoTorch's results, and its own call for everything that the loop does not take."""

import inspect
from pathlib import Path

import botorch.optim
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.models import SingleTaskGP
from gaussian import draw

import mfbo_torch
from mfbo_torch import CachedGP, HallucinatedUpperConfidenceBound
from mfbo_torch.acquisition import lbfgsb
from mfbo_torch.acquisition.optimize import optimize_acqf

BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def gp(seed: int = 0, n: int = 20) -> SingleTaskGP:
    X = draw(n, 2, seed=seed)
    model = SingleTaskGP(X, torch.cat([(7 * X).sin(), X.square()], -1).sum(-1, keepdim=True))
    model.covar_module.lengthscale = 0.3
    model.likelihood.noise = 1e-4
    return model.eval()


MAKERS = {
    "upper bound": lambda model: UpperConfidenceBound(model, 2.0),
    "log improvement": lambda model: LogExpectedImprovement(model, 1.0),
    "hallucinated": lambda model: HallucinatedUpperConfidenceBound(model, 2.0),
}


@pytest.fixture
def handed_over(monkeypatch):
    """Names of the calls that went to BoTorch."""
    calls, theirs = [], botorch.optim.optimize_acqf
    monkeypatch.setattr(botorch.optim, "optimize_acqf", lambda *args, **kw: calls.append(args) or theirs(*args, **kw))
    return calls


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MAKERS)
def test_as_botorch_with_its_own_model(name, seed, handed_over):
    model = gp(seed)
    settings = {"q": 1, "num_restarts": 4, "raw_samples": 32, "options": {"seed": seed}}
    torch.manual_seed(seed)
    x, value = optimize_acqf(MAKERS[name](CachedGP(model)), BOX, **settings)
    assert not handed_over
    torch.manual_seed(seed)
    y, expected = botorch.optim.optimize_acqf(MAKERS[name](model), BOX, **settings)
    assert x.shape == y.shape == (1, 2)
    assert value.shape == expected.shape == ()
    assert value >= expected - 1e-7
    assert MAKERS[name](model)(x.unsqueeze(0)).item() == pytest.approx(value.item(), abs=1e-9)
    assert not x.requires_grad
    assert not value.requires_grad


def test_results_in_every_form(handed_over):
    acquisition = UpperConfidenceBound(CachedGP(gp()), 2.0)
    starts = draw(3, 1, 2, seed=5)
    X, values = optimize_acqf(acquisition, BOX, 1, 3, batch_initial_conditions=starts, return_best_only=False)
    assert X.shape == (3, 1, 2)
    assert (values >= acquisition(starts)).all()
    assert torch.allclose(acquisition(X), values)
    assert optimize_acqf(acquisition, BOX, 1, 3, batch_initial_conditions=starts, return_acq_values=False)[1] is None
    more, _ = optimize_acqf(acquisition, BOX, 1, 5, 16, batch_initial_conditions=starts, return_best_only=False)
    assert more.shape == (5, 1, 2)
    assert torch.allclose(more[:3], X, atol=1e-4)
    still, _ = optimize_acqf(
        acquisition, BOX, 1, 3, batch_initial_conditions=starts, options={"maxiter": 1}, return_best_only=False
    )
    assert (acquisition(still) <= values + 1e-9).all()
    rounded, value = optimize_acqf(acquisition, BOX, 1, 4, 16, post_processing_func=lambda X: X.round(decimals=1))
    assert torch.equal(rounded, rounded.round(decimals=1))
    assert value.item() == pytest.approx(acquisition(rounded.unsqueeze(0)).item())
    assert not handed_over


def test_seeds_repeat_it():
    acquisition = UpperConfidenceBound(CachedGP(gp()), 2.0)
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        found.append(optimize_acqf(acquisition, BOX, 1, 4, 32, {"seed": 3})[0])
    assert torch.equal(*found)


OTHERS = {
    "q": {"q": 2, "sequential": True},
    "fixed features": {"fixed_features": {0: 0.5}},
    "constraints": {"inequality_constraints": [(torch.tensor([0, 1]), torch.ones(2).double(), 0.5)]},
    "options": {"options": {"maxls": 5}},
    "starts": {"batch_initial_conditions": draw(1, 2, seed=5), "raw_samples": None},
    "time": {"timeout_sec": 5.0},
    "generator": {"gen_candidates": botorch.optim.optimize.gen_candidates_scipy},
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_rest_is_botorchs(name, handed_over):
    acquisition = HallucinatedUpperConfidenceBound(CachedGP(gp()), 2.0)
    x, _ = optimize_acqf(acquisition, BOX, **{"q": 1, "num_restarts": 2, "raw_samples": 16, **OTHERS[name]})
    assert len(handed_over) == 1
    assert x.shape[-1] == 2


def test_models_without_a_closed_form_are_botorchs_and_all_without_scipys_routines(handed_over, monkeypatch):
    optimize_acqf(UpperConfidenceBound(gp(), 2.0), BOX, 1, 2, 16)
    optimize_acqf(UpperConfidenceBound(CachedGP(gp().float()), 2.0), BOX.float(), 1, 2, 16)
    assert len(handed_over) == 2
    monkeypatch.setattr(lbfgsb, "setulb", None)
    optimize_acqf(UpperConfidenceBound(CachedGP(gp()), 2.0), BOX, 1, 2, 16)
    assert len(handed_over) == 3


def test_signature_and_errors_are_botorchs():
    assert inspect.signature(optimize_acqf) == inspect.signature(botorch.optim.optimize_acqf)
    with pytest.raises(TypeError, match="missing a required argument: 'num_restarts'"):
        optimize_acqf(UpperConfidenceBound(CachedGP(gp()), 2.0), BOX, 1)
    with pytest.raises(ValueError, match="raw_samples"):
        optimize_acqf(UpperConfidenceBound(CachedGP(gp()), 2.0), BOX, 1, 2)
    with pytest.raises(ValueError, match="bounds"):
        optimize_acqf(UpperConfidenceBound(CachedGP(gp()), 2.0), BOX[0], 1, 2, 16)


def test_every_strategy_goes_through_it():
    strategies = (Path(mfbo_torch.__file__).parent / "strategies").rglob("*.py")
    assert not [path.name for path in strategies if "from botorch.optim import optimize_acqf\n" in path.read_text()]


def test_reversed_bounds_are_refused():
    model = CachedGP(SingleTaskGP(torch.rand(5, 1).double(), torch.rand(5, 1).double()))
    turned = torch.tensor([[1.0], [0.0]]).double()
    with pytest.raises(ValueError, match=r"[Bb]ounds"):
        optimize_acqf(UpperConfidenceBound(model, 4.0), turned, 1, 2, raw_samples=8)
