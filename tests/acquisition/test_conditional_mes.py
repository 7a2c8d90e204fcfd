"""Conditional max-value entropy: its two forms, the samples of the maximum, and how BoTorch maximises it."""

import averages
import mpmath
import numpy as np
import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from gaussian import draw
from refusals import refused
from scipy.stats import ks_2samp, norm

from mfbo_torch.acquisition import ConditionalMaxValueEntropy
from mfbo_torch.acquisition import truncated_entropy as entropy
from mfbo_torch.acquisition.max_values import gumbel, joint_draws, thompson
from mfbo_torch.models import DeconditionalGP, EmpiricalConditional, GaussianConditional

GAMMAS = torch.linspace(-30, 30, 61, dtype=torch.double)
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def truncated_information(gamma: torch.Tensor) -> torch.Tensor:
    return entropy.log_truncated_information(gamma).exp()


def noisy_information(gamma: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    return entropy.log_noisy_information(gamma, share).exp()


def model(kind: str = "rbf", t: int = 10, empirical: bool = False) -> DeconditionalGP:
    A = draw(t, 2, seed=1)
    Z = (4 * A).sin().sum(-1, keepdim=True)
    conditional = GaussianConditional(0.1)
    if empirical:
        D1 = draw(80, 2, seed=2)
        conditional = EmpiricalConditional(D1.square(), D1, regularization=0.01)
    prior = {"covar_module": averages.kernel(kind), "mean_module": averages.linear_mean()}
    return DeconditionalGP(A, Z, conditional, torch.full_like(Z, 0.05), **prior).eval()


def truncated(gamma: mpmath.mpf) -> mpmath.mpf:
    """Equation (14) as it stands."""
    return gamma * mpmath.npdf(gamma) / (2 * mpmath.ncdf(gamma)) - mpmath.log(mpmath.ncdf(gamma))


def noisy(gamma: mpmath.mpf, share: mpmath.mpf) -> mpmath.mpf:
    """Appendix A: the entropy of ``z`` less that of the density given ``g <= f*``, in deviations of ``z``."""
    rho, s = mpmath.sqrt(share), mpmath.sqrt(1 - share)
    log_cdf = lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)  # noqa: E731
    half = mpmath.log(2 * mpmath.pi) / 2

    def integrand(y: mpmath.mpf) -> mpmath.mpf:
        log_density = -y * y / 2 - half + log_cdf((gamma - rho * y) / s) - log_cdf(gamma)
        return -mpmath.exp(log_density) * log_density

    ratio = mpmath.npdf(gamma) / mpmath.ncdf(gamma)
    centre, spread = -rho * ratio, mpmath.sqrt(1 - share * ratio * (ratio + gamma))
    edge, sharp = gamma / rho, s / rho
    near = [centre + spread * k for k in (-50, -14, -6, -3, 0, 3, 6, 14)]
    return half + 0.5 - mpmath.quad(integrand, sorted(near + [edge + sharp * k for k in (-8, 0, 8)]))


def derivative(function, at: float, step: float) -> mpmath.mpf:
    h = mpmath.mpf(step)
    return (function(at + h) - function(at - h)) / (2 * h)


def test_truncated_form_in_high_precision():
    gamma = GAMMAS.clone().requires_grad_()
    value = truncated_information(gamma)
    (slope,) = torch.autograd.grad(value.sum(), gamma)
    with mpmath.workdps(250):  # 1 - Ψ(30) is 1e-197
        points = [mpmath.mpf(g) for g in GAMMAS.tolist()]
        values = [float(truncated(g)) for g in points]
        slopes = [float(derivative(truncated, g, 1e-20)) for g in points]
        logs = [float(mpmath.log(truncated(g))) for g in points]
    assert value.detach().numpy() == pytest.approx(np.array(values), abs=1e-8)
    assert slope.numpy() == pytest.approx(np.array(slopes), abs=1e-8)
    assert entropy.log_truncated_information(GAMMAS).numpy() == pytest.approx(np.array(logs), abs=1e-9)


