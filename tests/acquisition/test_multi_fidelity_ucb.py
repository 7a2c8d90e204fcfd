"""φ, the fidelity rule and the cost thresholds, against plain loops and in BoTorch's optimisers."""

import copy
import math
from itertools import product

import dense
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import LinearMCObjective, ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed
from botorch.sampling import SobolQMCNormalSampler
from refusals import refused
from tolerances import TOLERANCES

from mfbo_torch.acquisition import MultiFidelityUpperConfidenceBound, cost_thresholds, select_fidelity
from mfbo_torch.acquisition.multi_fidelity_ucb import explained, explained_variance, lowest_paying
from mfbo_torch.models import PerFidelityGP

LINKS = ("recursive", "independent")
COUNTS = [(6,), (6, 4), (6, 5, 3), (6, 5, 4, 3), (5, 0, 3), (0, 4), (5, 0)]
BETA = 1.7
EXACT = TOLERANCES[torch.double]
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def zeta_of(num_fidelities: int) -> list[float]:
    """``((M-1)ζ, ..., ζ, 0)``."""
    return [0.35 * (num_fidelities - 1 - m) for m in range(num_fidelities)]


def pending_of(num_fidelities: int) -> torch.Tensor:
    return dense.points(num_fidelities, 5, seed=7)


def deviation(levels: list[dense.Fidelity], x: list[float], m: int, pending: list[dense.Point]) -> float:
    return math.sqrt(dense.covariance(levels, (x, m), (x, m), pending))


def widths(model: PerFidelityGP, x: list[float], pending: torch.Tensor | None) -> list[float]:
    """``β^1/2 σ^(m)(x)`` by plain loops."""
    levels, out = dense.fidelities(model), [] if pending is None else dense.as_points(pending)
    return [math.sqrt(BETA) * deviation(levels, x, m, out) for m in range(len(levels))]


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_phi_by_plain_loops(link, counts, out):
    model = dense.hand_made(counts, link=link)
    pending = pending_of(len(counts)) if out else None
    levels, U = dense.fidelities(model), dense.points(1, 5)[:, :-1]
    zeta = zeta_of(len(counts))
    tightest = MultiFidelityUpperConfidenceBound(model, BETA, zeta, pending)
    target = MultiFidelityUpperConfidenceBound(model, BETA, X_pending=pending)
    for x, phi, top in zip(U.tolist(), tightest(U.unsqueeze(-2)), target(U.unsqueeze(-2)), strict=True):
        width = widths(model, x, pending)
        bounds = [dense.mean(levels, x, m) + width[m] for m in range(len(levels))]
        assert phi.item() == pytest.approx(min(b + z for b, z in zip(bounds, zeta, strict=True)), rel=EXACT)
        assert top.item() == pytest.approx(bounds[-1], rel=EXACT)
        found = tightest.bounds(torch.tensor(x, dtype=torch.double))
        assert found.tolist() == pytest.approx([b + z for b, z in zip(bounds, zeta, strict=True)], rel=EXACT)


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_fidelity_rule_by_plain_loops(link, counts, out):
    """Thresholds just below and just above each width, so that every answer is asked for."""
    model = dense.hand_made(counts, link=link)
    pending = pending_of(len(counts)) if out else None
    top = len(counts) - 1
    for u in dense.points(1, 3)[:, :-1]:
        width = widths(model, u.tolist(), pending)
        for lowest in range(top + 1):
            gamma = [width[m] * (1 - 1e-8 if m >= lowest else 1 + 1e-8) for m in range(top)]
            found = select_fidelity(model, u.unsqueeze(0), BETA, gamma, pending)
            assert found == next((m for m in range(top) if width[m] >= gamma[m]), top) == lowest


def test_a_width_that_meets_its_threshold_counts():
    model = dense.hand_made((3, 0, 2), link="independent")
    u = torch.tensor([[50.0, 50.0]], dtype=torch.double)
    _, variance = model.mean_variance(u)
    width = (BETA * variance[0]).sqrt().tolist()
    assert select_fidelity(model, u, BETA, width[:2]) == 0
    assert select_fidelity(model, u, BETA, [math.inf, width[1]]) == 1
    assert select_fidelity(model, u, BETA, [math.inf, math.inf]) == 2
    assert select_fidelity(dense.hand_made((3,)), u, BETA, []) == 0


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_cost_thresholds_by_formula(link, counts, out):
    model = dense.hand_made(counts, link=link)
    pending = pending_of(len(counts)) if out else None
    top, u = len(counts) - 1, dense.points(1, 1)[:, :-1]
    costs = [1.0, 3.0, 10.0, 25.0][: top + 1]
    growth = [1.0, 4.0, 2.0][:top]
    levels = dense.fidelities(model)
    width = widths(model, u[0].tolist(), pending)[-1]
    for given, factors in ((None, [1.0] * top), (growth, growth)):
        found = cost_thresholds(model, u, BETA, costs, given, pending)
        assert len(found) == top
        for m in range(top):
            slope = abs(dense.weight(levels, top, m))
            expected = width * math.sqrt(factors[m] * costs[m] / costs[-1]) / slope if slope else math.inf
            assert found[m] == pytest.approx(expected, rel=EXACT)


