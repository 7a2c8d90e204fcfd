"""Settings, folders and outputs that are rarer than they look."""

import csv
import json
import shlex
import subprocess
import sys
import threading

import pytest
import yaml
from command_line import fails

from mfbo_torch import __main__
from mfbo_torch.app import cli
from mfbo_torch.history import Query, Record
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.history.storage.journal_rows import asked
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.safe_yaml import dump, load


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Writes a config of a function of the parameters that are given."""
    (tmp_path / "surprising.py").write_text("def evaluate(**given):\n    return sum(map(float, given.values()))\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def write(parameters, costs=(1,), **settings):
        user = {"objective": "surprising:evaluate", "parameters": parameters, "costs": list(costs), "maximize": False}
        problem = {"class_path": "mfbo_torch.problems.UserProblem", "init_args": user}
        known = {"problem": problem, "strategy": "RandomSearch", "capital": 4, "out": "out", "progress": False}
        (tmp_path / "a.yaml").write_text(dump({**known, **settings}))
        return "a.yaml"

    return write


@pytest.mark.parametrize("text", ["1e-5", "1.5e3", "2024-01-01", "null", "~", "yes", "0x1", "1_0", ".5", "'q'", "a #b"])
def test_texts_stay_texts(text):
    assert load(dump({"choices": [text]})) == {"choices": [text]}
    assert yaml.safe_load(dump([text])) == [text]


def test_choices_that_look_like_numbers_can_be_continued(config, capsys):
    path = config({"x": {"choices": ["1e-5", "1e-3", "2"]}})
    assert cli.main(["run", path]) == 0
    assert cli.main(["run", path, "--capital", "6"]) == 0
    capsys.readouterr()
    assert cli.main(["best", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == {"x": "1e-5"}


def test_a_run_that_goes_on_is_not_called_finished(config, tmp_path):
    path = config({"x": {"lower": 0, "upper": 1}})
    assert cli.main(["run", path, "--stop-at", "5"]) == 0
    before = (tmp_path / "out" / "summary.json").read_text()
    assert json.loads(before)["stopped"]
    seen = tmp_path / "seen.txt"
    (tmp_path / "surprising.py").write_text(
        "import pathlib\n"
        "def evaluate(**given):\n"
        f"    pathlib.Path({str(seen)!r}).write_text(str(pathlib.Path('out/summary.json').exists()))\n"
        "    return sum(given.values())\n"
    )
    sys.modules.pop("surprising")
    assert cli.main(["run", path]) == 0
    assert seen.read_text() == "False"


def test_parameters_that_are_named_like_the_columns_of_a_comparison(config, tmp_path):
    names = ("problem", "strategy", "seed")
    path = config({name: {"lower": 0, "upper": 1} for name in names}, strategies={"a": "RandomSearch"}, seeds=[3])
    settings = yaml.safe_load((tmp_path / path).read_text())
    (tmp_path / path).write_text(dump({name: value for name, value in settings.items() if name != "strategy"}))
    assert cli.main(["compare", path]) == 0
    assert cli.main(["export", "out", "all.csv"]) == 0
    (row, *_) = csv.DictReader((tmp_path / "all.csv").open())
    assert (row["strategy"], row["seed"]) == ("a", "3")
    assert 0 <= float(row["parameter.seed"]) <= 1


def test_what_repair_says_can_be_done(config, tmp_path, capsys):
    assert cli.main(["run", config({"x": {"lower": 0, "upper": 1}})]) == 0
    capsys.readouterr()
    assert cli.main(["repair", "out", "out/history.sqlite.fixed"]) == 0
    advice = capsys.readouterr().out.partition("To go on: ")[2]
    subprocess.run(advice, shell=True, check=True, cwd=tmp_path)
    assert cli.main(["show", "out"]) == 0
    assert not (tmp_path / "out" / "history.sqlite.fixed").exists()


def test_a_study_of_somebody_else_is_not_overwritten(config, tmp_path, capsys):
    optuna = pytest.importorskip("optuna")
    assert cli.main(["run", config({"x": {"lower": 0, "upper": 1}})]) == 0
    optuna.create_study(storage=f"sqlite:///{tmp_path / 'mine.db'}", study_name="precious")
    fails(capsys, ["export", "out", "mine.db", "--to", "optuna"], "a new file, or one that was exported before")
    for _ in range(2):
        assert cli.main(["export", "out", "--to", "optuna"]) == 0


def test_a_cost_that_no_journal_could_be_read_back_with_is_refused(config, capsys, tmp_path):
    with pytest.raises(SettingError, match="cost"):
        asked(Query((0.5,), 0, {}), Record(0, Query((0.5,), 0, {}), 1e76), 0)
    assert cli.main(["run", config({"x": {"lower": 0, "upper": 1}}, [1e76], capital=3e76)]) == 2
    assert "cost = 1e+76" in capsys.readouterr().err
    with Journal(tmp_path / "out" / "history.sqlite") as journal:
        assert len(journal.history()) == 0


def test_init_keeps_all_digits_and_quotes_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = ["--objective", "a:f", "-p", "x:0:1", "--costs", "1000001,1000002", "--capital", "12345678"]
    assert cli.main(["init", "a #b.yaml", *given]) == 0
    said = capsys.readouterr().out
    assert shlex.split(said.rpartition("next: mfbo run ")[2]) == ["a #b.yaml"]
    found = load((tmp_path / "a #b.yaml").read_text())
    assert (found["capital"], found["out"]) == (12345678, "runs/a #b")
    assert found["problem"]["init_args"]["costs"] == [1000001, 1000002]
    fails(capsys, ["init", "a\nb.yaml", *given], "a name of one line")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_cannot_be_written_is_a_failure(config, tmp_path):
    assert cli.main(["run", config({"x": {"lower": 0, "upper": 1}})]) == 0
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "mfbo_torch", "best", "out", "--json"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 1
    assert "The output could not be written" in ended.stderr


def test_a_thread_that_an_objective_leaves_behind_is_named(monkeypatch, capsys):
    ended = threading.Event()

    def leaves(argv=None):
        threading.Thread(target=ended.wait, name="saver").start()
        return 0

    monkeypatch.setattr(cli, "main", leaves)
    monkeypatch.setattr(__main__, "PATIENCE", 0.01)
    try:
        assert __main__.main() == 0
        assert "Waiting for a thread that the objective has left behind, saver" in capsys.readouterr().err
    finally:
        ended.set()


def test_ctrl_c_while_the_command_loads_gives_no_traceback(monkeypatch, capsys):
    def interrupted(argv=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert __main__.main() == 130
    assert capsys.readouterr().err == "mfbo: interrupted\n"
