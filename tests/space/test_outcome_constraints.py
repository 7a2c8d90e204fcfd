"""Limits on what is measured beside the value: how they are given, kept, told and shown."""

import json
import math
import re

import pytest
from refusals import refused

from mfbo_torch import Journal, Observation, Optimizer, Parameter, Space, UserProblem, run
from mfbo_torch.app import cli, experiment, tabular_io
from mfbo_torch.history import Status
from mfbo_torch.history.observation import Outcome
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.metrics import best_values
from mfbo_torch.problems.problem_snapshot import known_of, stand_in
from mfbo_torch.space.outcome_constraints import Limit, limits_of
from mfbo_torch.strategies import RandomSearch

LIMITS = {"latency": "<= 20", "recall": ">= 0.5"}
SPACE = Space([Parameter("x", 0.0, 1.0)], [1, 10], limits=LIMITS)


def objective(parameters, fidelity):
    x = parameters["x"]
    return {"score": x, "latency": (30 * x, 0.5), "recall": 1 - x / 4 - 0.1 * fidelity, "unlimited": "text"}


def problem(**settings) -> UserProblem:
    parameters = {"x": {"lower": 0.0, "upper": 1.0}}
    return UserProblem(objective, parameters, [1, 10], **{"constraints": LIMITS, "value": "score", **settings})


TWENTY, LEAST = Limit("a", 20.0), Limit("a", -1e-3, False)
GIVEN = [({"a": "<= 20"}, TWENTY), ([["a", 20, True]], TWENTY), ({"a": ">=-1e-3"}, LEAST)]


@pytest.mark.parametrize(("given", "wanted"), GIVEN)
def test_limits(given, wanted):
    assert limits_of(given) == (wanted,)
    assert limits_of(limits_of(given)) == (wanted,)
    assert wanted.met(wanted.bound)
    assert wanted.met(wanted.bound + (-1 if wanted.upper else 1))
    assert not wanted.met(wanted.bound + (1 if wanted.upper else -1))


@pytest.mark.parametrize("bound", ["< 20", "20", "<= twenty", "<= nan", "minimize", 20, None, ["<= 1", ">= 0"]])
def test_bounds_that_are_none_and_names_that_clash_are_refused(bound):
    several = ".*named by objectives" if isinstance(bound, str) else "$"
    refused(rf'constraints\.a = .*: must be like "<= 20" or ">= 0\.9"{several}', problem, constraints={"a": bound})
    refused("constraints = 'score': must be bounds on other numbers", problem, constraints={"score": "<= 1"})
    refused("other than 'value'", Space, [Parameter("x", 0, 1)], [1.0], limits={"value": "<= 1"})
    refused("one bound on each outcome", limits_of, [("a", 1.0, True), ("a", 0.0, False)])


def test_an_evaluation_brings_its_outcomes():
    found = evaluate(problem(maximize=False), [0.4], 1)
    assert found.reason == ""
    limits, outcomes = problem().space.limits, objective({"x": 0.4}, 1)
    assert found.observation == Observation(-0.4, None, outcomes).judged(limits)


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (0.5, "'latency': must be in what the objective returns"),
        ({"score": 1.0, "latency": 1.0}, "'recall': must be .*there are latency"),
        ({"latency": 1.0, "recall": 1.0}, "a mapping with 'score', the value to be optimised"),
        ({"score": 1.0, "latency": math.nan, "recall": 1.0}, "latency = nan: must be a finite number"),
        ({"score": 1.0, "latency": "fast", "recall": 1.0}, "latency = 'fast': must be a number"),
        ({"score": [1.0, 2.0], "latency": 1.0, "recall": 1.0}, "objective's value score"),
        ([1.0, 2.0], "several objectives are named by objectives"),
        ((1.0, 2.0, 3.0), "several objectives are named by objectives"),
    ],
)
def test_what_is_missing_is_a_failure_with_its_reason(returned, reason, monkeypatch):
    made = problem()
    monkeypatch.setattr(made, "objective", lambda parameters, fidelity: returned)
    found = evaluate(made, [0.4], 1)
    assert found.observation is None
    assert re.search(reason, found.reason)


def told(journal: Journal | None = None) -> Optimizer:
    optimizer = Optimizer(RandomSearch(space=SPACE), journal)
    for value, latency, recall in ((0.9, 21.0, 0.9), (0.5, 19.0, 0.9), (0.7, 20.0, 0.4)):
        (record,) = optimizer.ask()
        optimizer.tell(record.id, {"value": value, "latency": (latency, 0.5), "recall": recall})
    return optimizer


