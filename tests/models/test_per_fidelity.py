"""The model of several fidelities, against plain loops, the joint process it stands for, and BoTorch's use of it."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable

import dense
import numpy as np
import pytest
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qLogExpectedImprovement,
    qKnowledgeGradient,
)
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, ModelFittingError, UnsupportedError
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.datasets import SupervisedDataset
from gpytorch.kernels import RBFKernel, ScaleKernel
from linear_operator.utils.errors import NanError
from tolerances import TOLERANCES

from mfbo_torch.errors import SettingError
from mfbo_torch.models import PerFidelityGP, level, per_fidelity

LINKS = ("recursive", "independent")
COUNTS = [(7,), (7, 4), (6, 5, 3), (7, 5, 4, 3), (5, 0, 3), (0, 4), (6, 0), (0, 0, 3)]


def prior_variance(model: PerFidelityGP) -> float:
    """The largest prior variance of any fidelity."""
    levels = dense.fidelities(model)
    top = range(len(levels))
    return max(sum(dense.weight(levels, m, k) ** 2 * levels[k].outputscale for k in top) for m in top)


def assert_agrees(
    model: PerFidelityGP, X: torch.Tensor, mean: np.ndarray, covariance: np.ndarray, tolerance: float
) -> None:
    """The joint posterior is as expected, relative to the prior."""
    with torch.no_grad():
        posterior = model.posterior(X)
    variance = prior_variance(model)
    assert posterior.mean.squeeze(-1).numpy() == pytest.approx(mean, abs=tolerance * variance**0.5, rel=tolerance)
    found = posterior.distribution.covariance_matrix.detach().numpy()
    assert found == pytest.approx(covariance, abs=tolerance * variance)


def assert_dense(model: PerFidelityGP, X: torch.Tensor, pending: torch.Tensor | None = None) -> None:
    """The joint posterior is that of the plain loops; ``pending`` conditions the deviations of the loops."""
    levels, points = dense.fidelities(model), dense.as_points(X)
    out = [] if pending is None else dense.as_points(pending)
    mean = np.array([dense.mean(levels, x, m) for x, m in points])
    covariance = np.array([[dense.covariance(levels, a, b, out) for b in points] for a in points])
    assert_agrees(model, X, mean, covariance, TOLERANCES[torch.double])


def same(a: PerFidelityGP, b: PerFidelityGP, tolerance: float = 1e-9) -> None:
    """Two models say the same."""
    X = dense.points(a.num_fidelities, 9)
    with torch.no_grad():
        first, second = a.posterior(X), b.posterior(X)
    assert torch.allclose(first.mean, second.mean, rtol=tolerance, atol=tolerance)
    assert torch.allclose(
        first.distribution.covariance_matrix, second.distribution.covariance_matrix, rtol=0, atol=tolerance
    )


@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_posterior_by_plain_loops(link, counts):
    model = dense.hand_made(counts, link=link)
    X = torch.cat([dense.points(len(counts), 7), model.train_X[:2]])
    assert_dense(model, X)


@pytest.mark.parametrize("kind", dense.KINDS)
@pytest.mark.parametrize("link", LINKS)
def test_kernels(link, kind):
    assert_dense(dense.hand_made((6, 5, 3), dim=3, link=link, kind=kind), dense.points(3, 5, dim=3))


@pytest.mark.parametrize("link", LINKS)
def test_units_inside_do_not_matter(link):
    """Whatever the constants of the standardisation, the process in the targets' units is the one of the loops."""
    model = dense.hand_made((6, 4, 3), link=link)
    model.shift += torch.tensor([3.0, -1.0, 0.5])
    model.scale *= torch.tensor([0.5, 2.0, 7.0])
    assert_dense(model.train().eval(), dense.points(3, 7))


def test_standardisation():
    X, Y = dense.data((6, 1, 4))
    model = PerFidelityGP(X, Y, 4)
    groups = [Y.numpy()[(X[:, -1] == m).numpy(), 0] for m in range(3)]
    low, mid, top = (group.mean() for group in groups)
    assert model.shift.tolist() == pytest.approx([low, mid, top, top])
    first, last = groups[0].std(ddof=1), groups[2].std(ddof=1)
    assert model.scale.tolist() == pytest.approx([first, first, last, last])


