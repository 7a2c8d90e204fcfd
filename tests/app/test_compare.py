import csv
import json
import math
import os
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from command_line import contents, fails, history
from filelock import FileLock
from journals import forge
from quiet_runs import timeless
from toy import Hill, NoOptimum, Walk

from mfbo_torch import metrics
from mfbo_torch.app import cli, compare, regret_curves, run_folder
from mfbo_torch.app.cli import texts
from mfbo_torch.history import History, Query, Status
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import ShiftedPeak
from mfbo_torch.strategies import QueryMES
from mfbo_torch.strategies.indirect.base import recommendations

BASE = {
    "problem": "toy.Hill",
    "strategies": {"Walk (wide)": {"class_path": "toy.Walk", "init_args": {"width": 0.9}}, "Plain": "toy.Plain"},
    "seeds": 3,
    "capital": 40,
    "workers": 1,
}


@pytest.fixture
def config(tmp_path):
    def write(**changes):
        path = tmp_path / "mine.yaml"
        settings = {**BASE, "out": str(tmp_path / "out"), **changes}
        path.write_text(yaml.safe_dump({k: v for k, v in settings.items() if v is not None}, sort_keys=False))
        return str(path)

    return write


def table(out):
    with (out / "regret.csv").open() as file:
        return list(csv.DictReader(file))


def test_every_strategy_runs_with_every_seed(config, tmp_path, capsys):
    assert cli.main(["compare", config()]) == 0
    out = tmp_path / "out"
    assert (out / "regret.png").stat().st_size > 10_000
    for seed in range(3):
        expected = run(Hill(), Walk(width=0.9, seed=seed), 40.0, progress=False)
        assert timeless(history(out / "Hill" / "Walk-wide" / f"seed-{seed}")) == timeless(expected)
    rows = table(out)
    assert ",".join(rows[0]) == "problem,strategy,seed,capital,simple_regret,cumulative_regret,best_value"
    assert {(row["strategy"], row["seed"]) for row in rows} == {(s, n) for s in BASE["strategies"] for n in "012"}
    ends = defaultdict(list)
    for row in rows:
        if float(row["capital"]) == 40.0:
            ends[row["strategy"]].append(float(row["simple_regret"]))
    printed = capsys.readouterr().out
    assert "6 of 6 runs finished" in printed
    for strategy, values in ends.items():
        assert re.search(rf"{re.escape(strategy)} +{np.median(values):.5g} +3 seeds", printed)
    assert cli.main(["show", str(out)]) == 0
    assert capsys.readouterr().out.strip() in printed


def test_finished_runs_are_skipped_and_interrupted_ones_continued(config, tmp_path, monkeypatch, capsys):
    class Interrupted(Hill):
        def evaluate(self, x, fidelity):
            if fidelity:
                raise KeyboardInterrupt
            return super().evaluate(x, fidelity)

    out = tmp_path / "out" / "Hill"
    ran = []
    drive = compare.execute

    def watched(plan, **kwargs):
        ran.append(plan.out.relative_to(out).as_posix())
        return drive(replace(plan, problem=Interrupted()) if len(ran) == 3 else plan, **kwargs)

    monkeypatch.setattr(compare, "execute", watched)
    assert cli.main(["compare", config()]) == 130
    assert "interrupted; the same command continues" in capsys.readouterr().err
    assert ran == [f"Walk-wide/seed-{seed}" for seed in (0, 1, 2)]
    assert history(out / "Walk-wide" / "seed-2").pending
    assert cli.main(["show", str(tmp_path / "out")]) == 0
    assert "2 of 6 runs finished, 1 more begun" in capsys.readouterr().out
    before = contents(out / "Walk-wide" / "seed-0")
    assert cli.main(["compare", config()]) == 0
    assert ran[3:] == ["Walk-wide/seed-2", "Plain/seed-0", "Plain/seed-1", "Plain/seed-2"]
    assert contents(out / "Walk-wide" / "seed-0") == before
    expected = run(Hill(), Walk(width=0.9, seed=2), 40.0, progress=False)
    assert timeless(history(out / "Walk-wide" / "seed-2")) == timeless(expected)
    assert cli.main(["compare", config(capital=60), "--seeds", "2"]) == 0
    assert len(ran) == 11


