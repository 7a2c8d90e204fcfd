import csv
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest
import yaml
from command_line import contents, fails, history
from quiet_runs import timeless
from toy import Hill, Walk

from mfbo_torch import __file__ as package
from mfbo_torch.app import cli, experiment, run_folder
from mfbo_torch.app.cli import results
from mfbo_torch.history import Query, Record
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.runner import run

HERE = Path(__file__).parents[2] / "helpers"
BASE = {
    "problem": {"class_path": "toy.Hill"},
    "strategy": {"class_path": "toy.Walk", "init_args": {"every": 2}},
    "capital": 40,
}


@pytest.fixture
def config(tmp_path):
    def write(**changes):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**BASE, "out": str(tmp_path / "out"), **changes}))
        return str(path)

    return write


def test_run_leaves_settings_history_summary_and_picture(config, tmp_path, capsys):
    assert cli.main(["run", config(), "--seed", "3"]) == 0
    out = tmp_path / "out"
    files = {
        "config.yaml",
        "history.sqlite",
        "summary.json",
        "progress.png",
        "run.log",
        "history.digest.json",
    }
    assert set(contents(out)) == {*files, "history.digest.json", ".history.sqlite.lock"}
    expected = run(Hill(), Walk(2, seed=3), 40.0, progress=False)
    assert timeless(history(out)) == timeless(expected)

    summary = json.loads((out / "summary.json").read_text())
    best = expected.best(1)
    assert summary["best_parameters"] == {"x": best.query.x[0]}
    assert summary["best_value"] == best.value
    assert summary["recommended"] is None
    assert (summary["capital"], summary["spent"], summary["seed"]) == (40.0, expected.spent, 3)
    assert summary["queries_per_fidelity"] == [sum(r.query.fidelity == m for r in expected) for m in (0, 1)]
    assert summary["decision_seconds"] > 0
    assert summary["evaluation_seconds"] > 0
    assert summary["versions"].keys() == {"mfbo_torch", "torch", "botorch", "gpytorch", "python"}
    assert summary["finished"]

    settings = yaml.safe_load((out / "config.yaml").read_text())
    assert settings["seed"] == 3
    assert settings["strategy"] == {"class_path": "toy.Walk", "init_args": {"every": 2, "width": 0.3}}
    printed = capsys.readouterr().out
    assert f"Best value    {best.value:.8g}" in printed
    assert f"x = {best.query.x[0]:.6g}" in printed
    assert str(out / "progress.png") in printed


def test_the_resolved_settings_are_a_configuration(config, tmp_path):
    assert cli.main(["run", config()]) == 0
    first = history(tmp_path / "out")
    assert cli.main(["run", str(tmp_path / "out" / "config.yaml"), "--out", str(tmp_path / "again")]) == 0
    assert timeless(history(tmp_path / "again")) == timeless(first)


def test_a_larger_capital_continues(config, tmp_path, capsys):
    assert cli.main(["run", config()]) == 0
    short = history(tmp_path / "out")
    assert cli.main(["run", config(), "--capital", "90", "--max_pending", "1"]) == 0
    long = history(tmp_path / "out")
    assert long.records[: len(short)] == short.records
    assert timeless(long) == timeless(run(Hill(), Walk(2), 90.0, progress=False))
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["capital"] == 90.0
    before = contents(tmp_path / "out")
    fails(capsys, ["run", config(), "--capital", "20"], f"capital = 20.0: must be at least {long.spent:g}")
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--strategy.every", "4"], "strategy.init_args.every is 2, not 4"),
        (["--seed", "1"], "seed is 0, not 1"),
        (["--strategy", "toy.Plain"], "'toy.Plain'"),
        (["--problem.upper", "20"], "problem.init_args.upper is 10.0, not 20.0"),
        (["--dtype", "float32"], "dtype is 'float64', not 'float32'"),
    ],
)
def test_another_run_in_the_same_folder_is_refused(config, tmp_path, capsys, flags, said):
    assert cli.main(["run", config()]) == 0
    before = contents(tmp_path / "out")
    fails(capsys, ["run", config(), *flags], said)
    assert contents(tmp_path / "out") == before


