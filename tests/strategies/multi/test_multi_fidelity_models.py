"""MF-SKO against dense formulas; BoTorch's knowledge gradient and GIBBON on a short run."""

import dense
import numpy as np
import pytest
import torch
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from scipy.stats import norm
from strategy_table import SPACE, box, loop, toy
from toy import Hill

from mfbo_torch.acquisition.expected_improvement import LogAugmentedExpectedImprovement
from mfbo_torch.history import History, Query, Record
from mfbo_torch.loop.runner import run
from mfbo_torch.models.multi_fidelity.additive_kernel import AdditiveFidelityKernel
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import BOCA, MFGIBBON, MFGPUCB, MFSKO, MFKnowledgeGradient
from mfbo_torch.strategies.common.fit_schedule import quiet, standardized
from mfbo_torch.strategies.multi.botorch_base import FidelityCosts, multi_fidelity_gp
from mfbo_torch.strategies.snapshot import data_of

SPACE3 = box(2, 3)


def dense_kernel(kernel: AdditiveFidelityKernel, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    parts = [(part.base_kernel.lengthscale[0].tolist(), part.outputscale.item()) for part in kernel.kernels]

    def covariance(p: np.ndarray, q: np.ndarray) -> float:
        return sum(dense.kernel("rbf", p[:-1], q[:-1], *part) for part in parts[: int(min(p[-1], q[-1])) + 1])

    return np.array([[covariance(p, q) for q in b] for p in a])


def test_kernel_is_the_sum_over_shared_levels():
    kernel, a, b = AdditiveFidelityKernel(2, 3).double(), dense.points(3, 9), dense.points(3, 7, seed=1)
    for m, part in enumerate(kernel.kernels):
        part.outputscale = 0.5 + m
        part.base_kernel.lengthscale = torch.tensor([0.3 + 0.2 * m, 0.6])
    assert kernel(a, b).to_dense().detach().numpy() == pytest.approx(dense_kernel(kernel, a.numpy(), b.numpy()))
    assert kernel(a, diag=True).detach().numpy() == pytest.approx(dense_kernel(kernel, a.numpy(), a.numpy()).diagonal())
    batch = kernel(a.expand(3, 9, 3), b.expand(3, 7, 3)).to_dense()
    assert torch.allclose(batch, kernel(a, b).to_dense().expand(3, 9, 7))
    assert torch.linalg.eigvalsh(kernel(a).to_dense()).min() > -1e-10


@pytest.mark.parametrize("fidelity", [0, 1, 2])
def test_augmented_expected_improvement(fidelity):
    """``EI α1 α2 α3`` by NumPy from the joint posterior of fidelity ``l`` and the target."""
    strategy = MFSKO(space=SPACE3)
    X, Y = dense.points(3, 12), dense.points(3, 12, seed=5)[:, :1]
    model = strategy.surrogate.model(strategy._build, X, Y)
    kernel, noise = model.covar_module, model.likelihood.noise.item()
    constant = model.mean_module.constant.item()
    designs = dense.points(3, 6, seed=2)[:, :-1]
    found = LogAugmentedExpectedImprovement(model, 0.4, fidelity, 2, cost_ratio=5.0)(designs.unsqueeze(-2))
    gram = dense_kernel(kernel, X.numpy(), X.numpy()) + noise * np.eye(12)
    weights = np.linalg.solve(gram, standardized(Y).numpy()[:, 0] - constant)
    for x, value in zip(designs.numpy(), found.tolist(), strict=True):
        pair = np.array([[*x, fidelity], [*x, 2]])
        cross = dense_kernel(kernel, pair, X.numpy())
        mean = constant + cross @ weights
        covariance = dense_kernel(kernel, pair, pair) - cross @ np.linalg.solve(gram, cross.T)
        deviation = np.sqrt(covariance[1, 1])
        z = (mean[1] - 0.4) / deviation
        improvement = deviation * (z * norm.cdf(z) + norm.pdf(z))
        correlation = np.clip(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]), 1e-6, 1.0)
        repetition = 1.0 - np.sqrt(noise / (covariance[0, 0] + noise))
        assert value == pytest.approx(np.log(improvement * correlation * repetition * 5.0), rel=1e-4, abs=1e-4)


@pytest.mark.slow
def test_mf_sko_uses_every_fidelity_and_improves():
    best = []
    for seed in range(3):
        history = loop(MFSKO(space=SPACE3, initial_capital=2.0, seed=seed), toy(SPACE3), 28)
        initial = [r for r in history if r.query.meta["stage"] == "initial"]
        assert {r.query.fidelity for r in initial} == {0, 1, 2}
        assert len(initial) < 28
        best.append(history.best(2).value)
    assert sorted(best)[1] > -0.005