@pytest.mark.slow
def test_processes_give_the_same(config, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "helpers"))
    assert cli.main(["compare", config(), "--seeds", "[4, 7]", "--workers", "2", "--out", str(tmp_path / "two")]) == 0
    assert cli.main(["compare", config(), "--seeds", "[4, 7]"]) == 0
    assert table(tmp_path / "two") == table(tmp_path / "out")
    assert {row["seed"] for row in table(tmp_path / "out")} == {"4", "7"}


@pytest.mark.slow
def test_an_evaluation_that_kills_its_process_fails_as_in_a_run(config, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "helpers"))
    dies = {"class_path": "toy.Hill", "init_args": {"trouble": "die"}}
    assert cli.main(["compare", config(problem=dies, workers=2, seeds=1)]) == 0
    assert "2 of 2 runs finished" in capsys.readouterr().out
    runs = [history(tmp_path / "out" / "Hill" / label / "seed-0") for label in ("Walk-wide", "Plain")]
    failed = [record for each in runs for record in each.select(Status.FAILED)]
    assert failed
    assert all(record.query.x[0] > 5 and "the process died" in record.reason for record in failed)


def test_a_run_that_fails_does_not_stop_the_others(config, tmp_path, capsys):
    assert cli.main(["compare", config(strategies={"Stubborn": "toy.Stubborn", "Walk": "toy.Walk"}, seeds=1)]) == 1
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert err.endswith("seed-0: SettingError: patience = 4: must be more than that")
    assert {row["strategy"] for row in table(tmp_path / "out")} == {"Walk"}
    assert cli.main(["compare", config(strategies={"Stubborn": "toy.Stubborn"}, out=str(tmp_path / "b"))]) == 1
    assert table(tmp_path / "b") == []


def test_several_problems_with_their_own_capital(config, tmp_path, capsys):
    problems = ["toy.Hill", {"class_path": "toy.Hill", "init_args": {"maximize": False}}, "toy.NoOptimum"]
    path = config(problem=None, problems=problems, capital=None, capital_multiple=3, seeds=2, metric="cumulative")
    assert cli.main(["compare", path]) == 0
    rows = table(tmp_path / "out")
    assert {row["problem"] for row in rows} == {"Hill", "Hill 2", "NoOptimum"}
    assert max(float(row["capital"]) for row in rows) == 30.0
    printed = capsys.readouterr().out
    assert "Hill 2: median cumulative regret / capital at the end" in printed
    assert "NoOptimum: median best value at the end" in printed
    by_problem = defaultdict(list)
    for row in rows:
        by_problem[row["problem"]].append(row)
    for up, down in zip(by_problem["Hill"], by_problem["Hill 2"], strict=True):
        assert (up["simple_regret"], up["cumulative_regret"]) == (down["simple_regret"], down["cumulative_regret"])
        assert not up["best_value"] or float(up["best_value"]) == -float(down["best_value"])
    assert {row["simple_regret"] + row["cumulative_regret"] for row in by_problem["NoOptimum"]} == {""}


@pytest.mark.parametrize("maximize", [True, False])
def test_a_curve_is_what_the_metrics_say(maximize):
    problem = Hill(maximize=maximize, trouble="raise")
    h = run(problem, Walk(), 83.0, progress=False)
    curve = regret_curves.curve(h, problem, 83.0)
    simple = metrics.simple_regret(h, 1, 1.0, -60.0)
    spent = metrics.capital_spent(h)
    for i, amount in enumerate(curve.capital):
        paid = int((spent <= amount + 1e-9).sum())
        assert curve.simple[i] == (simple[paid - 1].item() if paid else 61.0)
        expected = metrics.cumulative_regret(h, 1, 1.0, -60.0, amount)
        assert curve.cumulative[i] == pytest.approx(expected, rel=1e-12, abs=1e-9)
    assert curve.best[-1] == problem.signed(h.best(1).value)
    assert math.isnan(curve.best[0])