def test_the_best_is_the_best_feasible_one(tmp_path):
    with Journal(tmp_path / "history.sqlite") as journal:
        history = told(journal).history
        assert [r.feasible for r in history] == [False, True, False]
        assert history.best(1).value == 0.5
        assert best_values(history, 1).tolist() == [-math.inf, 0.5, 0.5]
        assert history.records[0].outcomes == {"latency": Outcome(21.0, 0.5, False), "recall": Outcome(0.9, None, True)}
    with Journal(tmp_path / "history.sqlite") as journal:
        assert journal.history() == history
        looser = Space(SPACE.parameters, SPACE.costs, limits={"latency": "<= 25"})
        assert Optimizer(RandomSearch(space=looser), journal).history.best(1).value == 0.9
        other = Space(SPACE.parameters, SPACE.costs, limits={"size": "<= 25"})
        refused("a history in which size was measured", Optimizer, RandomSearch(space=other), journal)


def test_an_optimizer_is_told_what_has_a_limit():
    optimizer = Optimizer(RandomSearch(space=SPACE))
    (record,) = optimizer.ask()
    for wrong in (0.5, (0.5, 0.1), Observation(0.5, None, {"latency": 1.0}), {"value": 1.0, "latency": 1.0}):
        refused(r"outcomes = '(latency|recall)'", optimizer.tell, record.id, wrong)
    assert optimizer.history.pending == [record]
    optimizer.tell(record.id, Observation(0.5, 0.1, {"latency": 1.0, "recall": 1.0}))
    (found,) = optimizer.history
    assert (found.value, found.standard_error, found.feasible) == (0.5, 0.1, True)
    refused(r"outcomes = 'latency'", optimizer.add, {"x": 0.5}, 1, 0.7)
    added = optimizer.add({"x": 0.5}, 1, {"value": 0.7, "latency": 30.0, "recall": 1.0}, standard_error=0.2)
    assert (added.value, added.standard_error, added.feasible) == (0.7, 0.2, False)


def test_a_table_and_a_snapshot_and_back(tmp_path):
    made = problem(maximize=False)
    history = run(made, RandomSearch(), 60, progress=False)
    for record in history:
        assert record.feasible == (30 * record.query.x[0] <= 20 and 0.9 - record.query.x[0] / 4 >= 0.5)
    tabular_io.write(history, made, tmp_path / "history.csv")
    again = tabular_io.read(tmp_path / "history.csv", made)
    assert [(r.query.x, r.value, r.outcomes) for r in again] == [(r.query.x, r.value, r.outcomes) for r in history]
    optimizer = Optimizer(RandomSearch(space=made.space))
    optimizer.give(again)
    assert optimizer.history.best(1).query.x == history.best(1).query.x
    (tmp_path / "bare.csv").write_text("x,value\n0.5,1\n")
    refused(r"a table with a column outcome\.latency, outcome\.recall", tabular_io.read, tmp_path / "bare.csv", made)
    assert stand_in(json.loads(json.dumps(known_of(made))), "own.Problem").space == made.space  # a class not imported


def test_a_run_from_yaml(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "limited.py").write_text("def f(parameters, fidelity):\n    return {'value': 1.0, 'latency': 25.0}\n")
    (tmp_path / "mine.yaml").write_text(
        "problem:\n  class_path: UserProblem\n  init_args:\n    objective: limited:f\n"
        "    parameters: {x: {lower: 0, upper: 1}}\n    costs: [1]\n    constraints: {latency: '<= 20'}\n"
        "strategy: RandomSearch\ncapital: 2\n"
    )
    assert cli.main(["run", "mine.yaml"]) == 0
    said = capsys.readouterr().out
    assert "none that is feasible" in said
    assert "latency <= 20 in 0 of 2" in said
    summary = json.loads((tmp_path / "runs" / "mine" / "summary.json").read_text())
    assert summary["constraints"] == {"latency": {"limit": "latency <= 20", "kept": 0, "of": 2, "at_best": None}}
    shown = experiment.load("runs/mine")
    assert all(not r.feasible for r in shown.history.select(Status.DONE))
    assert cli.main(["run", "mine.yaml", "--strategy", "MFNaive", "--out", "runs/other"]) == 2
    assert "MFNaive does not seek what keeps them; MFGPUCB, " in capsys.readouterr().err
    assert not (tmp_path / "runs" / "other" / "history.sqlite").exists()
