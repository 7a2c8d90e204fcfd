"""Points at any time: measured elsewhere, wanted by the user, taken from other runs and tables."""

import math
import sys
from dataclasses import replace

import pandas
import pytest
import torch
import yaml
from refusals import refused
from toy import Hill, Walk

from mfbo_torch.app import tabular_io
from mfbo_torch.app.cli import main
from mfbo_torch.app.experiment import load, observations_of
from mfbo_torch.history import GIVEN, History, Query, Record, Status
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.problems import Currin
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import GPUCB, MFGPUCB, Strategy
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import adaptive_thresholds, impatience
from mfbo_torch.utils.errors import SettingError


def optimizer(**settings):
    return Optimizer(Walk(**settings), problem=Hill())


def test_a_point_that_nobody_asked_for(tmp_path):
    """It costs nothing, is in the journal, and what is decided with it is decided again."""
    with Journal(tmp_path / "a.sqlite") as journal:
        opt = Optimizer(Walk(), journal, problem=Hill())
        (pending,) = opt.ask()
        deciding = opt.deciding()
        added = opt.add({"x": 4}, 1, -1.5, 0.25)
        late = opt.accept(deciding())[0]
        opt.tell(pending.id, 1.0)
        (last,) = opt.ask()
        assert (added.id, added.query, added.cost, added.status) == (1, Query((4.0,), 1, GIVEN), 0.0, Status.DONE)
        assert (added.value, added.standard_error, added.given, added.decided) == (-1.5, 0.25, True, False)
        assert (late.id, last.id, late.query.meta["total"], last.query.meta["total"]) == (2, 3, 0.0, -0.5)
        assert opt.history.spent == sum(r.cost for r in (pending, late, last))
        bases = [(query, len(base)) for base, query in journal.replay()]
        assert [(r.query, n) for r, n in ((pending, 0), (added, 1), (late, 1), (last, 3))] == bases
        kept = opt.history
    with Journal(tmp_path / "a.sqlite") as journal:
        again = Optimizer(Walk(), journal, problem=Hill())
        assert again.history == kept
        again.add({"x": 5.0}, 0, 3.0)
        assert len(journal.history()) == 5


def test_what_is_wanted_survives_an_error_while_deciding():
    opt = optimizer()
    wanted = opt.enqueue({"x": 4})
    with pytest.raises(SettingError, match="capital"):
        opt.ask(2, capital="thirty")
    assert opt.ask()[0] == wanted


def test_a_design_that_is_wanted(tmp_path):
    """It is given out before anything is decided, once, and after a crash again."""
    with Journal(tmp_path / "a.sqlite") as journal:
        opt = Optimizer(Walk(), journal, problem=Hill())
        first, second, third = opt.enqueue({"x": 4}), opt.enqueue({"x": 5}, 0), opt.enqueue({"x": 6}, 0)
        assert [(r.query.x, r.query.fidelity, r.cost) for r in (first, second)] == [((4.0,), 1, 10.0), ((5.0,), 0, 1.0)]
        opt.tell(second.id, 1.0)  # by somebody who looks at what is pending
        assert opt.ask() == [first]
        found, decided = opt.ask(2)
        assert found == third
        assert (decided.decided, found.decided) == (True, False)
    with Journal(tmp_path / "a.sqlite") as journal:
        again = Optimizer(Walk(), journal, problem=Hill())
        assert again.ask(2) == [first, third]
        assert again.ask()[0].decided


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda opt: opt.add({"X": 1}, 0, 1.0), "parameters = 'X': must be one of x; did you mean x?"),
        (lambda opt: opt.add({}, 0, 1.0), "parameters = {}: must be given with x"),
        (lambda opt: opt.add([1.0], 0, 1.0), r"parameters = \[1.0\]: must be a mapping of x to their values"),
        (lambda opt: opt.add({"x": 11}, 0, 1.0), "parameters.x = 11: must be 0 to 10|parameters.x = 11: must be .*10"),
        (lambda opt: opt.add({"x": 1}, 2, 1.0), "fidelity = 2: must be a whole number from 0 to 1"),
        (lambda opt: opt.add({"x": 1}, 0, math.nan), "value = nan: must be a finite number"),
        (lambda opt: opt.add({"x": 1}, 0, "1"), "value = '1': must be"),
        (lambda opt: opt.add({"x": 1}, 0, 1.0, -1.0), "standard_error = -1.0: must be a number from 0 on"),
        (lambda opt: opt.add({"x": 1}, 0, 1.0, 1e200), r"standard_error = 1e\+200: must be at most 1e\+75"),
        (lambda opt: opt.enqueue({"x": "a"}), "parameters.x = 'a': must be"),
        (lambda opt: opt.enqueue({"x": 1}, -1), "fidelity = -1: must be a whole number from 0 to 1"),
        (lambda opt: opt.ask(0), "n = 0: must be a whole number from 1 on"),
    ],
)
def test_points_that_cannot_be(call, message):
    opt = optimizer()
    refused(message, call, opt)
    assert not len(opt.history)