def test_a_curve_without_values_or_without_bounds():
    nothing = regret_curves.curve(History(), Hill(), 10.0)
    assert set(nothing.simple) == {61.0}
    assert nothing.cumulative == pytest.approx(nothing.capital * 61.0)
    problem = Hill()
    problem.worst = None
    h = History().asked(Query((3.0,), 1), 10.0)
    h = h.updated(h.records[0].done(0.25))
    curve = regret_curves.curve(h, problem, 20.0)
    assert np.isnan(curve.simple[curve.capital < 10]).all()
    assert set(curve.simple[curve.capital >= 10]) == {0.75}
    assert np.isnan(regret_curves.curve(h, NoOptimum(), 20.0).simple).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"problem": None}, "problems = None: must be given, or problem"),
        ({"capital": None}, "must be given once, as capital or as capital_multiple"),
        ({"capital": 0}, "capital = 0"),
        ({"capital_multiple": 3}, "must be given once, as capital or as capital_multiple"),
        ({"strategies": {}}, "strategies = {}: must be at least one"),
        ({"strategies": {"A b": "toy.Walk", "A-b": "toy.Walk"}}, "labels that differ in letters or digits"),
        ({"seeds": 0}, "seeds = 0: must be whole numbers from 0 on"),
        ({"seeds": [1, -1]}, "seeds = [1, -1]: must be whole numbers from 0 on"),
        ({"seeds": "x"}, "seeds = 'x': must be a whole number or"),
        ({"workers": 0}, "workers = 0: must be a whole number from 1 on"),
        ({"metric": "nice"}, "metric = 'nice': must be one of 'simple', 'cumulative'"),
        ({"nope": 1}, "nope = 1: must be one of the settings problem, problems"),
        ({"problem": "Nope"}, "problem.class_path = 'Nope': must be one of"),
        ({"strategies": {"A": "Nope"}}, "strategies.A.class_path = 'Nope': must be one of"),
        (
            {"strategies": {"A": {"class_path": "toy.Walk", "init_args": {"nope": 1}}}},
            "strategies.A.nope = 1: must be one of the settings of toy.Walk: every, width",
        ),
        ({"strategies": {"A": {"class_path": "toy.Walk", "init_args": {"every": 0}}}}, "every = 0: must be"),
        ({"capital": 0.1}, "capital = 0.1: must be at least 1"),
    ],
)
def test_bad_settings_are_one_line_and_leave_nothing(config, tmp_path, capsys, changes, said):
    fails(capsys, ["compare", config(**changes)], said)
    assert not (tmp_path / "out").exists()


def test_folders_that_hold_something_else(config, tmp_path, capsys, monkeypatch):
    assert cli.main(["compare", config(seeds=1)]) == 0
    out = tmp_path / "out"
    before = contents(out / "Hill" / "Plain" / "seed-0")
    fails(capsys, ["compare", config(strategies={"Plain": "toy.Walk"})], "strategy is {'class_path': 'toy.Plain'")
    assert contents(out / "Hill" / "Plain" / "seed-0") == before
    fails(capsys, ["compare", config(), "--out", str(out / "Hill" / "Plain" / "seed-0")], "it holds a single run")

    fails(capsys, ["compare", config(problem="toy.NoOptimum")], "it compares on Hill")
    with FileLock(out / compare.LOCK):
        fails(capsys, ["compare", config()], "a folder that no other mfbo compare is running in now")

    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "write_text", full)
    fails(capsys, ["compare", config()], "must be a folder that can be written: No space left on device")


def test_a_damaged_summary_is_written_anew(config, tmp_path):
    assert cli.main(["compare", config(seeds=1)]) == 0
    summary = tmp_path / "out" / "Hill" / "Plain" / "seed-0" / "summary.json"
    whole = summary.read_text()
    summary.write_text("{")
    assert cli.main(["compare", config(seeds=1)]) == 0
    assert summary.read_text() == whole


