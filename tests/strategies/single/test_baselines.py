"""The single-fidelity baselines and MF-NAIVE against independent computations."""

import math

import numpy as np
import pytest
import scipy.optimize
import torch
from botorch.acquisition import LogExpectedImprovement
from scipy.optimize import rosen
from scipy.stats import norm
from strategy_table import SPACE, loop, step, toy

from mfbo_torch.confidence import practical_beta
from mfbo_torch.history import History, Query
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import GPUCB, Direct, ExpectedImprovement, MFNaive, ProbabilityOfImprovement
from mfbo_torch.strategies.common.fit_schedule import standardized
from mfbo_torch.strategies.common.gp import single_task_gp
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.strategies.single.analytic import MIN_IMPROVEMENT
from mfbo_torch.strategies.snapshot import data_of

LINE = Space.box([[-2.0], [3.0]], [1.0])


def wavy(query: Query) -> float:
    return math.sin(2.0 * query.x[0]) + 0.3 * query.x[0]


def dense_posterior(strategy: GPUCB, history: History, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation on a 1-D grid by NumPy, with the hyper-parameters of the strategy's model."""
    X, Y, _ = data_of(strategy.space, history.done)
    model = strategy.surrogate.model(single_task_gp, X[:, :-1], Y)
    lengthscale = model.covar_module.lengthscale.item()
    noise, constant = model.likelihood.noise.item(), model.mean_module.constant.item()
    x, y = X[:, 0].numpy(), standardized(Y).numpy()[:, 0]
    gram = np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2) + noise * np.eye(len(x))
    cross = np.exp(-0.5 * ((grid[:, None] - x) / lengthscale) ** 2)
    mean = constant + cross @ np.linalg.solve(gram, y - constant)
    return mean, np.sqrt(np.maximum(1.0 - (cross * np.linalg.solve(gram, cross.T).T).sum(-1), 0.0))


@pytest.mark.parametrize("beta", [None, 0.0, 9.0])
def test_gp_ucb_is_the_maximiser_on_a_grid(beta):
    strategy = GPUCB(initial=5, beta=beta, space=LINE)
    history = loop(strategy, wavy, 5)
    query = strategy.ask(history)[0]
    used = practical_beta(6, 1) if beta is None else beta
    assert query.meta["beta"] == pytest.approx(used)
    grid = np.linspace(0.0, 1.0, 20001)
    mean, deviation = dense_posterior(strategy, history, grid)
    assert (query.x[0] + 2.0) / 5.0 == pytest.approx(grid[np.argmax(mean + math.sqrt(used) * deviation)], abs=1e-3)


@pytest.mark.parametrize("kind", [ExpectedImprovement, ProbabilityOfImprovement])
def test_improvement_is_the_maximiser_on_a_grid(kind):
    strategy = kind(initial=5, space=LINE)
    history = loop(strategy, wavy, 5)
    grid = np.linspace(0.0, 1.0, 20001)
    mean, deviation = dense_posterior(strategy, history, grid)
    best = standardized(data_of(strategy.space, history.done).Y).max().item()
    z = (mean - (best + MIN_IMPROVEMENT if kind is ProbabilityOfImprovement else best)) / deviation
    value = norm.cdf(z) if kind is ProbabilityOfImprovement else deviation * (z * norm.cdf(z) + norm.pdf(z))
    assert value[np.abs(grid - (strategy.ask(history)[0].x[0] + 2.0) / 5.0).argmin()] >= 0.999 * value.max()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_finds_the_maximum(dtype):
    history = loop(GPUCB(initial=4, space=LINE, dtype=dtype), wavy, 14)
    assert all(-2.0 <= r.query.x[0] <= 3.0 for r in history)
    assert history.best(0).value == pytest.approx(1.24692, abs=1e-3)  # where cos 2x = -0.15