def test_cost_thresholds_weigh_what_a_fidelity_explains():
    """A fidelity is asked exactly where its share of the target's variance is worth its cost."""
    model = dense.hand_made((6, 4))
    (level, _), u = dense.fidelities(model), dense.points(1, 1)[:, :-1]
    x, rho = u[0].tolist(), dense.fidelities(model)[1].rho
    share = rho**2 * deviation([level], x, 0, []) ** 2 / deviation(dense.fidelities(model), x, 1, []) ** 2
    assert 0 < share < 1
    for cost, expected in ((0.99 * share, 0), (1.01 * share, 1)):
        assert select_fidelity(model, u, BETA, cost_thresholds(model, u, BETA, [cost, 1.0])) == expected


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_the_lowest_that_pays(counts):
    """As by the thresholds; of what is explained at several designs each row is that of the design."""
    model, costs = dense.hand_made(counts), [1.0, 3.0, 10.0, 25.0][: len(counts)]
    U = dense.points(1, 8)[:, :-1]
    with torch.no_grad():
        every = explained(model.slopes, model.mean_variance(U)[1])
    for u, found in zip(U.split(1), every, strict=True):
        assert torch.allclose(found, explained_variance(model, u))
        gamma = cost_thresholds(model, u, BETA, costs)
        assert lowest_paying(found.tolist(), costs) == select_fidelity(model, u, BETA, gamma)
    assert lowest_paying([0.0] * len(counts), costs) == len(counts) - 1


def test_noise_leaves_less_to_explain():
    """By as much as one noisy query at a fidelity narrows the target's variance, by plain loops."""
    model = dense.hand_made((6, 4), noise=0.05)
    levels, u = dense.fidelities(model), dense.points(1, 1)[:, :-1]
    x = u[0].tolist()
    found = explained_variance(model, u, noise=model.noise)
    for m in range(2):
        drop = deviation(levels, x, 1, []) ** 2 - deviation(levels, x, 1, [(x, m)]) ** 2
        assert found[m].item() == pytest.approx(drop, rel=1e-6)
        assert found[m] < explained_variance(model, u)[m]


@pytest.mark.parametrize("link", LINKS)
def test_nothing_left_to_explain(link):
    """No band, no reason to stay at a cheap fidelity."""
    model = dense.hand_made((6, 4), link=link)
    u = dense.points(1, 1)[:, :-1]
    gamma = cost_thresholds(model, u, 0.0, [1.0, 10.0])
    assert gamma == [math.inf]
    assert select_fidelity(model, u, 0.0, gamma) == 1


def test_designs_alone_are_pending_at_the_target():
    model = dense.hand_made((6, 4, 3), link="independent")
    U, x = dense.points(1, 6)[:, :-1], pending_of(3)[:, :-1]
    narrow, wide = (MultiFidelityUpperConfidenceBound(model, BETA, zeta_of(3)) for _ in range(2))
    narrow.set_X_pending(x)
    wide.set_X_pending(torch.cat([x, torch.full_like(x[:, :1], 2.0)], dim=-1))
    assert torch.equal(narrow.bounds(U), wide.bounds(U))
    free = MultiFidelityUpperConfidenceBound(model, BETA, zeta_of(3)).bounds(U)
    assert torch.allclose(narrow.bounds(U)[:, :2], free[:, :2], rtol=1e-12)
    assert (narrow.bounds(U)[:, 2] < free[:, 2] - 1e-3).all()
    narrow.set_X_pending(None)
    assert narrow.X_pending is None
    assert torch.equal(narrow.bounds(U), free)


