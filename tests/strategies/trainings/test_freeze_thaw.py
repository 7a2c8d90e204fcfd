"""A bracket of successive halving, and the decisions made by forecasts."""

import math
from statistics import median

import pytest

from mfbo_torch import FreezeThaw, Optimizer, Parameter, Space, minimize
from mfbo_torch.history import Status
from mfbo_torch.strategies import ExpectedImprovement
from mfbo_torch.strategies.trainings.successive_halving import Bracket, increments

SPACE = Space([Parameter("rate", 0.0, 1.0), Parameter("width", 0.0, 1.0)], epochs=27)


def loss(x, epoch):
    return 0.01 + (x[0] - 0.3) ** 2 + 0.2 * (x[1] - 0.6) ** 2 + math.exp(-epoch / (1 + 9 * x[0]))


def ended(capital, tell=None, workers=1, seed=0):
    """The optimizer after a run of its own loop; ``tell`` may tell a record otherwise."""
    optimizer = Optimizer(FreezeThaw(seed=seed).bind(SPACE, capital))
    while True:
        asked = optimizer.ask(workers, capital=capital)
        for record in asked:
            last = (1, 3, 9, 27)[record.query.fidelity]
            if tell is None or not tell(optimizer, record):
                curve = {e: -loss(record.query.x, e) for e in range(last // 3 + 1, last + 1)}
                optimizer.tell(record.id, curve[last], curve=curve)
        if not asked:
            return optimizer


@pytest.mark.parametrize(
    ("costs", "capital", "size"),
    [
        ([1, 2, 6, 18], 81, (27, 9, 3, 1)),
        ([1, 2, 6, 18], 162, (27, 9, 3, 1)),
        ([1, 2, 6, 18], 54, (18, 6, 2, 1)),
        ([1, 2, 6, 18], None, (27, 9, 3, 1)),
        ([1, 2, 6, 18], math.inf, (27, 9, 3, 1)),
        ([5], 50, (1,)),
    ],
)
def test_the_bracket_costs_about_the_capital(costs, capital, size):
    assert Bracket.of(costs, capital).size == size


def test_increments():
    assert increments([1, 3, 9, 27], True) == [1, 2, 6, 18]
    assert increments([1, 3, 9, 27], False) == [1, 3, 9, 27]


def test_a_rung_is_filled_before_the_next():
    bracket, ready = Bracket((9, 3, 1)), {1, 2}
    reached, order = [0, 0, 0], []
    while (rung := bracket.next_rung(reached, ready)) is not None:
        reached[rung] += 1
        order.append(rung)
    assert order == [0] * 9 + [1] * 3 + [2]
    assert bracket.next_rung([9, 2, 0], {2}) == 2
    assert bracket.next_rung([9, 3, 0], set()) is None


def test_the_first_bracket_is_plain_successive_halving():
    history = ended(162).history
    bracket = history.records[:40]
    assert [r.query.fidelity for r in bracket] == [0] * 27 + [1] * 9 + [2] * 3 + [3]
    for rung in (1, 2, 3):
        here = [r for r in bracket if r.query.fidelity == rung - 1]
        best = {r.query.x for r in sorted(here, key=lambda r: -r.value)[: len(here) // 3]}
        assert {r.query.x for r in bracket if r.query.fidelity == rung} == best
    assert history.spent == 162


def test_the_first_bracket_is_paid_by_half_of_the_capital():
    history = ended(81).history
    assert [r.query.fidelity for r in history.records[:20]] == [0] * 14 + [1] * 5 + [2]
    assert {r.query.meta["stage"] for r in history.records[:22]} == {"initial", "halving"}
    assert history.records[-1].query.meta["stage"] == "model"


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_what_comes_after_the_bracket_is_better(workers):
    history = ended(324, workers=workers).history
    assert history.spent == 324
    ends = [r for r in history if r.query.fidelity == 3]
    assert len(ends) >= 4
    first = max(r.value for r in ends[:1])
    assert history.best(3).value > first
    assert len({r.query.x for r in history if r.query.fidelity == 0}) == sum(r.query.fidelity == 0 for r in history)


@pytest.mark.parametrize("capital", [27, 28, 45, 62, 80, 97, 110, 161])
def test_every_capital_that_pays_for_a_training_brings_one_to_its_end(capital):
    history = ended(capital).history
    assert history.best(3) is not None
    assert history.spent <= capital


@pytest.mark.parametrize("capital", [97, 99, 161, 172])
def test_the_rest_of_the_capital_goes_on_with_what_has_paused(capital):
    history = ended(capital).history
    rest = history.records[history.select(Status.DONE, SPACE.target)[-1].id + 1 :]
    assert rest
    assert sum(r.query.fidelity == 0 for r in rest) <= 1  # an epoch that pays for nothing else


def test_no_training_is_begun_twice_where_designs_are_few():
    """Six designs, a bracket of 27."""
    space = Space({"width": ["a", "b", "c"], "layers": {"choices": [1, 2]}}, epochs=27)
    optimizer = Optimizer(FreezeThaw(seed=0).bind(space, 162))
    while asked := optimizer.ask(capital=162):
        for record in asked:
            last = (1, 3, 9, 27)[record.query.fidelity]
            end = sum(record.query.x)
            optimizer.tell(record.id, end + last / 27, curve={e: end + e / 27 for e in range(last // 3 + 1, last + 1)})
        if len(optimizer.history) >= 24:
            break
    queried = [(record.query.x, record.query.fidelity) for record in optimizer.history]
    assert len(queried) == len(set(queried)) == 24
    assert sum(fidelity == space.target for _, fidelity in queried) == 6


@pytest.mark.parametrize("epochs", [2, 5, 50, 100])
def test_any_number_of_epochs(epochs):
    def training(rate, trial):
        for epoch in trial.epochs():
            trial.report(loss((rate, 0.6), epoch))

    result = minimize(training, Space([Parameter("rate", 0.0, 1.0)], epochs=epochs), 3 * epochs)
    assert result.success


@pytest.mark.parametrize(
    ("end", "after"), [("stopped", 36), ("stopped", 41), ("failed", 0), ("failed", 36), ("failed", 41)]
)
def test_a_training_that_ends_early_changes_nothing_but_its_curve(after, end):
    """The values of all others are what they are without it, and none is taken for a value at the end."""

    def tell(optimizer, record):
        if record.id != after:
            return False
        if end == "stopped":
            optimizer.tell(record.id, None, curve={(1, 2, 4, 10)[record.query.fidelity]: -1e-3})
        else:
            optimizer.fail(record.id, "a test")
        return True

    history = ended(170, tell).history
    odd = history.records[after]
    assert odd.status == (Status.STOPPED if end == "stopped" else Status.FAILED)
    assert odd.value is None
    others = [r for r in history if r.id != after]
    assert all(r.value == -loss(r.query.x, (1, 3, 9, 27)[r.query.fidelity]) for r in others)
    assert odd.query.x not in [r.query.x for r in history.records[after + 1 :]]
    assert history.best(3) is not None


def never_stopping(capital, seed):
    """The best loss of designs of the largest expected improvement, each trained to its end."""
    optimizer = Optimizer(ExpectedImprovement(seed=seed).bind(Space(SPACE.parameters, costs=[27]), capital))
    while asked := optimizer.ask(capital=capital):
        optimizer.tell(asked[0].id, -loss(asked[0].query.x, 27))
    return -optimizer.history.best(0).value


@pytest.mark.slow
def test_stopping_early_does_not_end_worse_than_never_stopping():
    """Curves without noise, the epochs of six whole trainings, twenty seeds."""
    stopping = [-ended(162, seed=seed).history.best(3).value for seed in range(20)]
    never = [never_stopping(162, seed) for seed in range(20)]
    assert median(stopping) <= median(never)
    assert max(stopping) <= max(never)


@pytest.mark.parametrize("seed", [0, 1])
def test_trainings_go_where_they_do_not_fail(seed):
    """The smaller rates have the better first epoch, and break in the second."""

    def training(parameters, trial):
        for epoch in trial.epochs():
            if epoch == 2 and parameters["rate"] < 0.5:
                raise RuntimeError("diverged")
            trial.report((parameters["rate"] - 0.3) ** 2 + 1 / epoch)

    space = Space([Parameter("rate", 0.0, 1.0)], epochs=9)
    result = minimize(training, space, capital=36, seed=seed, progress=False)
    assert result.success
    assert result.parameters["rate"] >= 0.5


@pytest.mark.parametrize(("costs", "capital"), [([1, 10], 10), ([1, 3, 9], 12), ([1, 100], 100), ([1, 3, 9, 27], 39)])
def test_the_target_is_asked_where_nothing_continues(costs, capital):
    """Climbing to it would cost the sum of all fidelities."""
    space = Space([Parameter("x", 0.0, 1.0)], costs=costs)
    found = minimize(lambda p, fidelity: (p["x"] - 0.3) ** 2, space, capital, strategy="FreezeThaw")
    assert found.history.queries_per_fidelity(len(costs))[-1] >= 1
    assert found.success
    first = next(r for r in found.history if r.query.fidelity == len(costs) - 1)
    if first.id:
        assert "mean" not in first.query.meta  # what was expected elsewhere
        assert "the capital pays for it at the target" in found.explain(first)