def asked(steps):
    """A history of ``(fidelity, stage)``, every value 0."""
    made = History()
    for i, (fidelity, stage) in enumerate(steps):
        made = made.asked(Query((0.1 * i, 0.5), fidelity, {"stage": stage}), 1.0)
        made = made.updated(made.records[-1].done(float(i)))
    return made


def test_what_nobody_decided_is_no_decision():
    """Folds over decisions, beside the same history without such points."""
    own = [(1, "initial"), (0, "model"), (0, "model"), (0, "model")]
    mixed = [own[0], (0, "given"), own[1], (0, "given"), (0, "enqueued"), own[2], (0, "given"), own[3]]
    plain, more = asked(own), History(replace(r, cost=0.0) if r.given else r for r in asked(mixed))
    costs = (1.0, 2.5)
    assert impatience(more, costs) == impatience(plain, costs) == [2.0]
    assert adaptive_thresholds(more, costs).gamma == adaptive_thresholds(plain, costs).gamma
    space = Space.box([[0.0, 0.0], [1.0, 1.0]], costs)
    target = [(1, "model"), (1, "given"), (1, "enqueued")]
    widths = [GPUCB(space=space).width(asked(some)) for some in (target[:1], target)]
    assert widths[0] == widths[1]


def test_given_points_say_nothing_of_measured_costs():
    strategy = Walk(space=Space((Parameter("x", 0.0, 1.0),), (1.0, 10.0), measured=True))
    opt = Optimizer(strategy)
    opt.add({"x": 0.5}, 1, 1.0)
    assert strategy.costs(opt.history) == (1.0, 10.0)
    assert len(opt.ask(capital=0.5)) == 1  # nobody knows yet what a query costs
    opt.tell(1, 0.0, cost=4.0)
    assert strategy.costs(opt.history) == (4.0, 40.0)


def test_a_model_learns_from_points_of_others():
    """Values all over the target leave little to gain: the strategy asks near the best of them, cheaply or not."""
    problem = Currin()
    opt = Optimizer(MFGPUCB(hedge=False), problem=problem)
    for x in torch.cartesian_prod(*[torch.linspace(0.02, 1.0, 6, dtype=torch.double)] * 2).tolist():
        for fidelity in (0, 1):
            opt.add(dict(zip(["x1", "x2"], x, strict=True)), fidelity, problem.reward(x, fidelity))
    while (record := opt.ask()[0]).query.meta.get("stage") != "model":
        opt.tell(record.id, problem.reward(record.query.x, record.query.fidelity))
    best = opt.history.best(1)
    assert max(abs(a - b) for a, b in zip(record.query.x, best.query.x, strict=True)) < 0.2
    assert opt.history.spent <= 60
    assert opt.strategy.fidelity_at(best.query.x, opt.history) in (0, 1)
    assert opt.enqueue({"x1": 0.3, "x2": 0.6}).query.fidelity in (0, 1)
    assert GPUCB(space=problem.space).fidelity_at((0.3, 0.6), opt.history) == 1
    assert Strategy.fidelity_at(Walk(space=problem.space), (0.3, 0.6), opt.history) == 1