def test_designs_that_were_pending_keep_their_fidelity():
    """An optimiser appends its candidates to ``X_pending`` and puts the former points back at the end."""
    model = dense.hand_made((6, 4, 3), link="independent")
    U, pending = dense.points(1, 6)[:, :-1], pending_of(3)
    acquisition = MultiFidelityUpperConfidenceBound(model, BETA, zeta_of(3), pending)
    before = acquisition.bounds(U)
    base = acquisition.X_pending
    assert torch.equal(base, pending[:, :-1])
    acquisition.set_X_pending(torch.cat([base, torch.tensor([[0.3, 0.6]], dtype=torch.double)]))
    more = torch.cat([pending, torch.tensor([[0.3, 0.6, 2.0]], dtype=torch.double)])
    expected = MultiFidelityUpperConfidenceBound(model, BETA, zeta_of(3), more).bounds(U)
    assert torch.equal(acquisition.bounds(U), expected)
    acquisition.set_X_pending(base)
    assert torch.equal(acquisition.bounds(U), before)


@pytest.mark.parametrize("batch", [(3,), (2, 3), (2, 1)], ids=str)
@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
@pytest.mark.parametrize("zeta", [None, [0.2, 0.0]], ids=["target", "all"])
@pytest.mark.parametrize("link", LINKS)
def test_fantasies_by_plain_loops(link, zeta, out, batch):
    """Designs meet the models of a batch as in BoTorch's own acquisition functions, in value and gradient."""
    model, new, pending = dense.hand_made((6, 4), link=link), dense.points(2, 2, seed=4), pending_of(2) if out else None
    fantasies = model.fantasize(new, SobolQMCNormalSampler(torch.Size(batch), seed=0))
    Y = fantasies.train_Y[..., -2:, :].detach()
    assert fantasies.batch_shape == batch
    theirs = UpperConfidenceBound(SingleTaskGP(new[:, :-1].expand(*batch, 2, 2), Y), BETA)
    acquisition = MultiFidelityUpperConfidenceBound(fantasies, BETA, zeta, pending)
    alone = {
        i: MultiFidelityUpperConfidenceBound(model.condition_on_observations(new, Y[i]), BETA, zeta, pending)
        for i in product(*map(range, batch))
    }
    for shape in ((), (1,), batch, (4, *batch), (4, *[1] * len(batch)), (5, 4, *batch)):
        X = torch.rand(*shape, 1, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double).requires_grad_()
        found = acquisition(X)
        assert found.shape == theirs(X).shape
        each = X.expand(*found.shape, 1, 2)
        expected = torch.stack([one(each[..., *i, :, :]) for i, one in alone.items()], -1).reshape(found.shape)
        assert torch.allclose(found, expected, rtol=EXACT)
        slopes = (torch.autograd.grad(value.sum(), X)[0] for value in (found, expected))
        assert torch.allclose(*slopes, rtol=1e-6, atol=1e-7)


def test_designs_that_no_batch_takes():
    acquisition = MultiFidelityUpperConfidenceBound(dense.hand_made((6, 4)), BETA)
    assert acquisition(torch.rand(0, 1, 2, dtype=torch.double)).shape == (0,)
    new = dense.points(2, 2, seed=4)
    for batch, error in (((3,), RuntimeError), ((3, 1), AssertionError)):
        fantasies = dense.hand_made((6, 4)).condition_on_observations(new, torch.zeros(*batch, 2, 1).double())
        with pytest.raises(error):
            MultiFidelityUpperConfidenceBound(fantasies, BETA)(torch.rand(5, 1, 2, dtype=torch.double))


@pytest.mark.parametrize("zeta", [None, [0.2, 0.0]], ids=["target", "all"])
@pytest.mark.parametrize("link", LINKS)
def test_gradients(link, zeta):
    acquisition = MultiFidelityUpperConfidenceBound(dense.hand_made((6, 4), link=link), BETA, zeta, pending_of(2))
    U = dense.points(1, 5)[:, :-1].unsqueeze(-2).requires_grad_()
    assert acquisition(U).shape == (5,)
    assert torch.autograd.gradcheck(acquisition, U)


def test_gradient_where_nothing_is_uncertain():
    """A square root of zero has no slope; an optimiser must not see it."""
    X, Y = dense.data((5, 3))
    model = dense.set_by_hand(PerFidelityGP(X, Y, 2, torch.zeros_like(Y)))
    U = X[:, :-1].unsqueeze(-2).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(MultiFidelityUpperConfidenceBound(model, BETA, [1.0, 0.0])(U).sum(), U)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