def test_designs_of_another_space_are_refused_in_every_command(config, tmp_path, capsys):
    assert cli.main(["compare", config(seeds=1)]) == 0
    forge(tmp_path / "out" / "Hill" / "Plain" / "seed-0" / "history.sqlite", 1, x="'[0.5, 0.5]'")
    for command in ("show", "export"):
        fails(capsys, [command, str(tmp_path / "out")], "a history of this problem")


def test_folders_have_plain_names():
    assert compare._slug("MF-GP-UCB (paper)") == "MF-GP-UCB-paper"
    assert compare._slug("../..") == "run"
    assert json.loads(json.dumps(compare._slug("été 2"))) == "été-2"


@pytest.mark.slow
def test_averages_are_judged_by_what_is_recommended(tmp_path, capsys):
    """Not by the best average, which no strategy is after."""
    problem = ShiftedPeak((0.3,), noise=0.0)
    entry = {"class_path": "mfbo_torch.problems.ShiftedPeak", "init_args": {"widths": [0.3], "noise": 0.0}}
    strategies = {"MES": {"class_path": "mfbo_torch.strategies.QueryMES"}}
    path = tmp_path / "config.yaml"
    settings = {"problem": entry, "strategies": strategies, "capital": 4, "seeds": 1, "out": str(tmp_path / "out")}
    path.write_text(yaml.safe_dump(settings))
    assert cli.main(["compare", str(path)]) == 0
    assert "ShiftedPeak: median simple regret at the end" in capsys.readouterr().out
    (found,) = compare.load(tmp_path / "out").curves["ShiftedPeak", "MES"].values()
    with Journal(tmp_path / "out" / "ShiftedPeak" / "MES" / "seed-0" / "history.sqlite", read_only=True) as journal:
        past = journal.history()
    simple, _ = problem.regrets(past, recommendations(QueryMES(seed=0).bind(problem.space, 4), past))
    assert found.simple[-1] == pytest.approx(simple[-1].item())
    assert found.best[-1] == pytest.approx(problem.latent_optimum - simple[-1].item())
    earned = [problem.averages(torch.tensor([r.query.x], dtype=torch.double), 0).item() for r in past]
    assert found.cumulative[-1] == pytest.approx(sum(problem.latent_optimum - value for value in earned))
    advised = tmp_path / "out" / "ShiftedPeak" / "MES" / "seed-0" / "recommended.json"
    noted = advised.read_text()
    advised.unlink()  # as if killed before it was written
    assert cli.main(["compare", str(path)]) == 0
    assert advised.read_text() == noted
    assert np.isnan(regret_curves.curve(past, problem, 4.0).simple).all()
    for text in ("[" * 2000 + "]" * 2000, '["a"]', "[[1], 2]", "{}", f"[{'9' * 400}]", "no JSON", "\xff"):
        advised.write_text(text)
        fails(capsys, ["show", str(tmp_path / "out")], "must be a list of numbers")
    advised.write_text("[[1.0]]")
    assert cli.main(["show", str(tmp_path / "out")]) == 0
    advised.unlink()
    os.mkfifo(advised)
    fails(capsys, ["show", str(tmp_path / "out")], "not a regular file")


def test_runs_without_a_value_are_left_out_of_the_median(config, tmp_path, monkeypatch, capsys):
    ends = iter([0.7, 0.9, float("nan"), float("nan"), float("nan"), float("nan")])
    monkeypatch.setattr(texts, "final", lambda *_: next(ends))
    path = config(strategies={"mixed": "toy.Walk", "none": "toy.Walk"}, seeds=3)
    assert cli.main(["compare", path, "--workers", "1"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["mixed", "0.8", "2", "of", "3", "seeds"] in shown
    assert ["none", "nan", "0", "of", "3", "seeds"] in shown
