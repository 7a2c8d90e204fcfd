"""``mfbo show``, ``best``, ``export`` and ``repair`` of folders that somebody else has changed: a line each."""

import shutil
import time

import pytest
import yaml
from command_line import fails
from odd_folders import ODD, changed, instead, whole

from mfbo_torch.app import cli

__all__ = ["whole"]


@pytest.mark.parametrize("name", ODD)
def test_odd_folders_are_one_line(whole, tmp_path, capsys, name):
    out, said = changed(whole, tmp_path, name), ODD[name][1]
    started = time.perf_counter()
    ended = []
    for command in (
        ["show", out],
        ["show", out, "--html"],
        ["best", out],
        ["export", out, tmp_path / "a.csv"],
        ["why", out, "0"],
    ):
        capsys.readouterr()
        argv = [str(argument) for argument in command]
        ended.append(cli.main(argv))
        if ended[-1]:
            fails(capsys, argv, said)
    assert 2 in ended
    assert cli.main(["repair", str(out), str(tmp_path / "new.sqlite")]) in (0, 2)
    assert time.perf_counter() - started < 30


def test_comparisons_of_strangers(whole, tmp_path, capsys):
    out = tmp_path / "out"
    shutil.copytree(whole / "comparison", out)
    stored = yaml.safe_load((out / "config.yaml").read_text())
    cases = [
        ({"strategies": 3}, "strategies = 3: must be a mapping"),
        ({"strategies": {"walk": 3}}, "strategies.walk"),
        ({"seeds": 10**12}, "seeds = 1000000000000: must be whole numbers from 0 on, or how many of them"),
        ({"seeds": 200_000}, "so few that there are 100,000 runs at most, not 200,000"),
        ({"capital": "much"}, "capital = 'much': must be a number"),
    ]
    for changes, said in cases:
        (out / "config.yaml").write_text(yaml.safe_dump({**stored, **changes}))
        fails(capsys, ["show", str(out)], said)
        fails(capsys, ["export", str(out), str(tmp_path / "a.csv")], said)
    (out / "config.yaml").write_text(yaml.safe_dump({**stored, "strategies": {"w" * 300: "toy.Walk"}}))
    assert cli.main(["show", str(out)]) == 1
    assert capsys.readouterr().err.endswith("history.sqlite: File name too long\n")
    (out / "config.yaml").write_text(yaml.safe_dump(stored))
    journal = next(out.glob("*/*/*/history.sqlite"))
    instead(journal.name, "pipe")(journal.parent)
    fails(capsys, ["show", str(out)], "not a regular file")
    fails(capsys, ["export", str(out), str(tmp_path / "a.csv")], "not a regular file")


def test_why(whole, monkeypatch, capsys):
    """In the folder of a run, with its folder, and with a number that is none."""
    out = whole / "run"
    assert cli.main(["why", str(out), "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Query 1 ")
    monkeypatch.chdir(out)
    assert cli.main(["why", "1"]) == 0
    assert capsys.readouterr().out == said
    fails(capsys, ["why", "9999"], "query = 9999: must be the number of a query of .")
    fails(capsys, ["why", "last"], "query = 'last': must be its number")


def test_learning_curves_of_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "gradual.py").write_text(
        "def train(rate, epochs, trial):\n"
        "    for epoch in range(1, int(epochs) + 1):\n"
        "        trial.report(epoch, rate + 1 / epoch)\n"
        "    return rate + 1 / epochs\n"
    )
    init = {"objective": "gradual:train", "parameters": {"rate": {"lower": 0.0, "upper": 1.0}}, "maximize": False}
    init["fidelities"] = {"epochs": [3, 9]}
    problem = {"class_path": "mfbo_torch.problems.UserProblem", "init_args": init}
    settings = {"problem": problem, "strategy": "RandomSearch", "capital": 30, "out": str(tmp_path / "out")}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    assert cli.main(["run", str(tmp_path / "run.yaml")]) == 0
    assert cli.main(["show", str(tmp_path / "out"), "--curves"]) == 0
    assert capsys.readouterr().out.endswith(f"Picture       {tmp_path / 'out' / 'curves.png'}\n")
    assert (tmp_path / "out" / "curves.png").stat().st_size > 10_000


def test_a_run_without_curves(whole, capsys):
    run = next(path for path in whole.iterdir() if path.name != "comparison" and (path / "history.sqlite").exists())
    fails(capsys, ["show", str(run), "--curves"], "no training has reported a value after an epoch yet")
