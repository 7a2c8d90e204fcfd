"""Whole runs with several objectives: the front, kills, failures, missing values, limits, directions."""

import itertools
import math

import pytest

from mfbo_torch import MFEHVI, MFGPUCB, Journal, Observation, Optimizer, Parameter, Space, maximize, minimize
from mfbo_torch.app.regret_curves import shared_reference
from mfbo_torch.history import Status
from mfbo_torch.loop.early_failures import Hopeless
from mfbo_torch.space.objectives import objectives_of, worst_of_interest
from mfbo_torch.space.outcome_constraints import limits_of
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.utils.errors import SettingError

SPACE = Space([Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)], costs=[1, 4])
NAMES = ("loss", "latency")


def both(parameters, fidelity):
    """The front is between a = 0.2 and a = 0.8, at b = 0.5."""
    a, b, bias = parameters["a"], parameters["b"], 0.1 * (1 - fidelity)
    return {"loss": (a - 0.2) ** 2 + (b - 0.5) ** 2 + bias * a, "latency": (a - 0.8) ** 2 + (b - 0.5) ** 2 + bias}


def run(function=both, space=SPACE, capital=36, **settings):
    return minimize(function, space, objectives=NAMES, capital=capital, **settings)


def trace(history):
    return [(r.query.x, r.query.fidelity, r.query.meta, r.value, r.status, r.outcomes) for r in history]


@pytest.fixture(scope="module")
def whole():
    return run()


def test_the_front_is_found(whole):
    assert whole.success
    assert len(whole.front) >= 3
    assert all(set(solution.values) == {*NAMES} and set(solution.parameters) == {"a", "b"} for solution in whole.front)
    losses, latencies = zip(*(s.values.values() for s in whole.front), strict=True)
    assert list(losses) == sorted(losses)
    assert list(latencies) == sorted(latencies, reverse=True)
    for solution in whole.front:  # values are those of the user's function, in its own sign
        assert solution.values == both(solution.parameters, 1)
        assert all(deviation is not None and deviation >= 0 for deviation in solution.deviations.values())
    assert sum(abs(solution.parameters["b"] - 0.5) < 0.15 for solution in whole.front) >= 2
    labels = [label for solution in whole.front for label in solution.labels]
    assert sorted(labels) == ["best latency", "best loss", "knee"]
    knee = next(solution for solution in whole.front if "knee" in solution.labels)
    assert knee.parameters == whole.parameters
    assert whole.fun == knee.values["loss"]
    assert whole.hypervolume > 0
    assert "reference" in whole.history.records[-1].query.meta
    assert (whole.spent, whole.history.records[-1].query.fidelity) == (36, 1)  # what is left over was spent before it


def test_large_values_are_queried_as_small_ones(whole):
    def large(parameters, fidelity):
        return {name: 1e60 * value for name, value in both(parameters, fidelity).items()}

    assert [r.query.fidelity for r in run(large).history] == [r.query.fidelity for r in whole.history]


@pytest.mark.parametrize("seed", range(3))
def test_the_region_of_interest_ends_beyond_the_front(seed):
    """The reference point comes to be near the worst values on the front, 0.36 of each, and a tenth beyond."""
    modelled = [r for r in run(capital=48, seed=seed).history if "reference" in r.query.meta]
    assert all(0.3 < worst < 0.45 for record in modelled[-3:] for worst in record.query.meta["reference"])


def test_runs_are_equal_and_a_killed_one_goes_on(whole, tmp_path):
    calls = []

    def killed(parameters, fidelity):
        if len(calls) == 9:
            raise KeyboardInterrupt
        calls.append(parameters)
        return both(parameters, fidelity)

    path = tmp_path / "history.sqlite"
    assert not run(killed, journal=Journal(path)).success
    assert 0 < len(Journal(path).history().done) < len(whole.history.done)
    resumed = run(journal=Journal(path))
    assert trace(resumed.history) == trace(whole.history)
    assert resumed.front == whole.front
    assert trace(Journal(path).history()) == trace(whole.history)


def test_one_objective_in_a_list_is_one_objective():
    alone = minimize(lambda parameters, fidelity: both(parameters, fidelity)["loss"], SPACE, capital=12)
    listed = minimize(lambda p, fidelity: {"loss": both(p, fidelity)["loss"]}, SPACE, objectives=["loss"], capital=12)
    assert trace(listed.history) == trace(alone.history)
    assert (listed.fun, listed.parameters) == (alone.fun, alone.parameters)
    assert [s.values for s in listed.front] == [{"loss": listed.fun}]
    assert [s.values for s in alone.front] == [{"value": alone.fun}]


