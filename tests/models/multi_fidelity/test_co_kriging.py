"""Co-kriging with links integrated out and residuals averaged, against plain formulas."""

import itertools
import math

import dense
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from gpytorch.kernels import MaternKernel, ScaleKernel
from refusals import refused

from mfbo_torch.models import CoKrigingGP, PerFidelityGP
from mfbo_torch.models.multi_fidelity import residual
from mfbo_torch.models.multi_fidelity.target import TargetModel

COUNTS = (14, 6, 3)


def made(counts=COUNTS, known=False, seed=0) -> CoKrigingGP:
    X, Y = dense.data(counts, seed=seed)
    Yvar = torch.linspace(1e-3, 1e-2, len(X), dtype=torch.double).unsqueeze(-1) if known else None
    return CoKrigingGP(PerFidelityGP(X, Y, len(counts), Yvar).fit())


def hypotheses(model: CoKrigingGP, m: int, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of fidelity ``m`` in its unit at ``at``, by a loop over the whole grid, nothing dropped: once
    for the slope alone, then with what is unknown of the fidelity below."""
    own = model.chain.train_X[:, -1] == m
    X = model.chain.train_X[own][:, :-1]
    Y = (model.chain.train_Y[own].squeeze(-1) - model.shift[m]) / model.scale[m]
    n, every = len(X), torch.cat([X, at])
    below = (model.chain if m == 1 else model).posterior(torch.cat([every, torch.full((len(every), 1), m - 1.0)], -1))
    unknown = below.distribution.covariance_matrix.detach() / model.scale[m - 1] ** 2
    under = (below.mean.detach().squeeze(-1) - model.shift[m - 1]) / model.scale[m - 1]
    h = torch.stack([torch.ones(len(every)), under], -1).double()
    lengthscale = model.chain.levels[0].covar_module.lengthscale.detach().reshape(-1)
    lengthscale = lengthscale.clamp(0.05 * math.sqrt(model.dim), math.sqrt(model.dim))
    usual = max(model.chain.noise[0].item() / model.scale[0].item() ** 2, min(residual.NOISES))
    b0, V = torch.tensor([0.0, 1.0]).double(), torch.diag(torch.tensor([1.0, 1 / 2])).double()  # of two links
    squared = 0.0
    for _ in range(2):
        logs, means, variances, slopes = [], [], [], []
        for s, multiple, noise in itertools.product(residual.OUTPUTSCALES, residual.LENGTHSCALES, residual.NOISES):
            r = torch.cdist(every / (multiple * lengthscale), every / (multiple * lengthscale))
            joint = s * torch.exp(-0.5 * r**2) + h @ V @ h.mT + squared * unknown
            total = joint[:n, :n] + noise * torch.eye(n).double()
            cross = joint[n:, :n]
            moved = torch.linalg.solve(total, Y - h[:n] @ b0)
            density = torch.distributions.MultivariateNormal(h[:n] @ b0, total).log_prob(Y)
            prior = -0.5 * (math.log(s / 0.1) / 1.5) ** 2 - 0.5 * math.log(multiple) ** 2
            prior -= 0.5 * (max(math.log(noise / usual), 0) / 3) ** 2
            logs.append(density + prior)
            means.append(h[n:] @ b0 + cross @ moved)
            variances.append((joint[n:, n:] - cross @ torch.linalg.solve(total, cross.mT)).diagonal())
            gain = V @ h[:n].mT @ torch.linalg.inv(total)
            slopes.append((b0 + gain @ (Y - h[:n] @ b0))[1] ** 2 + (V - gain @ h[:n] @ V)[1, 1])
        weights = torch.softmax(torch.stack(logs), 0)
        squared = weights @ torch.stack(slopes)
    mean = (weights.unsqueeze(-1) * torch.stack(means)).sum(0)
    return mean, (weights.unsqueeze(-1) * (torch.stack(variances) + (torch.stack(means) - mean) ** 2)).sum(0)


@pytest.mark.parametrize("m", [1, 2])
def test_posterior_by_plain_formulas(m, monkeypatch):
    monkeypatch.setattr(residual, "MIN_WEIGHT", 0.0)
    model, at = made(), dense.points(3, 7)[:, :-1]
    mean, variance = model.mean_variance(at)
    expected, spread = hypotheses(model, m, at)
    assert torch.allclose((mean[:, m] - model.shift[m]) / model.scale[m], expected, atol=1e-7)
    assert torch.allclose(variance[:, m] / model.scale[m] ** 2, spread, rtol=1e-5, atol=1e-8)


def test_what_is_dropped_hardly_matters(monkeypatch):
    at = dense.points(3, 20)[:, :-1]
    fewer = made().mean_variance(at)
    monkeypatch.setattr(residual, "MIN_WEIGHT", 0.0)
    torch.testing.assert_close(fewer, made().mean_variance(at), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("known", [False, True])
def test_posterior_and_mean_variance_agree(known):
    model, at = made(known=known), dense.points(3, 5)
    mean, variance = model.mean_variance(at[:, :-1])
    narrowed = model.hallucinate(dense.points(3, 4, seed=9))
    same, smaller = narrowed.mean_variance(at[:, :-1])
    assert torch.equal(same, mean) or torch.allclose(same, mean, atol=1e-12)
    assert (smaller <= variance + 1e-12).all()
    for m in range(3):
        points = torch.cat([at[:, :-1], torch.full_like(at[:, :1], m)], -1).unsqueeze(-2)
        for other, values in ((model, (mean, variance)), (narrowed, (same, smaller))):
            posterior = other.posterior(points)
            assert torch.allclose(posterior.mean.flatten(), values[0][:, m], atol=1e-10)
            assert torch.allclose(posterior.variance.flatten(), values[1][:, m], atol=1e-10)
    joint = narrowed.posterior(at).distribution.covariance_matrix
    assert torch.allclose(joint, joint.mT)
    assert torch.linalg.eigvalsh(joint).min() > -1e-9
    noisy = model.posterior(at, observation_noise=True).variance - model.posterior(at).variance
    assert torch.allclose(noisy.flatten(), model.noise[at[:, -1].long()], atol=1e-12)


def test_pending_points_one_after_another():
    model, pending, at = made(), dense.points(3, 4, seed=9), dense.points(3, 5)[:, :-1]
    together = model.hallucinate(pending).mean_variance(at)[1]
    apart = model.hallucinate(pending[:1]).hallucinate(pending[1:]).mean_variance(at)[1]
    assert torch.allclose(together, apart, atol=1e-12)
    assert model.hallucinate(None) is model


def test_gradients():
    model = made()
    X = dense.points(3, 3)[:, :-1].requires_grad_(True)
    assert torch.autograd.gradcheck(model.mean_variance, (X,))
    assert torch.autograd.gradcheck(model.hallucinate(dense.points(3, 2, seed=9)).mean_variance, (X,))


@pytest.mark.parametrize("covar_module", [None, "matern12", "matern32", "matern52"])
@pytest.mark.parametrize("counts", [(14, 6, 3), (9, 5), (3, 7, 5)])
@pytest.mark.parametrize("known", [False, True])
def test_target_on_arrays(counts, known, covar_module):
    X, Y = dense.data(counts, seed=1)
    Yvar = torch.linspace(1e-3, 1e-2, len(X), dtype=torch.double).unsqueeze(-1) if known else None
    nu = covar_module and int(covar_module[-2]) / 2
    kernels = nu and [ScaleKernel(MaternKernel(nu, ard_num_dims=X.shape[-1] - 1)) for _ in counts]
    model = CoKrigingGP(PerFidelityGP(X, Y, len(counts), Yvar, covar_modules=kernels).fit())
    target = TargetModel(model, torch.tensor(2.5).double())
    U = torch.cat([torch.rand(7, model.dim).double(), X[X[:, -1] == 0][:3, :-1], X[-2:, :-1]]).requires_grad_()
    mean, variance, _ = target.joint(U.unsqueeze(-2))
    by_mean, by_variance = torch.rand(2, len(U)).double()
    (expected,) = torch.autograd.grad((by_mean * mean.squeeze() + by_variance * variance.squeeze()).sum(), U)
    on_arrays = target.on_arrays()
    found, spread, at = on_arrays.moments(U.detach().numpy(), gradient=True)
    assert found == pytest.approx(mean.detach().squeeze().numpy(), rel=1e-9, abs=1e-9)
    assert spread == pytest.approx(variance.detach().squeeze().numpy(), rel=1e-7, abs=1e-10)
    gradient = on_arrays.gradient(at, by_mean.numpy(), by_variance.numpy())
    assert gradient[:7] == pytest.approx(expected[:7].numpy(), rel=1e-6, abs=1e-7)


def test_the_band_closes_where_only_the_target_was_asked():
    """A value of the target is known whatever the fidelity below may be there, and a query of that teaches nothing."""
    X, Y = dense.data((8, 6))
    X[8:, :-1] = dense.points(2, 6, seed=5)[:, :-1]  # not where the cheap one was asked
    model = CoKrigingGP(PerFidelityGP(X, Y, 2, torch.full_like(Y, 1e-6)).fit())
    at = X[8:, :-1]
    _, variance = model.mean_variance(at)
    assert (variance[:, 0] > 1e-5).any()
    assert (variance[:, 1] < 1.1e-6).all()
    taught = [model.slopes_at(x.unsqueeze(0))[0].square() * v[0] for x, v in zip(at, variance, strict=True)]
    assert max(taught) < 1.1e-6


def test_slopes_at_nested_designs_are_those_of_the_links():
    X, Y = dense.data((9, 5))
    X[9:, :-1] = X[:5, :-1]
    model = CoKrigingGP(PerFidelityGP(X, Y, 2, torch.full_like(Y, 1e-10)).fit())
    slopes = model.slopes_at(dense.points(2, 1, seed=3)[:, :-1])
    assert slopes[-1] == pytest.approx(1)
    assert slopes[0] == pytest.approx(model.slopes[0].item(), rel=1e-3)


def test_units_do_not_matter():
    X, Y = dense.data(COUNTS)
    at = dense.points(3, 5)[:, :-1]
    plain = CoKrigingGP(PerFidelityGP(X, Y, 3).fit())
    other = CoKrigingGP(PerFidelityGP(X, 1e3 * Y - 7e4, 3).fit())
    mean, variance = plain.mean_variance(at)
    moved, spread = other.mean_variance(at)
    assert torch.allclose(moved, 1e3 * mean - 7e4, atol=0.1)
    assert torch.allclose(spread.sqrt(), 1e3 * variance.sqrt(), rtol=1e-2, atol=1e-2)
    assert other.evidence == pytest.approx(plain.evidence - len(X) * math.log(1e3), abs=1e-2)


def test_two_values_do_not_make_it_sure():
    """The case behind it: where a slope fitted to two values is taken for known, the truth is far outside the band."""
    x = torch.tensor([0.07, 0.17, 0.24, 0.27, 0.47, 0.59, 0.67, 0.73, 0.76, 1.0]).double()

    def forrester(x, cheap):
        f = -((6 * x - 2) ** 2) * torch.sin(12 * x - 4)
        return 0.5 * f - 10 * (x - 0.5) + 5 if cheap else f

    top = torch.tensor([0.07, 0.59]).double()
    X = torch.cat([torch.stack([x, 0 * x], -1), torch.stack([top, 0 * top + 1], -1)])
    chain = PerFidelityGP(X, torch.cat([forrester(x, True), forrester(top, False)]).unsqueeze(-1), 2).fit()
    at = torch.linspace(0, 1, 50).double().unsqueeze(-1)
    truth = forrester(at.squeeze(-1), False)

    def misses(model):
        mean, variance = model.mean_variance(at)
        return ((truth - mean[:, 1]).abs() / variance[:, 1].sqrt()).quantile(0.9).item()

    assert misses(chain) > 10
    assert misses(CoKrigingGP(chain)) < 3


def test_shares_of_the_variance():
    model = made()
    explained = model.explained
    assert explained[-1] == pytest.approx(1)
    assert (explained.diff() >= 0).all()
    assert (explained >= 0).all()
    assert model.slopes[-1] == 1


def test_a_fidelity_without_data_is_that_of_the_chain():
    X, Y = dense.data((8, 0, 4))
    chain = PerFidelityGP(X, Y, 3).fit()
    at = dense.points(3, 5)[:, :-1]
    torch.testing.assert_close(CoKrigingGP(chain).mean_variance(at), chain.mean_variance(at), rtol=1e-5, atol=1e-12)


def test_what_it_is_not_made_of():
    X, Y = dense.data(COUNTS)
    chain = PerFidelityGP(X, Y, 3)
    refused("pending points", CoKrigingGP, chain.hallucinate(dense.points(3, 1)), error=UnsupportedError)
    with pytest.raises(UnsupportedError, match="batch_shape"):
        CoKrigingGP(chain.condition_on_observations(dense.points(3, 2).expand(2, 2, 3), torch.zeros(2, 2, 1).double()))
    refused("X_pending", CoKrigingGP(chain).hallucinate, torch.tensor([[0.5, 0.5, 7.0]]).double(), error=InputDataError)


def test_the_target_as_a_model_of_designs():
    model, at = made(), dense.points(3, 4)[:, :-1].unsqueeze(-2)
    posterior = TargetModel(model, torch.tensor(2.0).double()).posterior(at)
    mean, variance = model.mean_variance(at.squeeze(-2))
    assert torch.allclose(posterior.mean.flatten(), mean[:, -1] / 2)
    assert torch.allclose(posterior.variance.flatten(), variance[:, -1] / 4)


def test_another_state_or_place_needs_another_model():
    X, Y = dense.data(COUNTS)
    model = CoKrigingGP(PerFidelityGP(X, Y, 3))
    refused("made anew of its chain", model.load_state_dict, model.state_dict())
    refused("made anew of its chain", model.float)
    assert model.to(X) is model
