"""When a run ends before its capital is spent: a rule at a time, by hand, and on the way through a run."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
import yaml
from refusals import refused
from toy import Flaky, Hill, Walk

from mfbo_torch import maximize
from mfbo_torch.app import experiment
from mfbo_torch.app.cli import main
from mfbo_torch.history import History, Query
from mfbo_torch.history.observation import Outcome
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.loop.runner import drive, run
from mfbo_torch.loop.stopping import Idle, Stopping, gain, reached
from mfbo_torch.problems import IndirectBranin
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import CMES, GPUCB, ExpectedImprovement


def history(*steps):
    """Of ``(fidelity, value, stage)``: a cheap query costs 1, one of the target 10; without a value it is pending."""
    made = History()
    for i, (fidelity, value, stage) in enumerate(steps):
        made = made.asked(Query((0.1 * i,), fidelity, {"stage": stage}), (1.0, 10.0)[fidelity])
        made = made if value is None else made.updated(made.records[-1].done(value))
    return made


@pytest.mark.parametrize(
    ("steps", "spent"),
    [
        ([], 0.0),
        ([(0, 5.0, "initial"), (1, 1.0, "initial"), (0, 2.0, "initial")], 0.0),  # the design is no wait
        ([(1, 1.0, "initial"), (0, 9.0, "model"), (0, 9.0, "model")], 2.0),  # a cheap value is no better one
        ([(1, 1.0, "initial"), (1, 0.0, "model"), (0, 9.0, "model"), (1, 2.0, "model")], 0.0),
        ([(1, 1.0, "initial"), (1, 0.0, "model"), (1, 1.00005, "model")], 20.0),  # better by next to nothing
        ([(1, 1.0, "initial"), (1, 0.0, "model"), (1, 1.0002, "model"), (0, 0.0, "model")], 1.0),
        ([(1, 1.0, "initial"), (1, 0.0, "model"), (1, None, "model")], 10.0),  # nobody knows yet what it brings
    ],
)
def test_capital_without_a_better_value(steps, spent):
    assert Idle(1)(history(*steps)) == spent


def test_a_failure_is_waited_for_too():
    made = history((1, 1.0, "initial"), (1, None, "model"))
    assert Idle(1)(made.updated(made.records[1].failed("lost"))) == 10.0


def test_a_value_beyond_a_limit_is_no_better_one():
    made = history((1, 1.0, "initial"), (1, 0.0, "model"), (1, 9.0, "model"))
    broken = made.records[2]
    assert Idle(1)(made) == 0.0
    outcome = {"size": Outcome(2.0, met=False)}
    assert Idle(1)(made.updated(replace(broken, outcomes=outcome))) == 20.0


def test_a_value_that_is_good_enough():
    made = history((0, 5.0, "model"), (1, -1.0, "model"), (1, -2.0, "model"))
    assert reached(made, Hill(), -1.0) == -1.0
    assert reached(made, Hill(), -0.9) is None
    assert reached(made, Hill(maximize=False), 1.0) == 1.0
    assert reached(made, Hill(maximize=False), 0.9) is None
    assert reached(History(), Hill(), -9.0) is None


class Certain(Walk):
    """Believes in ``mean(x) = -(x - 0.7)^2`` with deviation ``0.05 |x - 0.2|``."""

    def predict(self, history, X):
        return (-((X - 0.7) ** 2)).expand(-1, 2), 0.05 * (X - 0.2).abs().expand(-1, 2)


def test_the_bound_on_what_is_left_to_gain():
    """Against the model's bands on a fine grid."""
    strategy = Certain(space=Space((Parameter("x", 0.0, 1.0),), (1.0, 10.0)))
    made = history((1, -0.49, "model"), (1, -0.36, "model"), (0, 3.0, "model"), (1, -0.16, "model"))
    x = torch.linspace(0.0, 1.0, 100_001, dtype=torch.double)
    mean, band = -((x - 0.7) ** 2), 0.1 * (x - 0.2).abs()
    at = torch.tensor([0.0, 0.1, 0.3], dtype=torch.double)
    best = (-((at - 0.7) ** 2) - 0.1 * (at - 0.2).abs()).max()
    wanted = ((mean + band).max() - best).item() / (0.49 - 0.16)
    assert gain(strategy, made) == pytest.approx(wanted, rel=1e-4)
    assert gain(strategy, History(made.records[:3])) == math.inf
    assert gain(Walk(space=strategy.space), made) == math.inf


def test_the_bound_where_there_are_choices():
    space = Space({"x": (0.0, 1.0), "kind": ["a", "b", "c"]}, [1.0])
    optimizer = Optimizer(ExpectedImprovement(initial=3, space=space))
    for value in range(6):
        optimizer.tell(optimizer.ask()[0].id, float(value))
    assert 0.0 < gain(optimizer.strategy, optimizer.history) < math.inf


