"""The batch baselines against what defines them, by brute force."""

import math

import numpy as np
import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.acquisition.monte_carlo import qUpperConfidenceBound
from botorch.sampling.normal import SobolQMCNormalSampler
from dense_ucb import FINITE, PRIOR, asked, check_largest, scores, wavy
from scipy.stats import norm
from strategy_table import loop, step

from mfbo_torch import strategies
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query
from mfbo_torch.space import Space
from mfbo_torch.strategies.common.fit_schedule import draw_seed

UCB = {"prior": PRIOR, "beta": 2.0, "space": FINITE}
START = loop(strategies.GPUCB(**UCB), wavy, 6)


def place(query: Query) -> int:
    return FINITE.candidates.index(query.x)


def test_gp_ucb_and_expected_improvement_on_candidates():
    for record in START.records[1:]:
        check_largest(record.query, History(START.records[: record.id]), 2.0)
    pending = asked(START, strategies.GPUCB(**UCB).ask(START, 3))
    check_largest(strategies.GPUCB(**UCB).ask(pending)[0], pending, 2.0)
    query = strategies.ExpectedImprovement(prior=PRIOR, space=FINITE).ask(START)[0]
    mean, deviation = scores(START, 0.0), scores(START, 1.0) - scores(START, 0.0)
    z = (mean - max(r.value for r in START)) / deviation
    value = deviation * (z * norm.cdf(z) + norm.pdf(z))
    assert value[place(query)] == pytest.approx(value.max(), rel=1e-6)


def test_repeat_asks_the_maximiser_until_a_value_arrives():
    strategy = strategies.NaiveRepeat(**UCB)
    batch = strategy.ask(START, 4)
    assert [place(query) for query in batch] == [int(scores(START, 2.0).argmax())] * 4
    history = asked(START, batch)
    assert strategy.ask(history)[0].x == batch[0].x
    assert strategy.ask(history.updated(history.pending[0].done(-5.0)))[0].x != batch[0].x


def test_top_asks_the_best_scores_in_turn():
    strategy = strategies.NaiveTop(**UCB)
    batch = strategy.ask(START, 5)
    order = np.argsort(-scores(START, 2.0), kind="stable")
    assert [place(query) for query in batch] == order[:5].tolist()
    assert strategy.ask(asked(START, batch))[0].x == FINITE.candidates[order[5]]
    # more queries than candidates: when all are out, they are asked again
    space = Space.finite([[0.0], [0.5], [1.0]], (1.0,))
    batch = strategies.NaiveTop(prior=Prior(), space=space).ask(History(), 4)
    assert {query.x for query in batch[:3]} == set(space.candidates)


@pytest.mark.parametrize(
    "kind",
    [strategies.NaiveRepeat, strategies.NaiveTop, strategies.QUpperConfidenceBound, strategies.QLogExpectedImprovement],
)
def test_first_batch_under_a_known_prior(kind):
    batch = kind(prior=PRIOR, space=FINITE).ask(History(), 4)
    assert len({query.x for query in batch}) == (1 if kind is strategies.NaiveRepeat else 4)


@pytest.mark.parametrize("policy", ["ucb", "mei"])
def test_simulated_runs_start_with_the_policy(policy):
    """Nothing is random before the first simulated value."""
    strategy = strategies.SimulationMatching(policy=policy, batch_size=1, num_simulations=5, **UCB)
    matched, counts, _ = strategy.simulated(strategy.snapshot(START))
    mean, deviation = scores(START, 0.0), scores(START, 1.0) - scores(START, 0.0)
    z = (mean - mean.max()) / deviation
    score = mean + math.sqrt(2.0) * deviation if policy == "ucb" else deviation * (z * norm.cdf(z) + norm.pdf(z))
    assert torch.equal(matched, FINITE.unit_candidates[[int(score.argmax())]])
    assert counts.tolist() == [5.0]


@pytest.mark.parametrize(("kernel", "noise", "least"), [("matern52", 1e-6, 3), ("linear", 1.0, 2)])
def test_simulated_runs_follow_the_posterior(kernel, noise, least):
    """The second query of a run is that of GP-UCB after some value at the first one; of planes only corners are."""
    settings = {"prior": Prior(kernel, [0.2, 0.3], 2.0, noise, 0.5), "beta": 2.0, "space": FINITE}
    strategy = strategies.SimulationMatching(batch_size=2, num_simulations=64, **settings)
    matched, counts, _ = strategy.simulated(strategy.snapshot(START))
    assert counts.sum() == 128
    first = strategies.GPUCB(**settings).ask(START)[0]
    mean, deviation = 0.0, 3.0
    possible = {first.x}
    for value in np.linspace(mean - 3 * deviation, mean + 3 * deviation, 150):
        possible.add(strategies.GPUCB(**settings).ask(step(START, first, FINITE, float(value)))[0].x)
    found = {tuple(x) for x in FINITE.from_unit(matched).tolist()}
    assert found <= possible
    assert len(found) >= least


def test_a_batch_matches_the_runs_greedily():
    strategy = strategies.SimulationMatching(batch_size=3, num_simulations=20, **UCB)
    matched, counts, _ = strategy.simulated(strategy.snapshot(START))
    centres: list[torch.Tensor] = []
    for query in strategy.ask(START, 3):
        sums = [
            (torch.stack([((matched - c) ** 2).sum(-1) for c in [*centres, x]]).amin(0) * counts).sum() for x in matched
        ]
        u = FINITE.unit_candidates[place(query)]
        assert sums[int((matched - u).abs().sum(-1).argmin())].item() == pytest.approx(min(sums).item(), abs=1e-12)
        centres.append(u)
    # one run is its batch
    strategy = strategies.SimulationMatching(batch_size=4, num_simulations=1, **UCB)
    matched, _, _ = strategy.simulated(strategy.snapshot(START))
    batch = strategy.ask(START, len(matched))
    assert {query.x for query in batch} == {tuple(x) for x in FINITE.from_unit(matched).tolist()}


def test_simulation_from_the_prior_and_from_many_candidates():
    strategy = strategies.SimulationMatching(batch_size=3, num_simulations=10, num_candidates=40, **UCB)
    for history in (History(), START):
        assert len({query.x for query in strategy.ask(history, 3)}) == 3


@pytest.mark.parametrize("kind", [strategies.QUpperConfidenceBound, strategies.QLogExpectedImprovement])
def test_monte_carlo_is_botorchs(kind):
    settings = {"prior": PRIOR, "space": FINITE, "samples": 32}
    strategy = kind(**settings, **({"beta": 2.0} if kind is strategies.QUpperConfidenceBound else {}))
    history = asked(START, strategy.ask(START, 2))
    query = strategy.ask(history)[0]
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=draw_seed(strategy.generator(history)))
    snapshot = strategy.snapshot(history)
    model, pending = strategy.posterior(snapshot)[0].model, strategy.pending(snapshot)
    if kind is strategies.QUpperConfidenceBound:
        acquisition = qUpperConfidenceBound(model, 2.0, sampler=sampler, X_pending=pending)
    else:
        best = (max(r.value for r in START) - PRIOR.mean) / math.sqrt(PRIOR.outputscale)
        acquisition = qLogExpectedImprovement(model, best, sampler=sampler, X_pending=pending)
    with torch.no_grad():
        values = acquisition(FINITE.unit_candidates.unsqueeze(-2))
    assert values[place(query)] == pytest.approx(values.max().item(), abs=1e-6)