@pytest.mark.parametrize("zeta", [None, [0.2, 0.0]], ids=["target", "all"])
def test_optimizer(zeta, out):
    model = dense.hand_made((8, 5), link="recursive" if zeta is None else "independent")
    acquisition = MultiFidelityUpperConfidenceBound(model, BETA, zeta, pending_of(2) if out else None)
    before, grid = acquisition.X_pending, dense.points(1, 300)[:, :-1].unsqueeze(-2)
    values = acquisition(grid)
    options = {"num_restarts": 3, "raw_samples": 32, "options": {"seed": 0}}
    x, value = optimize_acqf(acquisition, BOUNDS, 1, **options)
    assert value >= values.max() - 1e-6
    X, sequence = optimize_acqf(acquisition, BOUNDS, 2, sequential=True, **options)
    assert X.shape == (2, 2)
    assert torch.allclose(X[:1], x, atol=1e-3)
    # the second point is the maximiser given the first one pending at the target
    first = torch.cat([X[:1], torch.ones(1, 1)], dim=-1)
    given = MultiFidelityUpperConfidenceBound(model, BETA, zeta, torch.cat([pending_of(2), first]) if out else first)
    assert sequence[1].item() == pytest.approx(given(X[1:].unsqueeze(0)).item(), rel=1e-12)
    assert sequence[1] >= given(grid).max() - 1e-6
    assert (before is None) == (acquisition.X_pending is None) == (not out)
    assert before is None or torch.equal(acquisition.X_pending, before)
    assert torch.equal(acquisition(grid), values)


@pytest.mark.parametrize("out", [False, True], ids=["free", "pending"])
def test_mixed_and_discrete_optimizers(out):
    acquisition = MultiFidelityUpperConfidenceBound(dense.hand_made((8, 5)), BETA, None, pending_of(2) if out else None)
    before, grid = acquisition.X_pending, dense.points(1, 40)[:, :-1]
    values = acquisition(grid.unsqueeze(-2))
    chosen, best = optimize_acqf_discrete(acquisition, 2, grid)
    assert torch.equal(chosen[0], grid[values.argmax()])
    assert best[0] == values.max()
    assert not torch.equal(chosen[0], chosen[1])
    assert torch.equal(acquisition(grid.unsqueeze(-2)), values)
    fixed = [{0: 0.25}, {0: 0.75}]
    options = {"num_restarts": 2, "raw_samples": 16, "options": {"seed": 0}}
    x, value = optimize_acqf_mixed(acquisition, BOUNDS, 1, fixed_features_list=fixed, **options)
    lines = [torch.stack([torch.full((50,), line[0]), torch.linspace(0, 1, 50)], -1) for line in fixed]
    assert value >= acquisition(torch.cat(lines).double().unsqueeze(-2)).max() - 1e-6
    # with acquisition values it would ask for the joint one of both points, which an upper bound does not have
    X, _ = optimize_acqf_mixed(acquisition, BOUNDS, 2, fixed_features_list=fixed, return_acq_values=False, **options)
    assert set(X[:, 0].tolist()) <= {0.25, 0.75}
    assert torch.allclose(X[:1], x, atol=1e-3)
    assert not torch.equal(X[0], X[1])
    assert torch.equal(acquisition(grid.unsqueeze(-2)), values)
    assert (before is None) == (acquisition.X_pending is None)
    assert before is None or torch.equal(acquisition.X_pending, before)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_precision(dtype):
    model = dense.hand_made((8, 5), noise=1e-2)
    U = dense.points(1, 5)[:, :-1].unsqueeze(-2)
    exact = MultiFidelityUpperConfidenceBound(model, BETA, [0.2, 0.0], pending_of(2))(U)
    converted = copy.deepcopy(model).to(dtype)
    found = MultiFidelityUpperConfidenceBound(converted, BETA, [0.2, 0.0], pending_of(2).to(dtype))(U.to(dtype))
    assert found.dtype == dtype
    assert torch.allclose(found.double(), exact, rtol=0, atol=10 * TOLERANCES[dtype])


def test_bad_settings():
    model = dense.hand_made((3, 2))
    for zeta in ([0.1], [0.2, 0.1, 0.0], [0.2, 0.1], [-0.1, 0.0], [math.nan, 0.0]):
        refused("^zeta = ", MultiFidelityUpperConfidenceBound, model, BETA, zeta)
    for beta in (-0.1, math.nan, math.inf):
        refused("^beta = ", MultiFidelityUpperConfidenceBound, model, beta)