def test_a_model_that_knows_enough_ends_a_run():
    """A quadratic is soon known; what was found is as near to its top as the rule says, long before the end."""
    ended = drive(Hill(upper=6.0), GPUCB(seed=0, initial=6), 600.0, RunOptions(stop_gain=1e-2), progress=False)
    assert ended.finished
    assert ended.stopped.startswith("the bound on what is left to gain is ")
    x = torch.linspace(0.0, 6.0, 60_001, dtype=torch.double)
    values = [r.value for r in ended.history.done]
    assert (-((x - 3.0) ** 2) + x.sin()).max().item() - max(values) <= 1e-2 * (max(values) - min(values))
    assert ended.history.spent < 300


RULES = [({"stop_at": 0.0}, "is at least as good as 0"), ({"patience": 25.0}, "no better value for a capital of ")]


@pytest.mark.parametrize(("rule", "reason"), RULES)
@pytest.mark.parametrize("pooled", [False, True])
def test_a_run_goes_on_where_a_rule_ended_it(tmp_path, rule, reason, pooled):
    """Without the rule it is the run that never had one; with it, it stays as it is."""
    whole = run(Hill(), Walk(), 200.0, progress=False)

    def go(**rules):
        with Journal(tmp_path / "a.sqlite") as journal, ThreadPoolExecutor(1) as pool:
            executor = pool if pooled else None
            return drive(Hill(), Walk(), 200.0, RunOptions(1, **rules), executor, journal, progress=False)

    first, again, last = go(**rule), go(**rule), go()
    assert first.finished
    assert reason in first.stopped
    assert len(first.history) < len(whole)
    assert (again.history, again.stopped) == (first.history, first.stopped)
    assert (last.finished, last.stopped) == (True, "")
    assert [(r.query, r.value) for r in last.history] == [(r.query, r.value) for r in whole]


def test_no_time_is_left(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        ended = drive(Hill(seconds=0.05), Walk(), 200, RunOptions(4, time_limit=0.12), journal=journal, progress=False)
        assert ended.stopped == "the time limit of 0.12 s is reached"
        assert not ended.finished
        assert 1 <= len(ended.history.done) <= 4
        ended = drive(Hill(), Walk(), 200.0, RunOptions(4), journal=journal, progress=False)
    assert ended.finished
    assert not ended.history.pending


@pytest.mark.parametrize("charged", [False, True])
@pytest.mark.parametrize("failures", [0, 1])
def test_deciding_is_paid_for(failures, charged):
    """Once, whatever attempts there are."""
    problem = Flaky(failures, measured=True, seconds=0.01)
    (record,) = run(problem, Walk(), 1e-9, progress=False, charge_deciding=charged, retries=1)
    own = record.decision_seconds if charged else 0.0
    assert record.decision_seconds > 0
    assert record.cost - record.sunk == pytest.approx(record.evaluation_seconds + own * (not record.retries))
    assert record.sunk >= own * record.retries
    assert (record.sunk > 0) == bool(record.retries)


def test_rules_that_do_not_fit_the_run():
    no_model = r"stop_gain = 0\.1: must be left out: Walk has no model that bounds the objective"
    refused(no_model, run, Hill(), Walk(), 100.0, progress=False, stop_gain=0.1)
    limited = Space([Parameter("x", 0, 1)], [1], limits={"size": "<= 0.5"})
    beyond = "stop_gain = 0.1: must be left out: its bound knows nothing of limits"
    refused(beyond, maximize, lambda x: {"value": x, "size": x}, limited, 14, stop_gain=0.1)
    not_measured = "charge_deciding = True: must be false, or the problem's costs: measured"
    refused(not_measured, run, Hill(), Walk(), 100.0, progress=False, charge_deciding=True)
    problem = IndirectBranin()
    averages = r"stop_gain = 0\.1: must be left out: CMES"
    refused(averages, Stopping, RunOptions(stop_gain=0.1), problem, CMES(space=problem.space))


def test_the_reason_is_told_everywhere(tmp_path, capsys):
    out = tmp_path / "out"
    settings = {"problem": {"class_path": "toy.Hill"}, "strategy": {"class_path": "toy.Walk"}, "capital": 200}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**settings, "patience": 25, "out": str(out)}))
    assert main(["run", str(tmp_path / "a.yaml")]) == 0
    reason = json.loads((out / "summary.json").read_text())["stopped"]
    assert reason.startswith("no better value for a capital of ")
    assert f"Stopped       {reason}" in capsys.readouterr().out
    assert reason in (out / "run.log").read_text()
    assert main(["show", str(out)]) == 0
    assert f"Stopped       {reason}" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "a.yaml"), "--patience", "null"]) == 0
    assert "Stopped" not in capsys.readouterr().out
    assert experiment.load(out).stopped == ""
    assert main(["run", str(tmp_path / "a.yaml"), "--out", str(tmp_path / "b"), "--time-limit", "0"]) == 2
    assert "time_limit = 0.0: must be a number of seconds above 0" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