def test_directions_change_signs_alone(whole):
    def mirrored(parameters, fidelity):
        found = both(parameters, fidelity)
        return {"loss": -found["loss"], "latency": found["latency"]}

    found = maximize(mirrored, SPACE, objectives=NAMES, directions={"latency": "minimize"}, capital=36)
    assert [q.query.x for q in found.history] == [q.query.x for q in whole.history]
    assert [s.values["loss"] for s in found.front] == [-s.values["loss"] for s in whole.front]
    assert found.fun == -whole.fun


def test_failing_evaluations():
    wrong = itertools.cycle([{"latency": math.nan}, {}, {"latency": "slow"}, None])

    def sometimes(parameters, fidelity):
        found = both(parameters, fidelity)
        if parameters["a"] <= 0.5:
            return found
        instead = next(wrong)
        return {"loss": found["loss"], **instead} if instead is not None else 1 / 0

    found = run(sometimes, capital=20, strategy=MFEHVI(seed=1))
    failed = found.history.select(Status.FAILED)
    assert len(failed) >= 2
    assert found.front
    assert all(s.parameters["a"] <= 0.5 for s in found.front)
    parts = ("latency is not finite", "'latency'", "latency = 'slow'", "ZeroDivisionError")
    assert all(part in record.reason for record, part in zip(failed, itertools.cycle(parts), strict=False))


def test_a_name_that_is_never_there_ends_the_run():
    with pytest.raises(Hopeless, match="latency"):
        run(lambda parameters, fidelity: {"loss": 1.0, "latencyy": 2.0})


def test_limits_that_are_never_met():
    limited = Space(SPACE.parameters, SPACE.costs, limits={"size": "<= 1"})
    found = run(lambda p, fidelity: {**both(p, fidelity), "size": 2.0 + p["b"]}, limited, 14)
    assert found.front == []
    assert not found.success
    assert math.isnan(found.fun)
    assert math.isnan(found.hypervolume)
    assert found.history.done
    assert not any(r.feasible for r in found.history.done)


def test_thresholds_bound_the_front():
    limited = Space(SPACE.parameters, SPACE.costs, limits={"loss": "<= 0.1", "size": ">= 0.3"})
    found = run(lambda p, fidelity: {**both(p, fidelity), "size": p["b"]}, limited, 18)
    assert found.front
    assert all(s.values["loss"] <= 0.1 and s.parameters["b"] >= 0.3 for s in found.front)
    assert found.history.records[-1].query.meta["reference"][0] == pytest.approx(0.1)


def test_a_reference_that_nothing_reaches_is_no_error():
    found = run(capital=13, reference=[-5.0, -5.0])
    assert found.success
    assert found.hypervolume == 0


def test_a_known_objective_costs_nothing_and_is_exact():
    def latency(parameters):
        return (parameters["a"] - 0.8) ** 2 + (parameters["b"] - 0.5) ** 2

    def loss(parameters, fidelity):
        return {"loss": both(parameters, fidelity)["loss"]}

    found = minimize(loss, SPACE, objectives={"loss": None, "latency": latency}, capital=20)
    assert all(s.values["latency"] == latency(s.parameters) for s in found.front)
    assert {s.deviations["latency"] for s in found.front} == {0.0}
    done = found.history.done
    assert all(r.outcomes["latency"].value == latency(SPACE.named(r.query.x)) for r in done)
    assert sum(abs(s.parameters["b"] - 0.5) < 0.15 for s in found.front) >= 2
    space = Space(SPACE.parameters, SPACE.costs, objectives=objectives_of({"loss": None, "latency": latency}))
    optimizer = Optimizer(RandomSearch(space=space))
    (record,) = optimizer.ask()
    told = optimizer.tell(record.id, {"loss": 1.0})
    assert told.outcomes["latency"].value == latency(space.named(record.query.x))
    for wrong, part in (
        ({"loss": latency, "latency": latency}, "at least one that is not known"),
        ({"loss": None, "latency": lambda parameters: parameters["c"]}, "KeyError"),
        ({"loss": None, "latency": lambda parameters: math.inf}, "it gave inf"),
    ):
        with pytest.raises(SettingError, match=part):
            minimize(loss, SPACE, objectives=wrong, capital=20)


