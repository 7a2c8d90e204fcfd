"""A run that goes on without its terminal."""

import os
from pathlib import Path

import pytest
import yaml
from quiet_runs import until

from mfbo_torch.app import cli, run_folder
from mfbo_torch.app.cli import results
from mfbo_torch.history.storage.journal import Journal

HELPERS = Path(__file__).parents[2] / "helpers"


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = os.pathsep.join([str(HELPERS), str(HELPERS.parents[1]), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", paths)
    Path("a.yaml").write_text(yaml.safe_dump({"problem": "toy.Hill", "strategy": "toy.Walk", "capital": 30}))


def test_what_cannot_start_is_refused_in_the_terminal(config, capsys):
    assert cli.main(["run", "a.yaml", "--detach", "--capital", "0.5"]) == 2
    assert "capital = 0.5" in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_run_is_detached_and_followed(config, capsys):
    assert cli.main(["run", "a.yaml", "--detach"]) == 0
    assert "mfbo show runs/a --follow" in capsys.readouterr().out
    assert cli.main(["show", "runs/a", "--follow"]) == 0
    assert run_folder.finished(Path("runs/a"))
    until(lambda: "Picture" in Path("runs/a", run_folder.SAID).read_text(), 60)


def test_a_run_that_nobody_continues_is_not_followed_for_ever(config, capsys, monkeypatch):
    assert cli.main(["run", "a.yaml"]) == 0
    Path("runs/a", run_folder.SUMMARY).unlink()
    monkeypatch.setattr(results, "FOLLOW_SECONDS", 0.0)
    capsys.readouterr()
    assert cli.main(["show", "runs/a", "--follow"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("It has not finished, and no process runs it: mfbo run ")
    assert "runs/a" in last.split(" --out ")[1]


@pytest.mark.slow
def test_a_second_driver_of_a_folder_says_that_it_cannot_start(config, capsys):
    assert cli.main(["run", "a.yaml"]) == 0
    with Journal(Path("runs/a", run_folder.JOURNAL)):
        assert cli.main(["run", "a.yaml", "--detach", "--capital", "60"]) != 0
    assert "must be written by one process" in capsys.readouterr().err
    assert cli.main(["run", "a.yaml", "--detach", "--capital", "60"]) == 0