@pytest.mark.parametrize(
    ("gamma", "share"), [(-30, 0.5), (-30, 0.999), (-4, 0.01), (-1, 0.9), (0, 0.5), (2, 0.99), (30, 0.9)]
)
def test_noisy_form_in_high_precision(gamma, share):
    g = torch.tensor(float(gamma), dtype=torch.double, requires_grad=True)
    rho2 = torch.tensor(share, dtype=torch.double, requires_grad=True)
    value = noisy_information(g, rho2)
    in_gamma, in_share = torch.autograd.grad(value, (g, rho2))
    with mpmath.workdps(25):
        at, own = mpmath.mpf(gamma), mpmath.mpf(share)
        assert value.item() == pytest.approx(float(noisy(at, own)), abs=1e-8)
        step = 1e-5 * min(share, 1 - share)
        slopes = derivative(lambda v: noisy(v, own), at, 1e-6), derivative(lambda v: noisy(at, v), own, step)
        assert in_gamma.item() == pytest.approx(float(slopes[0]), abs=1e-7)
        assert in_share.item() == pytest.approx(float(slopes[1]), rel=1e-6, abs=1e-7)


def test_noisy_form_is_as_exact_with_more_nodes(monkeypatch):
    """The whole range at once: the nodes are enough wherever the quadrature above was not asked."""
    gamma, share = GAMMAS.unsqueeze(-1), torch.tensor([1e-6, 0.03, 0.4, 0.9, 0.999, 1 - 1e-9], dtype=torch.double)
    few = noisy_information(gamma, share)
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    monkeypatch.setattr(entropy, "NODES", nodes)
    monkeypatch.setattr(entropy, "WEIGHTS", weights)
    assert (few - noisy_information(gamma, share)).abs().max() < 1e-9