def test_a_setting_found_wrong_at_the_first_decision(config, tmp_path, capsys, monkeypatch):
    """The folder of a run that never asked anything can be used with other settings."""
    monkeypatch.setattr(Walk, "decide", lambda self, history: Walk(every=0))
    fails(capsys, ["run", config()], "every = 0")
    monkeypatch.undo()
    assert cli.main(["run", config(), "--strategy.every", "4"]) == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nope"], "command = 'nope': must be one of run, compare, show"),
        (["run", "no.yaml"], "config = 'no.yaml': must be an existing file"),
        (["run"], "must be given, in CONFIG or as --"),
        (["show"], "must be one folder, as in mfbo show runs/mine; there is none in runs yet"),
        (["shwo"], "did you mean show?"),
        (["show", "--htlm"], "did you mean --html?"),
        (["show", "a", "b"], "argument = 'b': must be left out"),
        (["show", "--html", "--follow"], "not allowed with argument"),
        (["--nope"], "argument = '--nope': must be left out"),
        (["export"], "there is none in runs yet"),
        (["list", "nowhere"], "folder = 'nowhere': must be an existing folder"),
        (["completion", "sh"], "arguments = 'sh': must be as in mfbo completion [-h] SHELL (argument SHELL: invalid"),
        (["why"], "arguments = '': must be as in mfbo why [-h] [DIR] N"),
        (["show", "nowhere"], "folder = 'nowhere': must be an existing folder"),
        (["compare", "no.yaml"], "config = 'no.yaml': must be an existing file"),
    ],
)
def test_bad_commands(capsys, tmp_path, monkeypatch, argv, said):
    monkeypatch.chdir(tmp_path)
    fails(capsys, argv, said)


def test_folders_that_hold_something_else(config, tmp_path, capsys):
    out = tmp_path / "out"
    out.write_text("a file")
    fails(capsys, ["run", config()], "must be a folder")
    out.unlink()
    out.mkdir()
    fails(capsys, ["show", str(out)], f"must be that of a run; mfbo list {out} shows those in it")
    (out / "summary.json").write_text("{}")
    fails(capsys, ["run", config()], "it has summary.json but no config.yaml")
    (out / "config.yaml").write_text("strategies: {}")
    fails(capsys, ["run", config()], "it holds a comparison")
    (out / "config.yaml").write_text("a: [")
    fails(capsys, ["run", config()], "must be a YAML file")
    (out / "config.yaml").write_text(yaml.safe_dump(BASE))
    (out / "history.sqlite").write_text("something else")
    before = contents(out)
    fails(capsys, ["run", config()], "must be a journal of mfbo_torch")
    fails(capsys, ["show", str(out)], "must be a journal of mfbo_torch")
    assert contents(out) == before


def test_a_folder_that_cannot_be_written(config, tmp_path, capsys, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "write_text", full)
    fails(capsys, ["run", config()], "must be a folder that can be written: No space left on device")


def test_defaults_that_came_later_do_not_matter(config, tmp_path):
    assert cli.main(["run", config()]) == 0
    path = tmp_path / "out" / "config.yaml"
    settings = yaml.safe_load(path.read_text())
    del settings["strategy"]["init_args"]["width"], settings["dtype"]
    path.write_text(yaml.safe_dump(settings))
    assert cli.main(["run", config(), "--capital", "60"]) == 0


def test_show_and_the_log_of_a_finished_and_a_running_folder(config, tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["run", config(problem={"class_path": "toy.Hill", "init_args": {"trouble": "raise"}})]) == 0
    capsys.readouterr()
    assert cli.main(["show", str(out)]) == 0
    shown = capsys.readouterr().out
    h = history(out)
    assert f"Spent         {h.spent:g} of 40" in shown
    assert "RuntimeError: no convergence at step 3" in shown
    assert "Recommended   x = " in shown
    assert "Pending" not in shown
    with Journal(out / "history.sqlite") as journal:
        journal.asked(h.asked(h.records[0].query, 1.0).records[-1:])
        assert cli.main(["show", str(out)]) == 0
    shown = capsys.readouterr().out
    log = (out / "run.log").read_text()
    first = log.splitlines()[0]
    assert " INFO 0 queried at fidelity 0: x=" in first
    assert "It was chosen by the strategy, which notes no reason. Decided in " in first
    assert " INFO 2 ended: " in log
    assert " failed after " in log
    assert "RuntimeError: no convergence at step 3" in log
    assert "Pending       1" in shown
    assert f"for {sum(r.query.fidelity == 0 for r in h) + 1} queries" in shown


