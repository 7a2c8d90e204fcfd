"""Values that are far below all others: losses that explode, penalties in place of failures."""

import pytest
import torch

from mfbo_torch.history import History, Query, Recommendation, Record
from mfbo_torch.loop.runner import run
from mfbo_torch.models.outcome_transform import IDENTITY, Warp
from mfbo_torch.problems import Currin, Problem
from mfbo_torch.space import Space
from mfbo_torch.strategies import GPBUCB, GPUCB, MFGPUCB, ExpectedImprovement
from mfbo_torch.strategies.common.fit_schedule import Growing
from mfbo_torch.strategies.snapshot import Snapshot, SnapshotCache, data_of


class Penalised(Currin):
    """``where`` tells which designs have a penalty in place of their value."""

    def __init__(self, penalty, where):
        super().__init__()
        self.penalty, self.where = penalty, where

    def evaluate(self, x, fidelity):
        return self.penalty if self.where(*x) else super().evaluate(x, fidelity)


class Bowl(Problem):
    """At one fidelity, with a penalty in a corner."""

    optimum = 0.0

    def __init__(self, penalty):
        self.space, self.penalty = Space.box([[-5.0, 0.0], [10.0, 15.0]], (1.0,)), penalty

    def evaluate(self, x, fidelity):
        a, b = x
        return self.penalty if a * b > 60 else -((a - 2.0) ** 2) - 2.0 * (b - 6.0) ** 2


def ended(penalty, where, seed):
    problem, strategy = Penalised(penalty, where), MFGPUCB(seed=seed)
    history = run(problem, strategy, 20 * problem.space.costs[-1], progress=False)
    return problem.optimum - history.best(problem.space.target).value, history, problem


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [-1e3, -1e7])
def test_penalties_of_the_first_design(penalty):
    regret, _, _ = ended(penalty, lambda a, b: a + b > 1.5 or a < 0.05, seed=1)
    assert regret < 0.01, "1.9 and 0.35 where the others are lost beside them"


def test_a_new_map_makes_a_new_model():
    problem = Currin()
    strategy, growing = MFGPUCB(seed=0).bind(problem.space, 20 * problem.space.costs[-1]), Growing(25)
    history = run(problem, MFGPUCB(seed=0), 3 * problem.space.costs[-1], progress=False)
    X = torch.tensor([[0.5, 0.5]], dtype=torch.double)
    for map in (IDENTITY, Warp(5.0, 1.0, 0.0, 1.0)):
        kept, new = (strategy.rule.grown(grown, history.done, map) for grown in (growing, Growing(25)))
        assert torch.equal(kept.mean_variance(X)[0], new.mean_variance(X)[0])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [ExpectedImprovement, GPUCB, GPBUCB])
def test_penalties_are_tamed_without_cheap_fidelities(strategy):
    problem = Bowl(-1e8)
    history = run(problem, strategy(seed=2), 25.0, progress=False)
    assert min(r.value for r in history) == -1e8
    assert -history.best(0).value < 0.1, "2 to 3 where the others are lost beside it"
    bound = strategy(seed=2).bind(problem.space, 25.0)
    seen = torch.tensor([r.query.x for r in history if r.value > -1e8], dtype=torch.double)
    mean, deviation = bound.predict(history, seen)
    assert (mean[:, 0] - torch.tensor([r.value for r in history if r.value > -1e8])).abs().max() < 5.0
    assert (deviation[:, 0] < 5.0).all(), "in the units of the values"


def test_noise_beside_a_penalty():
    torch.manual_seed(0)
    problem = Bowl(-1e8)
    strategy = ExpectedImprovement(seed=0).bind(problem.space, 40.0)
    records = []
    for i, (u, noise) in enumerate(zip(torch.rand(30, 2).tolist(), torch.randn(30).tolist(), strict=True)):
        x = (15 * u[0] - 5, 15 * u[1])
        query, value = Query(x, 0, {"stage": "initial"}), problem.evaluate(x, 0) + 8.0 * noise
        records.append(Record(i, query, 1.0).done(value))
    history = History(records)
    snapshot = strategy.snapshot(history)
    assert strategy.transform(snapshot) != IDENTITY
    assert 2.0 < strategy.noise_deviations(snapshot)[0] < 40.0
    assert isinstance(strategy.recommend(history), Recommendation), "beside the penalty alone there would be no noise"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_penalties_at_one_fidelity(seed):
    problem = Bowl(-1e8)
    history = run(problem, MFGPUCB(seed=seed), 25.0, progress=False)
    assert min(r.value for r in history) == -1e8
    rule = MFGPUCB(seed=seed).bind(problem.space, 25.0).rule
    warp, _ = rule.transforms(rule.snapshot(history))
    assert warp.below > 1e3
    assert -history.best(0).value < 0.05, "4 where the others are lost beside it"


@pytest.mark.slow
def test_a_penalty_that_comes_late():
    regret, history, problem = ended(-1e6, lambda a, b: a > 0.9 and b < 0.1, seed=2)
    first = next(r.id for r in history if r.value == -1e6)
    assert history.records[first].query.meta["stage"] != "initial"
    assert regret < 0.01, "0.12 where the map stays as it was"
    again = MFGPUCB(seed=2).bind(problem.space, 20 * problem.space.costs[-1])
    seen = (again.snapshot(History(history.records[:n])) for n in (first, first + 1))
    before, after = (again.rule.transforms(snapshot)[0] for snapshot in seen)
    assert before == IDENTITY
    assert after.below > 1e3
    asked = again.ask(History(history.records[: first + 3]))[0]
    assert asked.x == history.records[first + 3].query.x, "the history alone decides"


def test_a_history_on_the_other_side_of_a_map():
    map, (far, pending, lost, last) = Warp(1.0, 2.0, 3.0, 0.0), (Record(i, Query((0.1 * i,), 0), 1.0) for i in range(4))
    history = History([far.done(-5.0, 0.3), pending, lost.failed("it broke"), last.done(2.0)])
    snapshot = Snapshot(history, Space.box([[0.0], [1.0]], (1.0,)), SnapshotCache())
    near, pending, broken, plain = snapshot.transformed(map).records
    y = torch.tensor(-5.0, dtype=torch.double)
    assert near.value == map(y).item()
    assert near.standard_error == pytest.approx(0.3 * map.log_slope(y).exp().item())
    assert (pending, broken) == history.records[1:3]
    assert (plain.value, plain.standard_error) == (0.5, None)
    assert snapshot.transformed(IDENTITY) is snapshot
    (_, Y, Yvar), known = data_of(snapshot.space, [near, near]), data_of(snapshot.space, [history.records[0]], map)
    assert known.Y.item() == near.value
    assert known.Yvar.item() == pytest.approx(near.standard_error**2)
    assert Y.shape == Yvar.shape == (2, 1)