def test_fidelity_costs():
    costs = FidelityCosts(torch.tensor([1.0, 7.0, 30.0], dtype=torch.double))
    X = torch.tensor([[0.1, 0.0], [0.2, 0.5], [0.3, 1.0]], dtype=torch.double)
    assert costs(X).tolist() == [[1.0], [7.0], [30.0]]
    assert FidelityCosts(torch.tensor([4.0]))(X).tolist() == [[4.0]] * 3


GIBBON = {"num_candidates": 100, "num_restarts": 2, "raw_samples": 16}
GRADIENT = {"num_fantasies": 2, "num_restarts": 1, "raw_samples": 4, "max_iterations": 5}


@pytest.mark.parametrize(("make", "settings"), [(MFGIBBON, GIBBON), (MFKnowledgeGradient, GRADIENT)])
def test_acquisition_is_finite_and_knows_pending_points(make, settings):
    """At a pending point of the same fidelity there is less to gain than without it."""
    strategy = make(space=SPACE3, initial_capital=1.0, **settings)
    X, Y, _ = data_of(strategy.space, loop(strategy, toy(SPACE3), 9).done)
    model = strategy.surrogate.model(multi_fidelity_gp, strategy.scaled(X), Y)
    utility = InverseCostWeightedUtility(FidelityCosts(torch.tensor([1.0, 4.0, 16.0]).double()))
    pending = torch.tensor([[0.9, 0.9, 1.0]], dtype=torch.double)
    with quiet():
        free = strategy.acquisition(model, utility, None, 0)
    with quiet():
        busy = strategy.acquisition(model, utility, pending, 0)
    q = 1 if make is MFGIBBON else 3
    test_X = torch.cat([pending, torch.tensor([[0.3, 0.3, 1.0]]).double().expand(q - 1, 3)]).unsqueeze(0)
    before, after = free(test_X), busy(test_X)
    assert before.isfinite().all()
    assert after.isfinite().all()
    assert busy.X_pending is not None
    if make is MFGIBBON:
        assert after.item() < before.item()


@pytest.mark.slow
def test_float32():
    assert len(loop(MFSKO(space=SPACE, initial_capital=1.0, dtype="float32"), toy(SPACE), 5)) == 5


@pytest.mark.parametrize("made", [MFGPUCB, lambda **how: MFGPUCB(link="independent", **how), MFSKO])
@pytest.mark.parametrize("finite", [False, True])
def test_a_finite_space_is_used_up_before_anything_is_asked_again(made, finite):
    designs = [(float(i), float(j)) for i in range(3) for j in range(2)]
    if finite:
        space = Space.finite(designs, (1.0, 3.0))
    else:
        space = Space([Parameter("a", 0, 2, integer=True), Parameter("b", 0, 1, integer=True)], (1.0, 3.0))
    value = lambda query: -((query.x[0] - 0.3) ** 2) - (query.x[1] - 0.7) ** 2 + 0.1 * query.fidelity  # noqa: E731
    history = loop(made(seed=1).bind(space, 40.0), value, 2 * len(designs))
    assert {(r.query.x, r.query.fidelity) for r in history} == {(x, m) for x in designs for m in (0, 1)}


REST = [
    (30.0, 2),
    (10.0, 2),
    (9.5, 1),
    (3.0, 1),
    (2.5, 0),
    (0.5, 2),
]
"""What is left of a capital, and the fidelity to query where the target is wanted, whose cost is 10, above 3 and 1."""


@pytest.mark.parametrize("kind", [BOCA, MFGIBBON, MFKnowledgeGradient, MFSKO])
@pytest.mark.parametrize(("rest", "fidelity"), REST)
def test_what_is_not_paid_for_any_more_is_asked_below(kind, rest, fidelity):
    space = Space([Parameter("x", 0, 1)], [1, 3, 10])
    history = History().asked(Query((0.5,), 2), 10.0)
    for value, found in ((None, 2), (1.0, fidelity)):  # a pending query may yet cost less
        known = history if value is None else history.updated(history.records[0].done(value))
        strategy = kind(space=space, capital=10.0 + rest)
        assert strategy.free(2, strategy.snapshot(known)) == found
    strategy = kind(space=space)
    assert strategy.free(2, strategy.snapshot(known)) == 2


def test_a_fidelity_that_is_used_up_is_not_asked_below():
    space = Space([Parameter("k", choices=["a", "b"])], [1, 3, 10])
    history = History([Record(i, Query((float(i),), 1), 3.0).done(1.0) for i in range(2)])
    strategy = BOCA(space=space, capital=10.0)
    assert strategy.free(2, strategy.snapshot(history)) == 0


@pytest.mark.parametrize("capital", [25.0, 38.0])
def test_the_rest_of_a_capital_is_spent(capital, monkeypatch):
    """All that was decided before stays as it was."""
    spent = run(Hill(), BOCA(), capital, progress=False)
    monkeypatch.setattr(BOCA, "free", BOCA.left)
    former = run(Hill(), BOCA(), capital, progress=False)
    assert capital - former.spent >= 1.0 > capital - spent.spent
    assert [r.query for r in spent][: len(former)] == [r.query for r in former]