def test_bad_points():
    model = dense.hand_made((3, 2))
    x = torch.tensor([[0.5, 0.5]], dtype=torch.double)
    acquisition = MultiFidelityUpperConfidenceBound(model, BETA)
    with pytest.raises(AssertionError, match="q=1"):
        acquisition(torch.rand(3, 2, 2, dtype=torch.double))
    with pytest.raises(BotorchTensorDimensionError, match=r"the last axis must be d = 2"):
        acquisition(torch.rand(3, 1, 3, dtype=torch.double))
    for wrong in (torch.rand(2, 4), torch.rand(2, 1), x[0], torch.rand(2, 1, 2)):
        refused(r"X_pending of shape", acquisition.set_X_pending, wrong.double(), error=BotorchTensorDimensionError)
    for wrong, said in (([0.5, 0.5, 2.0], "X_pending: fidelity 2"), ([0.5, math.nan], "X_pending: must be finite")):
        refused(said, acquisition.set_X_pending, torch.tensor([wrong]).double(), error=InputDataError)
    assert acquisition.X_pending is None
    for wrong in (torch.rand(1, 3), torch.rand(2, 2)):
        with pytest.raises(BotorchTensorDimensionError, match=r"x of shape \(., .\): must be 1 x 2"):
            select_fidelity(model, wrong, BETA, [0.1])
    refused(r"gamma = \[0.1, 0.2\]: must be 1 thresholds", select_fidelity, model, x, BETA, [0.1, 0.2])
    refused(r"beta = -1.0", select_fidelity, model, x, -1.0, [0.1])
    refused(r"costs = \[1.0\]: must be 2 numbers", cost_thresholds, model, x, BETA, [1.0])
    refused(r"beta = -1.0", cost_thresholds, model, x, -1.0, [1.0, 10.0])


def test_input_constructor():
    model, pending = dense.hand_made((6, 4, 3)), pending_of(3)
    construct = get_acqf_input_constructor(MultiFidelityUpperConfidenceBound)
    plain = MultiFidelityUpperConfidenceBound(**construct(model=model))
    assert (plain.beta, plain.zeta, plain.X_pending) == (0.2, None, None)
    one = ScalarizedPosteriorTransform(torch.ones(1).double())
    for target in ({2: 2.0}, {-1: 2}, None):
        given = {"training_data": {}, "objective": None, "beta": BETA, "zeta": zeta_of(3), "X_pending": pending}
        inputs = construct(model=model, target_fidelities=target, posterior_transform=one, **given)
        acquisition = MultiFidelityUpperConfidenceBound(**inputs)
        assert (acquisition.beta, acquisition.zeta) == (BETA, zeta_of(3))
        assert torch.equal(acquisition.X_pending, pending[:, :-1])
    for wrong in ({2: 1.0}, {0: 2.0}):
        refused(r"target_fidelities = .*: must be {2: 2}", construct, model=model, target_fidelities=wrong)
    for wrong in (ScalarizedPosteriorTransform(torch.ones(2).double()), LinearMCObjective(torch.ones(1))):
        with pytest.raises(UnsupportedError, match=r"posterior_transform = .*: must be a .* of one outcome"):
            construct(model=model, posterior_transform=wrong)
    X = dense.points(3, 5)[:, :-1]
    minus = construct(model=model, posterior_transform=ScalarizedPosteriorTransform(-torch.ones(1).double()))["model"]
    for sign, found, expected in zip((-1, 1), minus.mean_variance(X), model.mean_variance(X), strict=True):
        assert torch.equal(found, sign * expected)


@pytest.mark.parametrize("unit", [1e-12, 1e-40, 1e30])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "torch"])
def test_unit_of_the_values_changes_nothing(unit: float, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A floor under the variances would be the whole band of small values."""
    if not fused:
        monkeypatch.setattr(MultiFidelityUpperConfidenceBound, "fused", lambda self: None)
    (X, Y), found = dense.data((6, 4)), []
    at = X[:, None, :-1].clone().requires_grad_()
    for scale in (1.0, unit):
        one = dense.set_by_hand(PerFidelityGP(X, Y * scale, num_fidelities=2))
        value = MultiFidelityUpperConfidenceBound(one, BETA)(at) / scale
        found.append(torch.cat([value, torch.autograd.grad(value.sum(), at)[0].flatten()]).detach())
    torch.testing.assert_close(found[1], found[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_expected_weights(counts):
    """The fidelities explain by them; the target keeps what is its own beside the fidelity below."""
    model, u = dense.hand_made(counts), dense.points(1, 1)[:, :-1]
    own = explained_variance(model, u)
    assert torch.allclose(explained_variance(model, u, expected=model.slopes), own)
    doubled = torch.cat([2 * model.slopes[:-1], model.slopes[-1:]])
    found = explained_variance(model, u, expected=doubled)
    assert torch.allclose(found[:-1], 4 * own[:-1])
    assert found[-1].item() == pytest.approx((own[-1] + 3 * own[-2]).item() if len(own) > 1 else own[-1].item())