def nested(counts: tuple[int, ...], noise: float, kind: str = "matern52") -> PerFidelityGP:
    """A model whose designs at each fidelity are among those of the fidelity below."""
    U, _ = dense.data([counts[0]], seed=5)
    X = torch.cat([torch.cat([U[:n, :2], torch.full((n, 1), float(m))], dim=-1) for m, n in enumerate(counts)])
    Y = torch.cat([dense.value(U[:n, :2], m) for m, n in enumerate(counts)])
    kernels = [dense.gpytorch_kernel(kind, 2) for _ in counts]
    model = PerFidelityGP(X, Y, len(counts), torch.full_like(Y, noise), covar_modules=kernels)
    return dense.set_by_hand(model)


@pytest.mark.parametrize("counts", [(8, 4), (9, 5, 3), (8, 6, 4, 3)], ids=str)
@pytest.mark.parametrize("noise", [1e-8, 1e-10])
@pytest.mark.parametrize("kind", dense.KINDS)
def test_recursion_is_the_joint_process(kind, noise, counts):
    """Nested designs: one Gaussian process over designs and fidelities, but for the noise of the fidelities below.

    Where an observation below has noise s, the posterior mean there differs from it by s times a weight
    ``K^-1 y``, which the residual above amplifies by its own ``K^-1``: the difference is of the order
    of ``s / λ_min`` in units of the values.
    """
    model = nested(counts, noise, kind)
    levels, X = dense.fidelities(model), dense.points(len(counts), 8)
    mean, covariance = dense.joint(levels, dense.as_points(X))
    smallest = min(np.linalg.eigvalsh(level.gram(level.X, level.X))[0] for level in levels)
    condition = prior_variance(model) / smallest
    assert_agrees(model, X, mean, covariance, max(10 * noise / smallest * condition**0.5, TOLERANCES[torch.double]))


def test_recursion_is_not_the_joint_process_with_noise():
    """The test above has teeth: its tolerance vanishes with the noise, the difference does not."""
    model = nested((9, 5, 3), 0.3)
    X = dense.points(3, 8)
    mean, _ = dense.joint(dense.fidelities(model), dense.as_points(X))
    with torch.no_grad():
        found = model.posterior(X).mean.squeeze(-1).numpy()
    assert np.abs(found - mean).max() > 1e-3


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_mean_variance_is_the_marginals(link, counts):
    model = dense.hand_made(counts, link=link)
    U = dense.points(1, 5)[:, :-1]
    mean, variance = model.mean_variance(U)
    assert mean.shape == variance.shape == (5, len(counts))
    for m in range(len(counts)):
        posterior = model.posterior(torch.cat([U, torch.full((5, 1), float(m))], dim=-1))
        assert torch.allclose(mean[:, m], posterior.mean.squeeze(-1), rtol=1e-12)
        assert torch.allclose(variance[:, m], posterior.variance.squeeze(-1), rtol=0, atol=1e-12)