def test_limits():
    """Without noise the noisy form is the truncated one; with nothing but noise it is nothing."""
    assert torch.allclose(noisy_information(GAMMAS, torch.ones(()).double()), truncated_information(GAMMAS), atol=1e-9)
    assert noisy_information(GAMMAS, torch.zeros(()).double()).abs().max() < 1e-9


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_nothing_overflows(dtype):
    gamma = torch.tensor([-1e8, -1e5, -50, -40, -39.9, 0, 37, 39, 60, 1e4], dtype=dtype, requires_grad=True)
    for function in (
        entropy.log_truncated_information,
        truncated_information,
        lambda g: entropy.log_noisy_information(g, g.new_tensor(0.7)),
        lambda g: noisy_information(g, g.new_tensor([[1e-9], [1.0]])),
    ):
        value = function(gamma)
        (slope,) = torch.autograd.grad(value.sum(), gamma)
        assert value.isfinite().all()
        assert slope.isfinite().all()
        assert value.dtype == dtype
        assert (slope <= 1e-12).all()  # both fall in γ
    far = truncated_information(torch.tensor([-1e5], dtype=torch.double))
    assert far.item() == pytest.approx(np.log(1e5) + 0.5 * np.log(2 * np.pi) - 0.5, abs=1e-8)
    near = truncated_information(torch.tensor([-40 - 1e-9, -40 + 1e-9], dtype=torch.double))
    assert near[0].item() == pytest.approx(near[1].item(), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("empirical", [False, True])
def test_lemma_1(seed, empirical):
    """One sample: the argmax is that of MES on g, of the estimation strategy, and of GP-UCB with its width."""
    torch.manual_seed(seed)
    made, A = model(empirical=empirical), draw(200, 2, seed=seed)
    acquisition = ConditionalMaxValueEntropy(made, draw(300, 2, seed=50 + seed), 1)
    best = acquisition(A.unsqueeze(-2)).argmax().item()
    posterior = made.posterior(A.unsqueeze(-2))
    mean, deviation = posterior.mean.flatten().detach().numpy(), posterior.variance.sqrt().flatten().detach().numpy()
    sample = acquisition.max_values.item()
    gamma = (sample - mean) / deviation
    assert best == (gamma * norm.pdf(gamma) / (2 * norm.cdf(gamma)) - norm.logcdf(gamma)).argmax()
    assert best == gamma.argmin()
    ucb = mean + gamma.min() * deviation
    assert ucb[best] == pytest.approx(ucb.max(), abs=1e-12)
    assert ucb.max() == pytest.approx(sample, abs=1e-9)


@pytest.mark.parametrize("kind", ["rbf", "matern52"])
def test_draws_have_the_covariance_of_the_posterior(kind):
    made, X = model(kind), draw(150, 2, seed=3)
    with torch.no_grad():
        posterior = made.latent_posterior(X)
        mean, variance, column = made.latent_covariances(X)
    exact = posterior.distribution.covariance_matrix
    assert torch.allclose(torch.stack([column(j) for j in range(150)], -1), exact, rtol=0, atol=1e-12)
    assert torch.allclose(variance, exact.diagonal(), rtol=0, atol=1e-12)
    assert torch.allclose(mean, posterior.mean.squeeze(-1), rtol=0, atol=1e-12)
    torch.manual_seed(0)
    draws, left = joint_draws(made, X, 20000)
    assert left**2 <= 1e-10 * averages.OUTPUTSCALE
    assert torch.allclose(draws.mean(0), mean, rtol=0, atol=0.05)
    assert torch.allclose(draws.T.cov(), exact, rtol=0, atol=0.06)


def test_maxima_of_few_columns_are_distributed_as_those_of_a_dense_factor(monkeypatch):
    made, X = model(), draw(200, 2, seed=3)
    torch.manual_seed(1)
    dense = made.latent_posterior(X).distribution.rsample(torch.Size([3000])).amax(-1).detach().numpy()
    assert ks_2samp(thompson(made, X, 3000).numpy(), dense).pvalue > 0.01
    monkeypatch.setattr("mfbo_torch.acquisition.max_values.MAX_RANK", 15)  # the rest is drawn independently
    draws, left = joint_draws(made, X, 3000)
    assert 0 < left < 0.2
    _, variance = made.latent_mean_variance(X)
    assert torch.allclose(draws.var(0), variance, rtol=0.15)


def test_gumbel_has_the_quartiles_of_independent_values():
    made, X = model(), draw(100, 2, seed=3)
    torch.manual_seed(0)
    values = gumbel(made, X, 40000)
    mean, variance = made.latent_mean_variance(X)
    for level in (0.25, 0.5, 0.75):
        share = torch.special.log_ndtr((values.quantile(level) - mean) / variance.sqrt()).sum().exp()
        assert share.item() == pytest.approx(level, abs=0.05)
    assert values.isfinite().all()


def test_samples_follow_the_seed():
    made, X = model(), draw(100, 2, seed=3)
    for sampler in ("thompson", "gumbel"):
        found = []
        for _ in range(2):
            torch.manual_seed(3)
            found.append(ConditionalMaxValueEntropy(made, X, 4, sampler=sampler).max_values)
        assert found[0].shape == (4,)
        assert torch.equal(*found)


@pytest.mark.parametrize("form", ["truncated", "noisy"])
def test_it_is_the_mean_over_the_samples(form):
    made, A = model(), draw(5, 2, seed=4)
    acquisition = ConditionalMaxValueEntropy(made, draw(100, 2, seed=3), 3, form=form)
    mean, variance = (part.detach() for part in made.mean_variance(A))
    expected = 0.0
    for sample in acquisition.max_values:
        gamma = (sample - mean) / variance.sqrt()
        if form == "truncated":
            expected = expected + truncated_information(gamma) / 3
        else:
            expected = expected + noisy_information(gamma, variance / (variance + 0.05)) / 3
    value = acquisition(A.unsqueeze(-2)).detach()
    assert torch.allclose(value, expected, rtol=1e-10)
    acquisition.log = True
    assert torch.allclose(acquisition(A.unsqueeze(-2)), value.log(), rtol=1e-10)


def test_cost_and_noise_of_the_query():
    made, A, X = model(), draw(5, 2, seed=4), draw(100, 2, seed=3)

    def make(**settings) -> torch.Tensor:
        torch.manual_seed(0)
        return ConditionalMaxValueEntropy(made, X, 3, **settings)(A.unsqueeze(-2))

    plain = make()
    cost = 1 + 3 * A[:, 0]
    assert torch.allclose(make(cost=lambda a: 1 + 3 * a[..., 0]), plain / cost)
    assert torch.allclose(make(cost=lambda a: 1 + 3 * a[..., :1], log=True), (plain / cost).log())
    assert torch.allclose(make(form="noisy", noise=lambda a: torch.zeros_like(a[..., 0])), plain, rtol=1e-8)
    assert (make(form="noisy", noise=lambda a: 1 + a[..., 0]) < make(form="noisy")).all()
    refused("cost = 0: must be positive", make, cost=lambda a: torch.zeros_like(a[..., 0]), error=InputDataError)


@pytest.mark.parametrize("form", ["truncated", "noisy"])
def test_pending_queries(form):
    made, A, X = model(), draw(6, 2, seed=4), draw(100, 2, seed=3)
    acquisition = ConditionalMaxValueEntropy(made, X, 3, form=form)
    before, samples = acquisition(A.unsqueeze(-2)), acquisition.max_values.clone()
    acquisition.set_X_pending(A[:2])
    after = acquisition(A.unsqueeze(-2))
    assert (after[:2] < before[:2]).all()
    assert torch.equal(acquisition.max_values, samples)
    assert torch.equal(acquisition.X_pending, A[:2])
    torch.manual_seed(0)
    given = ConditionalMaxValueEntropy(made, X, 3, form=form, X_pending=A[:2])
    given.max_values = samples
    assert torch.allclose(given(A.unsqueeze(-2)), after)
    acquisition.set_X_pending(None)
    assert torch.equal(acquisition(A.unsqueeze(-2)), before)


@pytest.mark.parametrize("empirical", [False, True])
@pytest.mark.parametrize("form", ["truncated", "noisy"])
@pytest.mark.parametrize("log", [False, True])
def test_gradient(form, empirical, log):
    acquisition = ConditionalMaxValueEntropy(model(empirical=empirical), draw(50, 2, seed=3), 3, form=form, log=log)
    assert torch.autograd.gradcheck(acquisition, (draw(4, 1, 2, seed=5).requires_grad_(),))


@pytest.mark.parametrize("form", ["truncated", "noisy"])
def test_botorch_maximises_it(form):
    torch.manual_seed(0)
    choices = draw(100, 2, seed=6)
    acquisition = ConditionalMaxValueEntropy(model(), draw(200, 2, seed=3), 8, form=form, log=True)
    x, value = optimize_acqf(acquisition, BOX, q=2, num_restarts=3, raw_samples=32, sequential=True)
    assert x.shape == (2, 2)
    assert value[0] >= acquisition(choices.unsqueeze(-2)).max()
    assert not torch.allclose(x[0], x[1])
    assert acquisition.X_pending is None
    picked, best = optimize_acqf_discrete(acquisition, q=2, choices=choices)
    assert best[0] == acquisition(choices.unsqueeze(-2)).max()
    assert not torch.equal(picked[0], picked[1])


def test_botorch_constructs_it():
    made, X, pending = model(), draw(50, 2, seed=3), draw(2, 2)
    construct = get_acqf_input_constructor(ConditionalMaxValueEntropy)
    settings = construct(made, candidate_set=X, num_max_value_samples=5, X_pending=pending, target_fidelities={})
    acquisition = ConditionalMaxValueEntropy(**settings)
    assert len(acquisition.max_values) == 5
    assert torch.equal(acquisition.X_pending, pending)


def test_bad_input():
    made, X = model(), draw(20, 2)
    for settings, named in (
        ({"sampler": "sobol"}, "sampler = 'sobol'"),
        ({"form": "exact"}, "form = 'exact'"),
        *(({"num_max_value_samples": n}, f"num_max_value_samples = {n!r}") for n in (0, 2.5, "10", True)),
    ):
        refused(named, ConditionalMaxValueEntropy, made, X, **settings)
    for wrong in (X[:0], X[0], X.view(2, 10, 2)):
        refused("candidate_set of shape", ConditionalMaxValueEntropy, made, wrong, error=BotorchTensorDimensionError)
    with pytest.raises(UnsupportedError, match="model = SingleTaskGP: must be a DeconditionalGP"):
        ConditionalMaxValueEntropy(SingleTaskGP(X, X[:, :1]), X)
    with pytest.raises(AssertionError, match="q=1"):
        ConditionalMaxValueEntropy(made, X)(draw(1, 2, 2))
