"""The model of several fidelities, against plain loops and the joint process it stands for."""

import copy
import pickle

import dense
import numpy as np
import pytest
import torch
from agreement import COUNTS, LINKS, assert_agrees, assert_dense, prior_variance, same
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import RBFKernel, ScaleKernel
from refusals import refused
from tolerances import TOLERANCES

from mfbo_torch.models import PerFidelityGP
from mfbo_torch.models.multi_fidelity import level
from mfbo_torch.ops.cache import factorize
from mfbo_torch.utils.errors import SettingError


@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_posterior_by_plain_loops(link, counts):
    model = dense.hand_made(counts, link=link)
    assert_dense(model, torch.cat([dense.points(len(counts), 7), model.train_X[:2]]))


@pytest.mark.parametrize("kind", dense.KINDS)
@pytest.mark.parametrize("link", LINKS)
def test_kernels(link, kind):
    assert_dense(dense.hand_made((6, 5, 3), dim=3, link=link, kind=kind), dense.points(3, 5, dim=3))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("link", LINKS)
def test_more_observations_extend_the_factors(link, known, monkeypatch):
    """With the factors at hand no fidelity that had data is factored again, and nothing else changes."""
    X, Y = dense.data((6, 5, 3, 2))
    first = torch.tensor([0, 1, 2, 3, 6, 7, 8, 11, 12])
    rest = torch.tensor([i for i in range(16) if i not in first])
    noise = torch.full_like(Y, 1e-3) if known else None
    model = PerFidelityGP(X[first], Y[first], 4, None if noise is None else noise[first], link=link).eval()
    anew = copy.deepcopy(model).condition_on_observations(X[rest], Y[rest])
    anew.load_state_dict(anew.state_dict())  # and the factors are forgotten
    calls = []
    monkeypatch.setattr(level, "factorize", lambda *args: calls.append(1) or factorize(*args))
    grown = model.condition_on_observations(X[rest], Y[rest])
    grid = dense.points(4, 9)
    for found, expected in zip(grown.mean_variance(grid[:, :-1]), anew.mean_variance(grid[:, :-1]), strict=True):
        assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert len(calls) == 4 + 1 + 4  # those of the first data, the fidelity that had none, those of ``anew``
    pending = grid[:2]
    same(grown.hallucinate(pending), anew.hallucinate(pending))


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
    return dense.set_by_hand(PerFidelityGP(X, Y, len(counts), torch.full_like(Y, noise), covar_modules=kernels))


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
    first = part.condition_on_observations(X[new[:3]], Y[new[:3]])
    same(first.condition_on_observations(X[new[3:]], Y[new[3:]]), whole)
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
    refused(r"batch_shape = \(5, 2\)", batched.fit, error=UnsupportedError)


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
    assert torch.equal(model.condition_on_observations(X[new], Y[new], noise=Yvar[new]).train_Yvar, Yvar)
    assert torch.equal(model.condition_on_observations(X[new], Y[new]).train_Yvar[8:], Yvar[7:8].expand(4, 1))
    assert model.fantasize(X[new], SobolQMCNormalSampler(torch.Size([3]))).train_Yvar.shape == (3, 12, 1)


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


def test_slopes():
    model = dense.hand_made((7, 5, 4, 3))
    levels = dense.fidelities(model)
    assert model.slopes.tolist() == pytest.approx([dense.weight(levels, 3, m) for m in range(4)], rel=1e-12)
    assert dense.hand_made((7, 5, 4), link="independent").slopes.tolist() == [0.0, 0.0, 1.0]
    assert dense.hand_made((7, 0, 4)).slopes.tolist() == [0.0, 0.0, 1.0]


def set_lengthscale(model: PerFidelityGP) -> None:
    model.levels[1].covar_module.base_kernel.lengthscale = 0.4


def set_noise(model: PerFidelityGP) -> None:
    model.levels[0].likelihood.noise = 0.05


def write_past_the_count(model: PerFidelityGP) -> None:
    model.levels[1].mean_module.rho.data.fill_(0.3)


@pytest.mark.parametrize(
    "copied", [lambda model: model, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
@pytest.mark.parametrize("change", [set_lengthscale, set_noise, write_past_the_count])
def test_follows_hyper_parameters_assigned_in_evaluation_mode(change, copied):
    model, grid, pending = dense.hand_made((6, 4, 3)), dense.points(3, 7), dense.points(3, 2, seed=7)
    U = grid[:, :-1]

    def answers(model: PerFidelityGP, hallucinated: PerFidelityGP) -> list[torch.Tensor]:
        more = model.condition_on_observations(grid[:2], torch.ones(2, 1).double())
        moments = model.mean_variance(U) + hallucinated.mean_variance(U) + more.mean_variance(U)
        return [model.slopes, *model.every_fidelity(U), *moments, model.posterior(grid).mean]

    hallucinated = model.hallucinate(pending)
    before = answers(model, hallucinated)
    change(model)
    fresh = copy.deepcopy(model).train().eval()
    model, hallucinated = copied((model, hallucinated))
    found = answers(model, hallucinated)
    for a, b in zip(found, answers(fresh, fresh.hallucinate(pending)), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(found[1], before[1])
    kept = model.caches
    assert all(a is b for a, b in zip(kept, model.caches, strict=True))


def test_a_copy_keeps_its_factors(monkeypatch):
    model, U = dense.hand_made((6, 4, 3)), dense.points(3, 7)[:, :-1]
    expected = model.mean_variance(U)[0]
    monkeypatch.delattr(level, "factorize")
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(copied.mean_variance(U)[0], expected)


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
    refused(message, PerFidelityGP, error=error, **given)


def test_bad_points():
    model = dense.hand_made((3, 2))
    x = torch.tensor([[0.5, 0.5, 1.0]], dtype=torch.double)
    with pytest.raises(BotorchTensorDimensionError, match=r"X of shape \(1, 2\): the last axis must be d \+ 1 = 3"):
        model.posterior(x[:, :2])
    with pytest.raises(BotorchTensorDimensionError, match=r"X of shape \(1, 3\): the last axis must be d = 2"):
        model.mean_variance(x)
    refused("X: fidelity 3", model.posterior, changed(x, 0, 2, 3.0), error=InputDataError)
    refused("X: must be finite", model.posterior, changed(x, 0, 0, float("nan")), error=InputDataError)
    refused(r"X_pending: fidelity 0\.5", model.hallucinate, changed(x, 0, 2, 0.5), error=InputDataError)
    refused("X: fidelity 9", model.condition_on_observations, changed(x, 0, 2, 9.0), GOOD_Y[:1], error=InputDataError)


def test_kernels_must_be_of_one_kind():
    kernels = [dense.gpytorch_kernel("rbf", 2), dense.gpytorch_kernel("matern32", 2)]
    with pytest.raises(UnsupportedError, match=r"kernels = \['matern32', 'rbf'\]: must be of one kind"):
        PerFidelityGP(GOOD_X, GOOD_Y, 2, covar_modules=kernels).posterior(GOOD_X)


def test_pending_points_cost_no_joint_with_every_point():
    """Each point with a copy of all pending ones would take ``m (p + M) n`` numbers for each process."""
    m, p, n = 2000, 20, 120
    model, pending = dense.hand_made((n, n)), dense.points(2, p, seed=7)
    designs = dense.points(2, m, seed=3)[:, :-1]
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        model.hallucinate(pending).mean_variance(designs)
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 20 * 8 * m * n < 8 * m * (p + 2) * n