def test_initial_design_is_continued():
    """A resumed run asks the rest of the design, whatever other records there are."""
    whole = loop(GPUCB(initial=6, space=LINE), wavy, 6)
    assert [r.query.meta for r in whole] == [{"stage": "initial", "index": i} for i in range(6)]
    continued = loop(GPUCB(initial=6, space=LINE), wavy, 6, step(History(), Query((0.25,), 0), LINE, 1.0))
    assert [r.query for r in continued.records[1:]] == [r.query for r in whole]
    assert GPUCB(initial=6, space=LINE).ask(continued)[0].meta["stage"] == "model"
    # by default it grows with the capital
    for capital, count in ((None, 10), (8.0, 4), (1.0, 2)):
        queries = GPUCB(space=LINE, capital=capital).ask(History(), count + 2)
        assert sum(query.meta["stage"] == "initial" for query in queries) == count


PLANE = Space.box([[-5.0, 0.0], [10.0, 15.0]], [1.0])


@pytest.mark.parametrize("locally_biased", [False, True])
def test_direct_asks_in_scipys_order(locally_biased):
    visited: list[tuple[float, ...]] = []
    recorded = lambda x: visited.append(tuple(x)) or rosen(x)  # noqa: E731
    ends = {"maxfun": 80, "vol_tol": 0.0, "len_tol": 0.0}
    scipy.optimize.direct(recorded, [(-5.0, 10.0), (0.0, 15.0)], locally_biased=locally_biased, **ends)
    history = loop(Direct(space=PLANE, locally_biased=locally_biased), lambda query: -rosen(query.x), 60)
    asked = torch.tensor([r.query.x for r in history], dtype=torch.double)
    assert torch.allclose(asked, torch.tensor(np.array(visited[:60])), atol=1e-9)


def test_direct_ends_on_a_grid_with_random_designs():
    space = Space((Parameter("k", 0, 4, integer=True), Parameter("l", 0, 4, integer=True)), (1.0,))
    history = loop(Direct(space=space), lambda query: -sum(query.x), 25)
    assert len({r.query.x for r in history}) == 25


@pytest.mark.parametrize("explore", ["gp_ucb", "random"])
def test_mf_naive_phases(explore):
    strategy = MFNaive(space=SPACE, capital=20.0, initial=4, explore=explore)  # costs 1 and 4
    history = loop(strategy, toy(SPACE), 13)
    assert [r.query.fidelity for r in history] == [0] * 10 + [1] * 3
    best = sorted(history.records[:10], key=lambda r: -r.value)[:3]
    assert [r.query.x for r in history.records[10:]] == [r.query.x for r in best]
    assert [r.query.meta["explored"] for r in history.records[10:]] == [r.id for r in best]


def test_mf_naive_limit_and_end():
    history = loop(MFNaive(space=SPACE, capital=1e6, limit=3, explore="random"), toy(SPACE), 8)
    assert [r.query.fidelity for r in history] == [0] * 3 + [1] * 5
    assert len({r.query.x for r in history.records[3:]}) == 5
    assert [r.query.meta["stage"] for r in history.records[3:]] == ["verify"] * 3 + ["random"] * 2


def test_expected_improvement_finds_the_narrow_peaks_beside_the_best():
    space, centre = Space.box([[0.0] * 6, [1.0] * 6], [1.0]), torch.tensor([0.3, 0.7, 0.5, 0.4, 0.6, 0.2]).double()
    draws = torch.Generator().manual_seed(0)
    wide = torch.rand(30, 6, generator=draws, dtype=torch.double)
    X = torch.cat([wide, (centre + 0.02 * torch.randn(20, 6, generator=draws, dtype=torch.double)).clamp(0, 1)])
    history = History()
    for x, value in zip(X.tolist(), (-10 * (X - centre).square().sum(-1)).exp().tolist(), strict=True):
        history = step(history, Query(tuple(x), 0), space, value)
    strategy = ExpectedImprovement(space=space)
    snapshot = strategy.snapshot(history)
    acquisition = LogExpectedImprovement(strategy.hallucinated(snapshot), strategy.best(snapshot))
    chosen, _ = strategy.design(snapshot, snapshot.generator(0))
    near = (centre + 0.02 * torch.randn(4000, 6, generator=draws, dtype=torch.double)).clamp(0, 1)
    with torch.no_grad():
        others = acquisition(torch.cat([sobol(6, 4000, 1), near]).unsqueeze(-2))
        assert acquisition(chosen.unsqueeze(-2)) >= others.max() - 1e-6