def test_leading_axes():
    model = dense.hand_made((6, 4, 3))
    X = dense.points(3, 24).reshape(2, 3, 4, 3)
    posterior = model.posterior(X)
    mean, variance = model.mean_variance(X[..., :-1])
    assert posterior.mean.shape == posterior.variance.shape == (2, 3, 4, 1)
    assert mean.shape == variance.shape == (2, 3, 4, 3)
    assert torch.allclose(mean.gather(-1, X[..., -1:].long()), posterior.mean, rtol=1e-12)
    for i in range(2):
        for j in range(3):
            alone = model.posterior(X[i, j])
            assert torch.allclose(posterior.mean[i, j], alone.mean, rtol=1e-12)
            covariances = [p.distribution.covariance_matrix for p in (posterior, alone)]
            assert torch.allclose(covariances[0][i, j], covariances[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_gradients(link):
    model = dense.hand_made((5, 4, 3), link=link).hallucinate(dense.points(3, 2, seed=8))
    U = dense.points(1, 3)[:, :-1].requires_grad_()
    assert torch.autograd.gradcheck(model.mean_variance, U)
    fidelity = torch.tensor([[2.0], [0.0], [1.0]]).double()

    def joint(U: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        posterior = model.posterior(torch.cat([U, fidelity], dim=-1))
        return posterior.mean, posterior.distribution.covariance_matrix

    assert torch.autograd.gradcheck(joint, U)


def test_repeated_points():
    """The joint posterior of a point with itself exists, at a point with and without an observation."""
    model = dense.hand_made((6, 4))
    for x in (model.train_X[:1], dense.points(2, 1)):
        posterior = model.posterior(x.expand(3, 3))
        covariance = posterior.distribution.covariance_matrix
        assert torch.allclose(covariance, covariance[0, 0].expand(3, 3), rtol=0, atol=1e-12)
        assert posterior.rsample(torch.Size([5])).isfinite().all()


@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_pending_points_condition_the_deviation_alone(link, counts):
    model = dense.hand_made(counts, link=link)
    X, pending = dense.points(len(counts), 6), dense.points(len(counts), 5, seed=7)
    before = model.mean_variance(X[:, :-1])
    conditioned = model.hallucinate(pending)
    after = conditioned.mean_variance(X[:, :-1])
    assert torch.equal(before[0], after[0])
    assert (after[1] <= before[1] + 1e-9).all()
    assert_dense(conditioned, X, pending)
    assert torch.equal(model.mean_variance(X[:, :-1])[1], before[1])


def test_pending_points_with_any_value():
    """Conditioning on any values gives the deviations that the pending points give."""
    model = dense.hand_made((6, 4, 3), link="independent")
    pending, U = dense.points(3, 5, seed=7), dense.points(1, 9)[:, :-1]
    _, variance = model.hallucinate(pending).mean_variance(U)
    for seed in range(2):
        Y = torch.randn(5, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
        _, expected = model.condition_on_observations(pending, 100 * Y).mean_variance(U)
        assert torch.allclose(variance, expected, rtol=0, atol=1e-9 * prior_variance(model))


def test_pending_points_add_up():
    model, X = dense.hand_made((6, 4)), dense.points(2, 5)
    pending = dense.points(2, 5, seed=7)
    same(model.hallucinate(pending), model.hallucinate(pending[:2]).hallucinate(pending[2:]))
    same(model.hallucinate(pending).train().eval(), model.hallucinate(pending))
    assert model.hallucinate(None) is model
    assert model.hallucinate(X[:0]) is model
    observed = model.hallucinate(pending).condition_on_observations(X, dense.value(X[:, :-1], 1))
    same(observed, model.condition_on_observations(X, dense.value(X[:, :-1], 1)).hallucinate(pending))


@pytest.mark.parametrize("counts", [(6, 4), (6, 0)], ids=str)
def test_many_identical_pending_points(counts):
    model = dense.hand_made(counts, noise=1e-6)
    x = dense.points(1, 1)
    for fidelity in (0.0, 1.0):
        pending = torch.cat([x[:, :-1], torch.tensor([[fidelity]])], dim=-1).expand(100, 3)
        _, variance = model.hallucinate(pending).mean_variance(torch.cat([x[:, :-1], x[:, :-1] + 1e-8]))
        assert variance.isfinite().all()
        assert (variance >= 0).all()
        level = dense.fidelities(model)[int(fidelity)]
        below = model.mean_variance(x[:, :-1])[1][0, 0] * level.rho**2 if fidelity else 0.0
        assert variance[0, int(fidelity)] <= below + level.pending_noise / 50


@pytest.mark.parametrize("link", LINKS)
def test_conditioning_is_having_had_the_data(link):
    X, Y = dense.data((7, 5, 4))
    known = torch.tensor([0, 1, 2, 3, 7, 8, 9, 12, 13])
    new = torch.tensor([14, 4, 15, 10, 5, 6, 11])
    part = dense.set_by_hand(PerFidelityGP(X[known], Y[known], 3, link=link))
    whole = PerFidelityGP(X, Y, 3, link=link)
    whole.shift, whole.scale = part.shift, part.scale
    for mine, theirs in zip(part.levels, whole.levels, strict=True):
        theirs.load_state_dict(mine.state_dict())
    conditioned = part.condition_on_observations(X[new], Y[new])
    same(conditioned, whole)
    same(part.condition_on_observations(X[new[:3]], Y[new[:3]]).condition_on_observations(X[new[3:]], Y[new[3:]]), whole)
    assert len(part.train_X) == 9
    assert_dense(conditioned, dense.points(3, 5))


def test_conditioning_on_batches():
    """Batches of values, and of points of different fidelities, are as many models."""
    model = dense.hand_made((6, 4, 3))
    X = dense.points(3, 4, seed=4).reshape(2, 2, 3)
    Y = torch.randn(5, 2, 2, 1, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    batched, grid = model.condition_on_observations(X, Y), dense.points(3, 7)
    assert batched.batch_shape == (5, 2)
    posterior, (mean, variance) = batched.posterior(grid), batched.mean_variance(grid[:, :-1])
    pending = batched.hallucinate(grid[:2]).mean_variance(grid[:, :-1])
    assert posterior.mean.shape == (5, 2, 7, 1)
    assert mean.shape == variance.shape == (5, 2, 7, 3)
    assert torch.equal(pending[0], mean)
    for s in range(5):
        for b in range(2):
            alone = model.condition_on_observations(X[b], Y[s, b])
            assert torch.allclose(posterior.mean[s, b], alone.posterior(grid).mean, rtol=1e-9)
            assert torch.allclose(posterior.variance[s, b], alone.posterior(grid).variance, rtol=0, atol=1e-9)
            for found, expected in zip((mean, variance), alone.mean_variance(grid[:, :-1]), strict=True):
                assert torch.allclose(found[s, b], expected, rtol=1e-9, atol=1e-9)
            expected = alone.hallucinate(grid[:2]).mean_variance(grid[:, :-1])[1]
            assert torch.allclose(pending[1][s, b], expected, rtol=0, atol=1e-9)
    with pytest.raises(UnsupportedError, match=r"batch_shape = \(5, 2\)"):
        batched.fit()


@pytest.mark.parametrize("link", LINKS)
def test_fantasies(link):
    model = dense.hand_made((6, 4, 3), link=link)
    X, grid = dense.points(3, 6, seed=4).reshape(3, 2, 3), dense.points(3, 4)
    fantasies = model.fantasize(X, SobolQMCNormalSampler(torch.Size([32]), seed=0))
    posterior = fantasies.posterior(grid.expand(3, 4, 3))
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
    model = dense.hand_made((6, 4, 3), link=link)
    acquisition = qKnowledgeGradient(model, num_fantasies=3)
    X = dense.points(3, 4, seed=4).requires_grad_()
    (gradient,) = torch.autograd.grad(acquisition(X), X)
    for column in (0, 1):
        shift = torch.zeros_like(X)
        shift[0, column] = 1e-5
        slope = (acquisition((X + shift).detach()) - acquisition((X - shift).detach())) / 2e-5
        assert gradient[0, column].item() == pytest.approx(slope.item(), rel=1e-4, abs=1e-6)
    assert gradient[0, :2].abs().min() > 1e-6


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


@pytest.mark.parametrize("link", LINKS)
def test_single_precision(link):
    model = dense.hand_made((9, 6, 4), link=link, noise=1e-2)
    single, U = copy.deepcopy(model).float(), dense.points(1, 11)[:, :-1]
    atol, variance = TOLERANCES[torch.float32], prior_variance(model)
    pending = dense.points(3, 4, seed=7)
    for a, b in ((model, single), (model.hallucinate(pending), single.hallucinate(pending.float()))):
        exact, found = a.mean_variance(U), b.mean_variance(U.float())
        assert found[0].dtype == found[1].dtype == torch.float32
        assert torch.allclose(found[0].double(), exact[0], rtol=0, atol=atol * variance**0.5 * 2)
        assert torch.allclose(found[1].double(), exact[1], rtol=0, atol=atol * variance)
    moved = model.hallucinate(pending)
    moved.mean_variance(U)
    assert copy.deepcopy(moved).float().mean_variance(U.float())[1].dtype == torch.float32


def test_fits_in_single_precision():
    X, Y = dense.data((40, 20))
    Y = Y + 0.2 * torch.randn(60, 1, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    single, double = PerFidelityGP(X.float(), Y.float(), 2).fit(), PerFidelityGP(X, Y, 2).fit()
    U, atol, variance = dense.points(1, 30)[:, :-1], TOLERANCES[torch.float32], prior_variance(double)
    found = single.mean_variance(U.float())
    exact = copy.deepcopy(single).double().mean_variance(U)
    assert torch.allclose(found[0].double(), exact[0], rtol=0, atol=atol * variance**0.5)
    assert torch.allclose(found[1].double(), exact[1], rtol=0, atol=atol * variance)
    # the two optimisers stop at different places of the same hill
    assert (found[0].double() - double.mean_variance(U)[0]).abs().max() < 0.05 * Y.std()


@pytest.mark.parametrize("link", LINKS)
def test_fit_raises_the_likelihood(link):
    X, Y = dense.data((12, 8, 6))

    def log_likelihood(model: PerFidelityGP) -> float:
        levels = dense.fidelities(model)
        total = 0.0
        for m, fidelity in enumerate(levels):
            below = [fidelity.rho * dense.mean(levels, x, m - 1) if fidelity.rho else 0.0 for x in fidelity.X]
            K = fidelity.gram(fidelity.X, fidelity.X) + np.diag(fidelity.noise)
            centred = fidelity.y - fidelity.constant - below
            total -= 0.5 * (centred @ np.linalg.solve(K, centred) + np.linalg.slogdet(2 * np.pi * K)[1])
        return total

    start = PerFidelityGP(X, Y, 3, link=link)
    short = PerFidelityGP(X, Y, 3, link=link).fit(optimizer_kwargs={"options": {"maxiter": 1}})
    full = PerFidelityGP(X, Y, 3, link=link).fit()
    assert log_likelihood(full) > max(log_likelihood(start), log_likelihood(short)) + 1
    assert short.levels[0].constant != full.levels[0].constant
    assert not full.training


def test_recursion_learns_from_below():
    """Six observations of the target are enough where the fidelity below tells the shape."""
    X, Y = dense.data((30, 6))
    held_out, truth = dense.data((0, 40), seed=3)
    error = {}
    for link in LINKS:
        model = PerFidelityGP(X, Y, 2, link=link).fit()
        error[link] = (model.posterior(held_out).mean - truth).square().mean().sqrt().item()
    assert error["recursive"] < 0.5 * error["independent"], error


def test_fit_uses_some_of_many_observations(monkeypatch):
    seen = []
    monkeypatch.setattr(per_fidelity, "FIT_POINTS", 5)
    monkeypatch.setattr(level.Level, "fit", lambda self, U, Y, noise, below: seen.append((U, Y, noise, below)))
    model = dense.hand_made((13, 4)).fit()
    assert [[len(part) for part in parts] for parts in seen] == [[5] * 4, [4] * 4]
    assert torch.equal(seen[0][0], model.train_X[[0, 3, 6, 9, 12], :2])
    assert_dense(model, dense.points(2, 4))


def test_more_observations_than_are_fitted():
    X, Y = dense.data((per_fidelity.FIT_POINTS + 5, 3))
    model = PerFidelityGP(X, Y, 2).fit(optimizer_kwargs={"options": {"maxiter": 5}})
    with torch.no_grad():
        mean = model.posterior(X).mean
    assert model.caches[0].num_points == per_fidelity.FIT_POINTS + 5
    assert (mean - Y).abs().max() < 0.5 * Y.std()


@pytest.mark.parametrize("error", [ModelFittingError, NanError])
def test_what_cannot_be_fitted_keeps_its_hyper_parameters(monkeypatch, error):
    def failing(*args, **kwargs):
        raise error("a test")

    model = dense.hand_made((6, 4))
    before = copy.deepcopy(model)
    monkeypatch.setattr(level, "fit_gpytorch_mll", failing)
    with pytest.warns(UserWarning, match="hyper-parameters stay as they were"):
        model.fit()
    same(model, before, 1e-14)


@pytest.mark.parametrize("link", LINKS)
def test_known_noise(link):
    X, Y = dense.data((6, 4, 0))
    Yvar = torch.linspace(1e-3, 0.5, 10, dtype=torch.double).unsqueeze(-1)
    kernels = [dense.gpytorch_kernel("rbf", 2) for _ in range(3)]
    model = dense.set_by_hand(PerFidelityGP(X, Y, 3, Yvar, link=link, covar_modules=kernels))
    assert model.noise.tolist() == pytest.approx([Yvar[:6].mean().item(), Yvar[6:].mean().item(), Yvar.mean().item()])
    assert_dense(model, dense.points(3, 7))
    assert_dense(model.hallucinate(X[:3]), dense.points(3, 7), X[:3])
    fitted = PerFidelityGP(X, Y, 3, Yvar, link=link).fit()
    assert torch.equal(fitted.noise, model.noise)
    assert_dense(fitted, dense.points(3, 4))


def test_known_noise_of_further_observations():
    X, Y = dense.data((7, 5))
    Yvar = torch.linspace(0.1, 0.5, 12, dtype=torch.double).unsqueeze(-1)
    part, new = torch.arange(8), torch.arange(8, 12)
    model = dense.set_by_hand(PerFidelityGP(X[part], Y[part], 2, Yvar[part]))
    given = model.condition_on_observations(X[new], Y[new], noise=Yvar[new])
    assert torch.equal(given.train_Yvar, Yvar)
    usual = model.condition_on_observations(X[new], Y[new])
    assert torch.equal(usual.train_Yvar[8:], Yvar[7:8].expand(4, 1))
    fantasies = model.fantasize(X[new], SobolQMCNormalSampler(torch.Size([3])))
    assert fantasies.train_Yvar.shape == (3, 12, 1)


@pytest.mark.parametrize("link", LINKS)
def test_noise_of_an_observation(link):
    model = dense.hand_made((6, 4, 3), link=link)
    X = dense.points(3, 6)
    bare, noisy = model.posterior(X), model.posterior(X, observation_noise=True)
    noise = torch.tensor([level.pending_noise for level in dense.fidelities(model)]).double()
    expected = bare.distribution.covariance_matrix + torch.diag(noise[X[:, -1].long()])
    assert torch.allclose(noisy.distribution.covariance_matrix, expected, rtol=1e-12)
    assert torch.allclose(model.noise, noise, rtol=1e-12)
    given = model.posterior(X, observation_noise=torch.full((6, 1), 0.25).double())
    assert torch.allclose(given.variance, bare.variance + 0.25, rtol=1e-12)


def test_posterior_transform():
    transform = ScalarizedPosteriorTransform(torch.tensor([-2.0], dtype=torch.double), offset=1.0)
    model, X = dense.hand_made((6, 4)), dense.points(2, 3)
    found, plain = model.posterior(X, posterior_transform=transform), model.posterior(X)
    assert torch.allclose(found.mean, 1 - 2 * plain.mean, rtol=1e-12)
    assert torch.allclose(found.variance, 4 * plain.variance, rtol=1e-9)


def test_slopes():
    model = dense.hand_made((7, 5, 4, 3))
    levels = dense.fidelities(model)
    assert model.slopes.tolist() == pytest.approx([dense.weight(levels, 3, m) for m in range(4)], rel=1e-12)
    assert dense.hand_made((7, 5, 4), link="independent").slopes.tolist() == [0.0, 0.0, 1.0]
    assert dense.hand_made((7, 0, 4)).slopes.tolist() == [0.0, 0.0, 1.0]


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
        for a, b in zip(found, expected, strict=True):
            assert torch.allclose(a, b, rtol=1e-6, atol=1e-6)
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


@pytest.mark.parametrize("counts", [(4, 0), (0, 4), (0, 3, 0), (1, 1, 1), (1,), (0, 1, 0), (2, 1)], ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_few_observations(link, counts):
    X, Y = dense.data(counts)
    model = PerFidelityGP(X, Y, len(counts), link=link).fit()
    assert_dense(model, dense.points(len(counts), 4))
    mean, variance = model.mean_variance(torch.full((1, 2), 50.0, dtype=torch.double))
    assert mean.isfinite().all()
    assert (variance > 0).all()
    if len(X) == 1:
        assert mean[0].tolist() == pytest.approx([Y.item()] * len(counts), abs=3.0)


@pytest.mark.parametrize("value", [0.0, 1.0, -1e9, 1e-9])
@pytest.mark.parametrize("link", LINKS)
def test_constant_targets(link, value):
    X, _ = dense.data((7, 4))
    model = PerFidelityGP(X, torch.full((11, 1), value, dtype=torch.double), 2, link=link).fit()
    mean, variance = model.mean_variance(X[:, :-1])
    assert mean.flatten().tolist() == pytest.approx([value] * 22, rel=1e-6, abs=1e-6)
    assert variance.isfinite().all()
    assert (variance >= 0).all()


@pytest.mark.parametrize("scale", [2.0**30, 2.0**-30], ids=["1e9", "1e-9"])
@pytest.mark.parametrize("link", LINKS)
def test_scale_of_the_targets(link, scale):
    """A power of two changes no digit of the standardised targets."""
    X, Y = dense.data((9, 5))
    usual, scaled = PerFidelityGP(X, Y, 2, link=link).fit(), PerFidelityGP(X, scale * Y, 2, link=link).fit()
    U = dense.points(1, 6)[:, :-1]
    for power, a, b in zip((1, 2), usual.mean_variance(U), scaled.mean_variance(U), strict=True):
        assert torch.allclose(scale**power * a, b, rtol=1e-12, atol=0)
    Z = torch.cat([U, torch.ones_like(U[:, :1])], dim=-1)
    assert torch.allclose(scale**2 * usual.posterior(Z).variance, scaled.posterior(Z).variance, rtol=1e-9, atol=0)


def test_offset_of_the_targets():
    X, Y = dense.data((9, 5))
    shifted = PerFidelityGP(X, Y + 1e9, 2).fit()
    U = dense.points(1, 6)[:, :-1]
    mean, variance = PerFidelityGP(X, Y, 2).fit().mean_variance(U)
    # beside 1e9 a double has 1e-7 left, and the fit sees it
    assert torch.allclose(shifted.mean_variance(U)[0] - 1e9, mean, rtol=0, atol=1e-2)
    assert torch.allclose(shifted.mean_variance(U)[1], variance, rtol=0.1, atol=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda model: UpperConfidenceBound(model, beta=2.0),
        lambda model: LogExpectedImprovement(model, best_f=1.0),
        lambda model: PosteriorMean(model),
        lambda model: qLogExpectedImprovement(model, best_f=1.0, sampler=SobolQMCNormalSampler(torch.Size([16]), seed=0)),
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
    fixed = FixedFeatureAcquisitionFunction(acquisition, 3, [2], [1.0])
    u, other = optimize_acqf(fixed, bounds[:, :2], 1, **options)
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


def test_default_kernels_and_names():
    model = PerFidelityGP(*dense.data((6, 4, 0, 2)), 4)
    assert model.linked == [False, True, False, False]
    assert (model.num_outputs, model.dim, model.batch_shape) == (1, 2, torch.Size([]))
    assert torch.equal(model.train_inputs[0], model.train_X)
    assert torch.equal(model.train_targets, model.train_Y[:, 0])
    assert model.likelihood is model.levels[-1].likelihood
    assert isinstance(model.levels[1].covar_module, ScaleKernel)


GOOD_X, GOOD_Y = dense.data((3, 2))


def changed(X: torch.Tensor, row: int, column: int, value: float) -> torch.Tensor:
    X = X.clone()
    X[row, column] = value
    return X


@pytest.mark.parametrize(
    ("error", "message", "inputs"),
    [
        (SettingError, "link = 'chained': must be 'recursive' or 'independent'", {"link": "chained"}),
        (SettingError, "num_fidelities = 0: must be a whole number", {"num_fidelities": 0}),
        (SettingError, "num_fidelities = 2.0: must be a whole number", {"num_fidelities": 2.0}),
        (SettingError, "covar_modules = '1 kernels'", {"covar_modules": [RBFKernel()]}),
        (BotorchTensorDimensionError, r"train_X of shape \(5,\)", {"train_X": GOOD_X[:, 0]}),
        (BotorchTensorDimensionError, r"train_X of shape \(5, 1\)", {"train_X": GOOD_X[:, -1:]}),
        (BotorchTensorDimensionError, r"train_Y of shape \(5,\): must be n x 1 with n = 5", {"train_Y": GOOD_Y[:, 0]}),
        (BotorchTensorDimensionError, r"train_Y of shape \(4, 1\)", {"train_Y": GOOD_Y[:4]}),
        (BotorchTensorDimensionError, r"train_Yvar of shape \(5, 2\)", {"train_Yvar": GOOD_X[:, :2]}),
        (InputDataError, "train_X: must have at least one row", {"train_X": GOOD_X[:0], "train_Y": GOOD_Y[:0]}),
        (InputDataError, "train_X: must be finite", {"train_X": changed(GOOD_X, 1, 0, float("nan"))}),
        (InputDataError, "train_Y: must be finite", {"train_Y": changed(GOOD_Y, 1, 0, float("inf"))}),
        (InputDataError, "train_Yvar: must be finite", {"train_Yvar": changed(GOOD_Y.abs(), 1, 0, float("nan"))}),
        (InputDataError, "train_Yvar = -0.5: must not be negative", {"train_Yvar": changed(GOOD_Y.abs(), 2, 0, -0.5)}),
        (InputDataError, r"fidelity 2 in the last column .* 0\.\.1", {"train_X": changed(GOOD_X, 0, -1, 2.0)}),
        (InputDataError, "fidelity -1 in the last column", {"train_X": changed(GOOD_X, 0, -1, -1.0)}),
        (InputDataError, "fidelity 0.5 in the last column", {"train_X": changed(GOOD_X, 0, -1, 0.5)}),
    ],
)
def test_bad_input(error, message, inputs):
    given = {"train_X": GOOD_X, "train_Y": GOOD_Y, "num_fidelities": 2, **inputs}
    with pytest.raises(error, match=message):
        PerFidelityGP(**given)


def test_bad_points():
    model = dense.hand_made((3, 2))
    x = torch.tensor([[0.5, 0.5, 1.0]], dtype=torch.double)
    with pytest.raises(BotorchTensorDimensionError, match=r"X of shape \(1, 2\): the last axis must be d \+ 1 = 3"):
        model.posterior(x[:, :2])
    with pytest.raises(BotorchTensorDimensionError, match=r"X of shape \(1, 3\): the last axis must be d = 2"):
        model.mean_variance(x)
    with pytest.raises(InputDataError, match="X: fidelity 3"):
        model.posterior(changed(x, 0, 2, 3.0))
    with pytest.raises(InputDataError, match="X: must be finite"):
        model.posterior(changed(x, 0, 0, float("nan")))
    with pytest.raises(InputDataError, match="X_pending: fidelity 0.5"):
        model.hallucinate(changed(x, 0, 2, 0.5))
    with pytest.raises(BotorchTensorDimensionError, match=r"X_pending of shape \(1, 1, 3\): must be p x"):
        model.hallucinate(x.unsqueeze(0))
    with pytest.raises(BotorchTensorDimensionError, match=r"X_pending of shape \(3,\): must be p x"):
        model.hallucinate(x[0])
    with pytest.raises(InputDataError, match="X: fidelity 9"):
        model.condition_on_observations(changed(x, 0, 2, 9.0), GOOD_Y[:1])


def test_kernels_must_be_of_one_kind():
    kernels = [dense.gpytorch_kernel("rbf", 2), dense.gpytorch_kernel("matern32", 2)]
    with pytest.raises(UnsupportedError, match=r"kernels = \['matern32', 'rbf'\]: must be of one kind"):
        PerFidelityGP(GOOD_X, GOOD_Y, 2, covar_modules=kernels).posterior(GOOD_X)