def test_trainings_that_pause_at_their_fidelities(tmp_path):
    """Several objectives of trainings: each goes on from where the design was left."""
    space = Space([Parameter("rate", 0.0, 1.0)], fidelities={"epochs": [1, 3, 9]}, continues=True)
    begun = []

    def training(parameters, trial, epochs):
        saved = trial.folder / "epochs"
        begun.append(int(saved.read_text()) if saved.exists() else 0)
        saved.write_text(str(epochs))
        return {"loss": (parameters["rate"] - 0.2) ** 2 + 1 / epochs, "latency": (parameters["rate"] - 0.8) ** 2}

    found = run(training, space, 30, journal=Journal(tmp_path / "history.sqlite"))
    assert found.front
    assert any(begun)
    assert found.spent == sum(3**r.query.fidelity for r in found.history) - sum(begun)


def test_one_fidelity_and_pairs_with_standard_errors():
    space = Space(SPACE.parameters, costs=[1])
    found = minimize(
        lambda p: {name: (value, 0.01) for name, value in both(p, 1).items()}, space, objectives=NAMES, capital=6
    )
    assert found.nfev == 6
    assert found.front[0].deviations == {"loss": 0.01, "latency": 0.01}


def test_five_objectives_are_scalarised():
    names = [f"y{k}" for k in range(5)]

    def many(parameters, fidelity):
        values = [(parameters["a"] - k / 4) ** 2 + (parameters["b"] - 0.5) ** 2 for k in range(5)]
        return dict(zip(names, values, strict=True))

    found = minimize(many, SPACE, objectives=names, capital=20)
    assert found.history.records[-1].query.meta["stage"] == "model"
    assert "best y4" in {label for s in found.front for label in s.labels}


def test_ask_and_tell_with_pending_queries(tmp_path):
    space = Space(SPACE.parameters, SPACE.costs, objectives=objectives_of({"loss": "minimize", "speed": "maximize"}))
    with pytest.raises(SettingError, match="MFEHVI and RandomSearch"):
        MFGPUCB(space=space).ask(Optimizer(RandomSearch(space=space)).history)
    with pytest.raises(SettingError, match="MFGPUCB takes one"):
        MFEHVI().bind(SPACE)
    optimizer = Optimizer(MFEHVI(seed=2, space=space), Journal(tmp_path / "history.sqlite"))
    for _ in range(4):
        queries = optimizer.ask(3)
        assert len({(r.query.x, r.query.fidelity) for r in queries}) == 3
        for record in queries:
            a, b = record.query.x
            optimizer.tell(record.id, {"loss": a**2 + b, "speed": 1 - (a - 1) ** 2 - b})
    first = optimizer.history.records[0]
    assert first.value == -(first.query.x[0] ** 2 + first.query.x[1])
    assert first.outcomes["loss"].value == -first.value
    optimizer.add({"a": 0.1, "b": 0.1}, 1, Observation(-0.11, outcomes={"loss": 0.11, "speed": 0.09}))
    with pytest.raises(SettingError, match="'speed'"):
        optimizer.add({"a": 0.2, "b": 0.1}, 1, {"loss": 0.11})
    best = optimizer.recommend()
    assert best is not None
    assert best.query.fidelity == 1
    (record,) = optimizer.ask()
    assert optimizer.tell(record.id, {"loss": math.nan, "speed": 1.0}).status == Status.FAILED


def test_wrong_settings_are_refused():
    for settings, part in (
        ({"objectives": ["loss", "loss"]}, "differ"),
        ({"directions": ["minimize"]}, "given with objectives"),
        ({"objectives": NAMES, "reference": [1.0]}, "one for each of"),
        ({"objectives": NAMES, "strategy": MFGPUCB()}, "one for MFGPUCB"),
        ({"objectives": NAMES, "patience": 5.0}, "there are loss, latency"),
        ({"objectives": {*NAMES}}, "a set has no order"),
        ({"objectives": NAMES, "directions": {"minimize", "maximize"}}, "a set has no order"),
    ):
        with pytest.raises(SettingError, match=part):
            minimize(both, SPACE, capital=20, **settings)


def test_a_limit_on_the_better_side_is_refused():
    limited = Space(SPACE.parameters, SPACE.costs, limits={"loss": ">= 0.1"})
    with pytest.raises(SettingError, match=r"limits.loss.*a limit on its worse values"):
        run(space=limited, capital=13)