def warm(path, problem=None):
    return observations_of(str(path), problem or Hill())


def seen(records):
    return [(r.query.x, r.query.fidelity, r.value, r.cost, r.given) for r in records]


def test_a_warm_start_from_parquet(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    opt = optimizer(every=2)
    opt.ask(3)
    opt.tell(0, 0.1)
    opt.tell(1, (0.2, 0.5))
    tabular_io.write(opt.history, Hill(), tmp_path / "a.parquet")
    found = warm(tmp_path / "a.parquet")
    assert seen(found) == [(r.query.x, r.query.fidelity, r.value, 0.0, True) for r in opt.history.done]
    assert [r.standard_error for r in found] == [None, 0.5]
    pandas.DataFrame({"x": [1, 2], "value": [3.0, None]}).to_parquet(tmp_path / "b.parquet")
    assert seen(warm(tmp_path / "b.parquet")) == [((1.0,), 1, 3.0, 0.0, True)]
    pandas.DataFrame({"x": [1, 12], "value": [3.0, 1.0]}).to_parquet(tmp_path / "c.parquet")
    refused(r"x = 12(.0)?': must be .* \(.*c.parquet, row 2\)", warm, tmp_path / "c.parquet")
    (tmp_path / "d.parquet").write_text("x,value\n1,2\n")
    refused(r"d\.parquet': must be a readable Parquet file", warm, tmp_path / "d.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused("must be a CSV file, or pyarrow must be installed for Parquet", warm, tmp_path / "a.parquet")


def test_a_warm_start_from_another_run(tmp_path, capsys):
    """Names and the objective's own sign count; the run goes on from there as from a table of it."""
    settings = {"problem": {"class_path": "toy.Hill"}, "strategy": {"class_path": "toy.Walk"}, "capital": 40}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**settings, "out": str(tmp_path / "a")}))
    assert main(["run", str(tmp_path / "a.yaml")]) == 0
    run = load(tmp_path / "a")
    found = warm(tmp_path / "a")
    assert seen(found) == [(r.query.x, r.query.fidelity, r.value, 0.0, True) for r in run.history.done]
    assert seen(warm(tmp_path / "a", Hill(maximize=False)))[0][2] == -run.history.done[0].value
    arguments = ["--out", str(tmp_path / "b"), "--warm-start", str(tmp_path / "a"), "--capital", "20"]
    assert main(["run", str(tmp_path / "a.yaml"), *arguments]) == 0
    begun = load(tmp_path / "b").history
    assert begun.records[: len(found)] == tuple(found)
    assert 10 < begun.spent <= 20
    capsys.readouterr()
    short, three = Hill(upper=0.5), Hill()
    three.space = Space((Parameter("x", 0.0, 10.0),), (1.0, 2.0, 3.0))
    for path, other, message in [
        (tmp_path, short, "must be the folder or the journal of a run"),
        (tmp_path / "nothing", short, "must be a readable CSV file"),
        (tmp_path / "a", three, "must be a run with as many fidelities as this one, 3; it has 2"),
        (tmp_path / "a", short, r"x = .*must be .*observation \d+"),
    ]:
        refused(message, warm, path, other)


def test_old_journals_keep_their_queues(tmp_path):
    """A pending query of a strategy is none of the user's."""
    with Journal(tmp_path / "a.sqlite") as journal:
        journal.asked([Record(0, Query((1.0,), 0, {"stage": "model"}), 1.0)])
        assert Optimizer(Walk(), journal, problem=Hill()).ask()[0].id == 1