def test_a_noisy_run_ends_with_a_recommendation(config, tmp_path, capsys):
    """The best observation stays beside it; values are in the problem's own sign."""
    noisy = {"class_path": "toy.Hill", "init_args": {"error": 0.5, "maximize": False}}
    strategy = {"class_path": "ExpectedImprovement", "init_args": {"initial": 4}}
    assert cli.main(["run", config(problem=noisy, strategy=strategy, capital=60)]) == 0
    ended = capsys.readouterr().out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    best, advised = history(tmp_path / "out").best(1), summary["recommended"]
    assert summary["best_value"] == -best.value
    assert summary["best_parameters"] == {"x": best.query.x[0]}
    assert advised["noise"] == [None, 0.5]
    assert advised["mean"] == pytest.approx(-best.value, abs=1.0)
    assert f"Recommended   x = {advised['parameters']['x']:.6g}, where {advised['mean']:.5g} ± " in ended
    assert "Noise         0.5 at target (standard deviations)" in ended
    assert cli.main(["show", str(tmp_path / "out")]) == 0
    assert ended.startswith(capsys.readouterr().out)


def test_show_before_the_target_was_asked(config, tmp_path, capsys):
    assert cli.main(["run", config(capital=1)]) == 0
    capsys.readouterr()
    assert cli.main(["show", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "Best value    none: the target costs 10 a query, no longer paid" in shown
    assert "Recommended" not in shown
    assert "1 for 1 query\n" in shown


def test_help(capsys):
    for argv in (["--help"], ["-h"], []):
        sys_argv, sys.argv = sys.argv, ["mfbo"]
        assert cli.main(argv or None) == 0
        sys.argv = sys_argv
        assert "strategies side by side" in capsys.readouterr().out
    for command in ("show", "export", "list", "best", "init", "repair", "completion"):
        assert cli.main([command, "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"usage: mfbo {command} ")
    for argv, said in ((["run", "--help"], "--capital"), (["compare", "-h"], "--seeds")):
        assert cli.main(argv) == 0
        assert said in capsys.readouterr().out


@pytest.mark.slow
def test_workers_evaluate_in_processes(config, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    assert cli.main(["run", config(capital=30), "--workers", "2"]) == 0
    h = history(tmp_path / "out")
    assert h.spent <= 30
    assert [r.value for r in h] == [Hill().reward(r.query.x, r.query.fidelity) for r in h]


def test_workers_that_die_are_told_in_one_line(config, capsys, monkeypatch):
    def broken(*args):
        raise BrokenExecutor("the executor broke")

    monkeypatch.setattr(experiment, "drive", broken)
    assert cli.main(["run", config()]) == 1
    assert capsys.readouterr().err == "mfbo: the executor broke\n"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_it_ends_cleanly_and_continues(config, tmp_path, workers, capsys):
    """Ctrl-C in the middle of an evaluation, then the same command again."""
    path = config(problem={"class_path": "toy.Hill", "init_args": {"seconds": 0.2}}, workers=workers, max_pending=1)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(Path(package).parent.parent)])}
    command = [sys.executable, "-m", "mfbo_torch", "run", path]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    journal, deadline = tmp_path / "out" / "history.sqlite", time.monotonic() + 300
    while not (journal.exists() and journal.stat().st_size and len(history(tmp_path / "out")) >= 2):
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err.rstrip().splitlines()[-1] == "mfbo: interrupted; the same command continues"
    assert "Traceback" not in err
    assert "Best value" in out
    assert not json.loads((tmp_path / "out" / "summary.json").read_text())["finished"]
    assert history(tmp_path / "out").spent < 40
    assert cli.main(["run", path, "--workers", "1"]) == 0
    assert timeless(history(tmp_path / "out")) == timeless(run(Hill(), Walk(2), 40.0, progress=False))


def test_classes_of_the_current_folder_are_found(config, tmp_path, monkeypatch):
    (tmp_path / "my_own_problem.py").write_text("from toy import Hill\n\n\nclass Mine(Hill):\n    '''Mine.'''\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    assert cli.main(["run", config(), "--problem", "my_own_problem.Mine"]) == 0
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["problem"] == "Mine"


def test_failures_alone_end_with_code_1_and_a_line(config, tmp_path, capsys):
    assert cli.main(["run", config(problem={"class_path": "toy.Hopeless"}, capital=400)]) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("mfbo: all 10 evaluations failed, the last with ValueError: never at ")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["finished"] is False
    assert cli.main(["show", str(tmp_path / "out")]) == 0
    assert "Stopped       all 10 evaluations failed, the last with ValueError: never at " in capsys.readouterr().out


@pytest.mark.slow
def test_a_time_limit_retries_and_processes_from_the_command_line(config, tmp_path):
    path = config(problem={"class_path": "toy.Hill", "init_args": {"trouble": "hang", "upper": 9.0}}, capital=14)
    assert cli.main(["run", path, "--timeout", "1", "--retries", "1", "--charge-retries", "false"]) == 0
    records = history(tmp_path / "out")
    hung = [r for r in records if r.query.x[0] > 5]
    assert hung
    assert all(r.retries == 1 and r.reason == "TimeoutError: no value within 1 seconds" for r in hung)
    assert records.spent <= 14


def test_a_table_of_one_run_begins_another(config, tmp_path, capsys):
    assert cli.main(["run", config()]) == 0
    out = tmp_path / "out"
    assert cli.main(["export", str(out)]) == 0
    assert capsys.readouterr().out.endswith(f"7 records in {out / 'history.csv'}\n")
    again = str(tmp_path / "again")
    flags = ["--out", again, "--warm-start", str(out / "history.csv")]
    assert cli.main(["run", config(), *flags]) == 0
    records = history(tmp_path / "again")
    assert [r.value for r in records][:7] == [r.value for r in history(out)]
    assert records.spent == sum(r.cost for r in records.records[7:]) > 30
    assert cli.main(["run", config(), *flags, "--capital", "60"]) == 0
    fails(capsys, ["run", config(), "--out", again], "there warm_start is")
    fails(capsys, ["export", str(out), "a.csv", "b.csv"], "argument = 'b.csv': must be left out")
    fails(capsys, ["export", str(out), str(tmp_path / "a.xls")], "must be a name that ends with .csv or .parquet")


def test_a_run_as_a_page(config, tmp_path, capsys):
    pytest.importorskip("plotly")
    assert cli.main(["run", config()]) == 0
    capsys.readouterr()
    page = tmp_path / "out" / "report.html"
    assert cli.main(["show", str(tmp_path / "out"), "--html"]) == 0
    assert capsys.readouterr().out == f"Page          {page}\n"
    assert "Hill" in page.read_text()


def test_a_run_is_followed_until_it_ends(config, tmp_path, capsys, monkeypatch):
    assert cli.main(["run", config()]) == 0
    out, summary = tmp_path / "out", tmp_path / "out" / "summary.json"
    finished = summary.read_text()
    summary.write_text(json.dumps({**json.loads(finished), "finished": False}))
    looks = []

    def meanwhile(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            with Journal(out / "history.sqlite") as journal:
                journal.asked([Record(len(journal.history()), Query((1.0,), 0), 1.0)])
        if len(looks) == 3:
            summary.write_text(finished)

    monkeypatch.setattr(results.time, "sleep", meanwhile)
    capsys.readouterr()
    assert cli.main(["show", str(out), "--follow"]) == 0
    shown = capsys.readouterr().out
    assert looks == [results.FOLLOW_SECONDS] * 3
    assert shown.count("Problem       Hill") == 2
    assert "Pending       1" in shown


def test_a_run_that_has_died_is_followed_no_longer(config, tmp_path, capsys, monkeypatch):
    assert cli.main(["run", config()]) == 0
    out = tmp_path / "out"
    summary = out / "summary.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "finished": False}))
    looks, journal = [], Journal(out / "history.sqlite")

    def meanwhile(seconds):
        assert run_folder.runs(out) == (len(looks) < 50)
        looks.append(seconds)
        if len(looks) == 50:
            journal.close()

    monkeypatch.setattr(results.time, "sleep", meanwhile)
    capsys.readouterr()
    assert cli.main(["show", str(out), "--follow"]) == 0
    assert len(looks) == 50 + results.LOOKS - 1
    assert f"no process runs it: mfbo run {out / 'config.yaml'}" in capsys.readouterr().out


def test_python_runs_the_package(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["mfbo", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("mfbo_torch", run_name="__main__")
    assert ended.value.code == 0
    assert "usage: mfbo " in capsys.readouterr().out


def test_failures_that_took_the_capital_say_so_until_there_is_more(config, tmp_path, capsys):
    said = r"all 3 evaluations failed, the last with ValueError: never at [\d.]+; raise --capital or take a new --out"
    for problem in ("toy.Hopeless", "toy.Hopeless"):
        assert cli.main(["run", config(problem={"class_path": problem}, capital=12)]) == 1
        assert re.search(said, capsys.readouterr().err)
        assert not run_folder.finished(tmp_path / "out")


def test_the_current_folder_comes_first(config, tmp_path, monkeypatch):
    for name, value in (("here", 1.5), ("elsewhere", -1.5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "twice_there.py").write_text(f"def f(parameters, fidelity):\n    return {value}\n")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "elsewhere"), *sys.path, str(tmp_path / "here")])
    problem = {"objective": "twice_there:f", "parameters": {"a": {"lower": 0.0, "upper": 1.0}}, "costs": [1.0, 10.0]}
    assert cli.main(["run", config(problem={"class_path": "UserProblem", "init_args": problem})]) == 0
    out = tmp_path / "out"
    assert json.loads((out / "summary.json").read_text())["best_value"] == 1.5
    (tmp_path / "here" / "twice_there.py").unlink()
    (tmp_path / "elsewhere" / "twice_there.py").unlink()
    monkeypatch.delitem(sys.modules, "twice_there")
    assert cli.main(["show", str(out)]) == 0  # what was found needs no objective
    assert cli.main(["export", str(out)]) == 0
    assert cli.main(["run", str(out / "config.yaml"), "--out", str(tmp_path / "other")]) == 2


def test_a_running_run_keeps_its_config(config, tmp_path, capsys):
    path, out = config(), tmp_path / "out"
    assert cli.main(["run", path]) == 0
    before = (out / "config.yaml").read_bytes()
    with Journal(out / "history.sqlite"):
        fails(capsys, ["run", path, "--capital", "90"], "must be written by one process")
    assert (out / "config.yaml").read_bytes() == before
    summary = json.loads((out / "summary.json").read_text())
    assert run_folder.finished(out)
    (out / "summary.json").write_text(json.dumps({**summary, "capital": 30.0}))
    assert not run_folder.finished(out)


def test_a_run_killed_before_its_config_was_written_begins_again(config, tmp_path):
    (tmp_path / "out").mkdir()
    Journal(tmp_path / "out" / "history.sqlite").close()
    assert cli.main(["run", config()]) == 0
    assert len(history(tmp_path / "out")) > 3


def test_the_wrong_kind_of_config_or_folder(config, tmp_path, capsys):
    path = config()
    fails(capsys, ["compare", path], "must be one of mfbo compare; this one has strategy and is one of mfbo run")
    several = tmp_path / "several.yaml"
    several.write_text(yaml.safe_dump({"problem": "toy.Hill", "strategies": {"walk": "toy.Walk"}, "capital": 12}))
    said = "must be one of mfbo run; this one has strategies and is one of mfbo compare"
    fails(capsys, ["run", str(several)], said)
    assert cli.main(["compare", str(several), "--seeds", "1", "--workers", "1", "--out", str(tmp_path / "c")]) == 0
    capsys.readouterr()
    table = tmp_path / "all.csv"
    assert cli.main(["export", str(tmp_path / "c"), str(table)]) == 0
    rows = list(csv.DictReader(table.open()))
    assert capsys.readouterr().out == f"{len(rows)} records in {table}\n"
    assert {(row["problem"], row["strategy"], row["seed"]) for row in rows} == {("Hill", "walk", "0")}
    told = history(tmp_path / "c" / "Hill" / "walk" / "seed-0")
    assert [float(row["x"]) for row in rows] == [r.query.x[0] for r in told]
    fails(capsys, ["best", str(tmp_path / "c")], "must be that of a single run; this one holds a comparison")
    fails(capsys, ["run", path, "--out", ""], "out = '': must be the name of a folder")
    lost = {"class_path": "UserProblem", "init_args": {"parameters": {"x": {"lower": 0, "upper": 1}}, "costs": [1]}}
    said = 'objective = None: must be a function or "package.module:function", or left out where command is given'
    fails(capsys, ["run", config(problem=lost)], said)


def test_a_journal_of_another_space_is_one_line_wherever_it_is_read(config, tmp_path, capsys):
    assert cli.main(["run", config()]) == 0
    out = tmp_path / "out"
    for query in (Query((1.0, 2.0), 0), Query((1.0,), 5), Query((99.0,), 0)):
        for path in out.glob("history.sqlite*"):
            path.unlink()
        with Journal(out / "history.sqlite") as journal:
            journal.asked([Record(0, query, 1.0)])
            journal.ended(Record(0, query, 1.0).done(1.0))
        for command in (["show", str(out)], ["show", str(out), "--html"], ["export", str(out)]):
            fails(capsys, command, "must be a history of this problem")