def test_the_tighter_of_a_limit_and_a_reference_bounds_the_region_of_interest():
    limits = limits_of({"loss": "<= 0.3"})
    for reference, worst in ((1.0, -0.3), (0.2, -0.2), (None, -0.3)):
        one = objectives_of(NAMES, reference=None if reference is None else {"loss": reference})
        assert worst_of_interest(one, limits) == [worst, None]


def test_a_journal_is_read_with_the_present_objectives(tmp_path):
    path, settings = tmp_path / "a.sqlite", {"capital": 26, "strategy": "RandomSearch"}
    with Journal(path) as journal:
        before = run(journal=journal, **settings)
    with Journal(path) as journal:
        turned = minimize(both, SPACE, objectives=NAMES[::-1], journal=journal, **settings)
    assert {tuple(s.values.values()) for s in turned.front} == {tuple(s.values.values())[::-1] for s in before.front}
    assert [-r.value for r in turned.history.done] == [r.outcomes["latency"].value for r in turned.history.done]
    with Journal(path) as journal:
        flipped = run(journal=journal, directions=["maximize", "minimize"], **settings)
    assert [r.value for r in flipped.history.done] == [r.outcomes["loss"].value for r in flipped.history.done]


def test_a_run_goes_on_with_an_objective_less(tmp_path):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        three = minimize(
            lambda p, fidelity: {**both(p, fidelity), "size": p["b"]},
            SPACE,
            objectives=[*NAMES, "size"],
            capital=26,
            journal=journal,
        )
    assert "predicted" in three.history.records[-1].query.meta
    with Journal(path) as journal:
        assert run(capital=34, journal=journal).success


def test_a_known_objective_is_that_of_now(tmp_path):
    def loss(parameters, fidelity):
        return {"loss": both(parameters, fidelity)["loss"]}

    for shift in (0.0, 5.0):
        known = {"loss": None, "size": lambda p, shift=shift: shift + p["b"]}
        with Journal(tmp_path / "a.sqlite") as journal:
            settings = {"capital": 12 + shift, "strategy": "RandomSearch", "progress": False}
            result = minimize(loss, SPACE, objectives=known, journal=journal, **settings)
        space = result.problem.space
        assert all(r.outcomes["size"].value == shift + space.named(r.query.x)["b"] for r in result.history.done)


def test_one_objective_does_not_go_on_with_several(tmp_path):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        assert "predicted" in run(journal=journal).history.records[-1].query.meta
    for note in tmp_path.glob("*.json"):  # a copy of the journal alone
        note.unlink()
    with Journal(path) as journal, pytest.raises(SettingError, match="its own has the objectives loss, latency"):
        Optimizer(MFGPUCB(space=SPACE), journal)


def test_an_observation_has_the_signs_of_its_outcomes():
    space = Space(SPACE.parameters, SPACE.costs, objectives=objectives_of(NAMES))
    optimizer = Optimizer(RandomSearch(space=space))
    (record,) = optimizer.ask()
    told = optimizer.tell(record.id, Observation(9.0, outcomes={"loss": 0.7, "latency": 0.2}))
    assert told.value == -0.7


@pytest.mark.parametrize("known", [False, True])
def test_a_limit_on_an_objective_counts_from_the_first_design_on(known):
    space = Space(SPACE.parameters, [1, 5], limits={"k": "<= 0.5"})
    given = {"loss": None, "k": lambda p: 1 - p["a"]} if known else ["loss", "k"]
    result = minimize(lambda p, fidelity: {"loss": p["a"], "k": 1 - p["a"]}, space, 12, objectives=given)
    assert len(result.front) == 1


def test_a_known_objective_that_breaks_at_a_design_is_named():
    def log(parameters):
        return math.log(parameters["a"])  # breaks at 0 alone

    with pytest.raises(SettingError, match=r"objectives.size.*'a': 0.0.*math domain error"):
        minimize(
            lambda p, fidelity: Observation(both(p, fidelity)["loss"], None, {"loss": both(p, fidelity)["loss"]}),
            SPACE,
            objectives={"loss": None, "size": log},
            capital=26,
        )


def test_the_reference_of_no_runs():
    space = Space(SPACE.parameters, SPACE.costs, objectives=objectives_of(NAMES))
    assert shared_reference([], space) is None
