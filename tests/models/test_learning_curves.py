"""The GP of learning curves beside GPyTorch's kernels and torch's gradients."""

import math

import pytest
import torch
from gpytorch.kernels import MaternKernel
from torch.distributions import MultivariateNormal, Normal

from mfbo_torch.models.learning_curves import JITTER, LearningCurveGP

MARKS = torch.tensor([1, 2, 3, 6, 9, 15, 27], dtype=torch.double).log() / math.log(27)


def curves(designs=12, dim=3, seed=0):
    """Prefixes of curves that start alike and end apart."""
    draw = torch.Generator().manual_seed(seed)
    U = torch.rand(designs, dim, generator=draw, dtype=torch.double)
    lengths = torch.randint(1, len(MARKS) + 1, (designs,), generator=draw)
    rows = [torch.cat([u, t[None]]) for u, n in zip(U, lengths, strict=True) for t in MARKS[:n]]
    X = torch.stack(rows)[torch.randperm(len(rows), generator=draw)]
    Y = X[:, 0] + X[:, -1] * (3 * X[:, 1]).sin() + 0.01 * torch.randn(len(X), generator=draw, dtype=torch.double)
    return X, ((Y - Y.mean()) / Y.std()).unsqueeze(-1)


def dense(model, A, B):
    """The kernel by GPyTorch's Matern kernels."""
    p, (s, t) = model.parameters, (A[:, -1:], B[:, -1:])

    def matern(smoothness, lengthscale, a, b):
        kernel = MaternKernel(smoothness, ard_num_dims=a.shape[-1]).double()
        kernel.lengthscale = lengthscale
        return kernel(a, b).to_dense()

    along, near = s * t.mT * matern(0.5, p.along, s, t), matern(2.5, p.design, A[:, :-1], B[:, :-1])
    same = torch.tensor([[float(torch.equal(a, b)) for b in B[:, :-1]] for a in A[:, :-1]]).double()
    return (p.level * near + (p.change * near + p.own * same) * along).detach()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("groups", [None, [0, 1, 1]])
def test_the_loss_is_minus_the_log_posterior_density(known, groups):
    X, Y = curves()
    Yvar = torch.linspace(0.01, 0.1, len(Y), dtype=torch.double).unsqueeze(-1) if known else None
    model = LearningCurveGP(X, Y, Yvar, groups)

    def density(state):
        model.state = state
        noise = Yvar.squeeze(-1) if known else model.parameters.noise.expand(len(Y))
        covariance = dense(model, X, X) + torch.diag(noise + JITTER)
        evidence = MultivariateNormal(model.parameters.mean.expand(len(Y)), covariance).log_prob(Y.squeeze(-1))
        return (evidence + Normal(model.prior_mean[:-1], model.prior_deviation[:-1]).log_prob(state[:-1]).sum()).item()

    draw = torch.Generator().manual_seed(1)
    states = [model.state + 0.4 * torch.randn(len(model.state), generator=draw, dtype=torch.double) for _ in range(2)]
    losses = [model.loss(state)[0] for state in states]
    assert losses[0] - losses[1] == pytest.approx(density(states[1]) - density(states[0]), rel=1e-9)
    steps = 1e-5 * torch.eye(len(states[0]), dtype=torch.double)
    slopes = [(model.loss(states[0] + h)[0] - model.loss(states[0] - h)[0]) / 2e-5 for h in steps]
    torch.testing.assert_close(model.loss(states[0])[1], torch.tensor(slopes).double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("known", [True, False])
def test_the_posterior_is_that_of_dense_formulas(known):
    X, Y = curves(seed=2)
    Yvar = torch.full_like(Y, 0.01) if known else None
    model = LearningCurveGP(X, Y, Yvar).fit()
    at = torch.cat([X[:3], curves(4, seed=3)[0]])
    noise = 0.01 if known else model.parameters.noise
    inverse = torch.linalg.inv(dense(model, X, X) + (noise + JITTER) * torch.eye(len(X), dtype=torch.double))
    cross = dense(model, at, X)
    mean = model.parameters.mean + cross @ inverse @ (Y.squeeze(-1) - model.parameters.mean)
    variance = (dense(model, at, at) - cross @ inverse @ cross.mT).diagonal()
    found = model.predict(at)
    torch.testing.assert_close(found[0], mean, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(found[1], variance, rtol=1e-4, atol=1e-8)


def test_a_fit_is_at_a_stationary_point():
    X, Y = curves(20, seed=4)
    model = LearningCurveGP(X, Y)
    before = model.loss(model.state)[0]
    after, slope = model.fit().loss(model.state)
    assert after < before
    assert slope.abs().max() < 0.05 * len(Y) ** 0.5


def test_what_curves_come_to_is_known_better_the_further_they_are():
    X, Y = curves(30, seed=5)
    model = LearningCurveGP(X, Y).fit()
    u = torch.tensor([0.5, 0.5, 0.5], dtype=torch.double)
    end = torch.cat([u, MARKS[-1:]]).unsqueeze(0)
    spreads = [model.predict(end)[1].item()]
    for n in (1, 3, 5, 7):
        own = torch.stack([torch.cat([u, t[None]]) for t in MARKS[:n]])
        values = torch.cat([Y, model.predict(own)[0].unsqueeze(-1)])
        spreads.append(LearningCurveGP(torch.cat([X, own]), values, state=model.state).predict(end)[1].item())
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] < 0.5 * spreads[0]
