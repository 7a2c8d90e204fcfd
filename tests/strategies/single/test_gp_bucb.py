"""GP-BUCB against dense algebra: batches, delays, failures, initialisation, widths, known priors."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from dense_ucb import FINITE, GRID, PRIOR, asked, check_largest, covariance, scores, wavy
from strategy_table import box, loop, step

from mfbo_torch import confidence
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query
from mfbo_torch.space import Space
from mfbo_torch.strategies import GPBUCB, GPUCB


@pytest.mark.parametrize("lazy", [True, False])
def test_batches_are_those_of_dense_algebra(lazy):
    strategy = GPBUCB(prior=PRIOR, beta=3.0, space=FINITE, lazy=lazy)
    history = loop(strategy, wavy, 7)
    history = asked(history, strategy.ask(history, 2))  # out while the batch is decided
    for query in strategy.ask(history, 6):
        check_largest(query, history, 3.0)
        assert (query.meta["stage"], query.meta["beta"]) == ("model", 3.0)
        history = asked(history, [query])


def test_first_batch_spreads():
    """Nothing is known: the first design is random, the others are where the deviation is largest."""
    strategy = GPBUCB(prior=PRIOR, space=FINITE, beta=1.0)
    history = History()
    for n, query in enumerate(strategy.ask(history, 6)):
        if n:
            check_largest(query, history, 1.0)
        history = asked(history, [query])
    assert GPBUCB(prior=PRIOR, space=FINITE, seed=1).ask(History()) != strategy.ask(History())


@pytest.mark.parametrize("delay", [1, 3])
def test_fixed_delay(delay):
    """Each decision knows the values of all but the last ``delay`` queries."""
    strategy, history = GPBUCB(prior=PRIOR, space=FINITE, beta=2.0), History()
    for t in range(9):
        if t > delay:
            due = history.records[t - delay - 1]
            history = history.updated(due.done(wavy(due.query)))
        query = strategy.ask(history)[0]
        if t:
            check_largest(query, history, 2.0)
        history = asked(history, [query])
    assert len(history.pending) == delay + 1


def test_values_in_any_order():
    strategy = GPBUCB(prior=PRIOR, space=FINITE, beta=2.0)
    history = loop(strategy, wavy, 3)
    history = asked(history, strategy.ask(history, 5))
    waiting = list(history.pending)
    random.Random(0).shuffle(waiting)
    for record in waiting:
        history = history.updated(record.done(wavy(record.query)))
        check_largest(strategy.ask(history)[0], history, 2.0)


def test_failures_leave_the_pending_set():
    """They condition nothing, and are not asked again while there is another candidate."""
    strategy = GPBUCB(prior=PRIOR, space=FINITE, beta=2.0)
    history = loop(strategy, wavy, 4)
    batch = strategy.ask(history, 4)
    history = asked(history, batch)
    for record in history.pending[:2]:
        history = history.updated(record.failed("a test"))
    query = strategy.ask(history)[0]
    expected = scores(history, 2.0)
    for failed in batch[:2]:
        expected[FINITE.candidates.index(failed.x)] = -np.inf
    assert expected[FINITE.candidates.index(query.x)] == pytest.approx(expected.max(), abs=1e-9)
    # where every candidate failed, one of them
    space = Space.finite([[0.0], [0.5], [1.0]], (1.0,))
    history = loop(GPBUCB(prior=Prior(), space=space), lambda query: None, 3)
    assert {r.query.x for r in history} == set(space.candidates)
    assert GPBUCB(prior=Prior(), space=space).ask(history)[0].x in space.candidates


def test_asks_the_best_again():
    """Where values are noisy, the candidate with the largest bound may be one that was asked."""
    strategy = GPBUCB(prior=PRIOR, beta=0.0, space=FINITE)
    history = step(History(), Query(FINITE.candidates[60], 0, {"stage": "model"}), FINITE, 3.0)
    assert strategy.ask(history)[0].x == FINITE.candidates[60]


def test_box_with_a_known_prior():
    """The query maximises the bound of dense algebra, pending query included, over a fine grid."""
    space = Space.box([[-1.0, 0.0], [3.0, 5.0]], (1.0,))
    strategy = GPBUCB(prior=PRIOR, beta=2.0, space=space)
    history = loop(strategy, wavy, 6)
    history = asked(history, strategy.ask(history))
    query = strategy.ask(history)[0]
    axes = torch.linspace(-1, 3, 60).double(), torch.linspace(0, 5, 60).double()
    rows = [r.query.x for r in history] + [query.x]
    dense = Space(space.parameters, (1.0,), candidates=(*rows, *map(tuple, torch.cartesian_prod(*axes).tolist())))
    found = scores(history, 2.0, dense)
    assert found[len(rows) - 1] >= found.max() - 1e-4


def test_units_of_a_known_prior():
    """A prior in other units gives the same queries."""
    scaled = Prior("matern52", [0.2, 0.3], outputscale=2e-12, noise=1e-14, mean=5e-7)
    runs = [
        loop(GPBUCB(prior=prior, space=FINITE), lambda query, unit=unit: unit * wavy(query), 12)
        for prior, unit in ((PRIOR, 1.0), (scaled, 1e-6))
    ]
    assert [r.query.x for r in runs[0]] == [r.query.x for r in runs[1]]


def test_initialisation_is_uncertainty_sampling():
    strategy = GPBUCB(prior=PRIOR, space=FINITE, initialisation=9)
    batch = strategy.ask(History(), 12)
    X = FINITE.unit_candidates
    first = FINITE.candidates.index(batch[0].x)
    prior = torch.from_numpy(covariance(X.numpy(), X.numpy()))
    posterior = prior - prior[:, [first]] * prior[first] / (prior[first, first] + PRIOR.noise)
    expected = confidence.uncertainty_sampling(posterior, PRIOR.noise, 8).indices
    left = posterior.diagonal().clone()
    assert [FINITE.candidates.index(q.x) for q in batch[1:9]] == expected.tolist(), left
    assert ["uncertainty" in q.meta for q in batch] == [False] + [True] * 8 + [False] * 3
    answered = loop(strategy, wavy, 9)
    assert [r.query.x for r in answered] == [query.x for query in batch[:9]]  # whatever the values are
    assert "beta" in strategy.ask(answered)[0].meta
    # in a box
    strategy = GPBUCB(prior=Prior("rbf", 0.1), space=box(1, 1), initialisation=5)
    history = loop(strategy, lambda query: 100.0 * query.x[0], 5)
    found = sorted(r.query.x[0] for r in history)
    assert min(b - a for a, b in pairwise(found)) > 0.1


def test_widths():
    """``t`` is one more than the queries that have ended."""
    history = loop(GPBUCB(prior=PRIOR, space=FINITE), wavy, 4)
    out = asked(history, [Query(FINITE.candidates[3], 0, {"stage": "model"})])

    def beta(space: Space, history: History = history, **settings: object) -> float:
        return GPBUCB(prior=PRIOR, space=space, **settings).ask(history)[0].meta["beta"]

    plain = Space(FINITE.parameters, (1.0,))
    assert beta(FINITE, out) == pytest.approx(confidence.practical_beta(5, 2))
    assert beta(FINITE, out, beta=2.5) == 2.5
    assert beta(FINITE, beta="theory", delta=0.2) == pytest.approx(confidence.finite_alpha(5, len(GRID), 0.2))
    assert beta(plain, beta="theory", scale=0.2) == pytest.approx(0.2 * confidence.box_alpha(5, 2))
    constants = {"a": 2.0, "b": 3.0}
    wanted = confidence.box_alpha(5, 2, 0.1, **constants, side=4.0)
    assert beta(plain, beta="theory", **constants, r=4.0) == pytest.approx(wanted)
    printed = confidence.gp_ucb_beta(5, 2, 0.2, **constants, r=4.0)
    single = GPUCB(prior=PRIOR, space=plain, beta="theory", delta=0.2, **constants, r=4.0)
    assert single.ask(history)[0].meta["beta"] == pytest.approx(printed)
    given = {"beta": "theory", "gain": 0.5, "initialisation": 1}
    assert beta(FINITE, out, **given) == pytest.approx(math.e * confidence.finite_alpha(5, len(GRID)))
    unit = FINITE.unit_candidates
    gain = confidence.batch_gain_bound(torch.from_numpy(covariance(unit.numpy(), unit.numpy())), PRIOR.noise, 6)
    assert beta(FINITE, beta="rkhs", norm=3.0) == pytest.approx(confidence.rkhs_alpha(5, gain, norm=3.0), rel=1e-6)


def test_two_stages_until_a_batch_tells_little():
    """Values are not looked at until five more can tell at most ``log C'``; from then on the width has their ``C``."""
    prior = Prior("rbf", 0.4, outputscale=1.0, noise=0.3)
    strategy, history = GPBUCB(prior=prior, space=FINITE, beta="theory"), History()
    points = FINITE.unit_candidates
    K = prior.covariance(points, points)
    bounds = []
    for _ in range(12):
        batch = strategy.ask(history, 6)
        told = [FINITE.candidates.index(r.query.x) for r in history]
        known = torch.eye(len(told)).double() * prior.noise + K[told][:, told]
        bounds.append(confidence.batch_gain_bound(K - K[:, told] @ torch.linalg.solve(known, K[told]), prior.noise, 6))
        if len(history) and "beta" in batch[0].meta:
            break
        history = asked(history, batch)
        for record in history.pending:
            history = history.updated(record.done(wavy(record.query)))
    log_multiplier = math.log(confidence.rbf_initialization(6, 2).multiplier)
    assert bounds[-1] <= log_multiplier + 1e-9
    assert len(bounds) > 2
    assert bounds[-2] > log_multiplier
    expected = math.exp(2 * bounds[-1]) * confidence.finite_alpha(len(history) + 1, len(GRID))
    assert batch[0].meta["beta"] == pytest.approx(expected, rel=1e-6)
    assert batch[0].meta["batch"] == 6
    assert GPBUCB(prior=prior, space=FINITE, beta="theory").ask(history, 6) == batch
    short = GPBUCB(prior=prior, space=FINITE, beta="theory", capital=4.0)
    assert "uncertainty" not in short.ask(asked(History(), short.ask(History(), 6)), 6)[0].meta


@pytest.mark.slow
def test_unknown_prior_on_candidates():
    """Initial design, fits and selection all stay within the candidates, and find one of the best."""
    history = loop(GPBUCB(space=FINITE, initial=5), wavy, 15)
    assert {r.query.x for r in history} <= set(FINITE.candidates)
    assert history.best(0).value >= sorted(wavy(Query(x, 0)) for x in FINITE.candidates)[-3]


@pytest.mark.parametrize("settings", [{"initial": 3}, {"prior": Prior(), "dtype": "float32"}], ids=str)
def test_large_set(settings):
    """Five thousand candidates, with and without an initial design."""
    space = Space.finite(torch.rand(5000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double), (1.0,))
    strategy = GPBUCB(space=space, **settings)
    batch = strategy.ask(loop(strategy, wavy, 4), 5)
    assert {query.x for query in batch} <= set(space.candidates)
    assert len({query.x for query in batch}) > 2
