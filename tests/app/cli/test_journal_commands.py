"""What the commands for a run do with a journal that a Python program has written."""

import csv
import json
import shutil

import pytest
import yaml
from refusals import refused
from toy import Hill

from mfbo_torch import Journal, Optimizer, Space, maximize, minimize, run
from mfbo_torch.app import cli
from mfbo_torch.history.storage.beside import digest_path
from mfbo_torch.strategies import RandomSearch


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "t.sqlite"

    def training(parameters, trial):
        for epoch in trial.epochs():
            trial.report(parameters["x"] + 1 / epoch)

    with Journal(path) as journal:
        minimize(training, Space({"x": (0.0, 1.0)}, epochs=3), 12, journal=journal)
    return path


def test_its_observations_are_a_table_in_the_user_s_sign(tmp_path, capsys):
    path = tmp_path / "a.sqlite"
    space = Space({"x": (0.0, 1.0), "kind": ["a", "b"]}, [1, 4])
    with Journal(path) as journal:
        found = maximize(lambda p, fidelity: p["x"], space, 20, strategy="RandomSearch", journal=journal)
    assert cli.main(["export", str(path)]) == 0
    assert capsys.readouterr().out == f"{len(found.history)} records in {tmp_path / 'a.history.csv'}\n"
    rows = [*csv.DictReader((tmp_path / "a.history.csv").open())]
    assert max(float(row["value"]) for row in rows if row["fidelity"] == "1") == found.fun
    assert {row["kind"] for row in rows} == {"a", "b"}
    assert cli.main(["why", str(path), "1"]) == 0
    assert capsys.readouterr().out.startswith("Query 1 ")


def test_its_page_and_its_learning_curves_lie_beside_it(trained, capsys):
    for flag, name in (("--html", "t.report.html"), ("--curves", "t.curves.png")):
        assert cli.main(["show", str(trained), flag]) == 0
        assert str(trained.with_name(name)) in capsys.readouterr().out
        assert trained.with_name(name).stat().st_size > 5_000
    assert "FreezeThaw" in trained.with_name("t.report.html").read_text()
    assert cli.main(["show", str(trained), "--follow"]) == 2


def test_one_without_its_problem_says_what_lacks(trained, tmp_path, capsys):
    path, note = tmp_path / "t.sqlite", json.loads(digest_path(trained).read_text())
    shutil.copy(trained, path)
    for known in (None, {}, {**note, "problem": None}, {**note, "problem": {"space": 3}}, {**note, "capital": "all"}):
        if known is not None:
            digest_path(path).write_text(json.dumps(known))
        for command in (["export", str(path)], ["why", str(path), "1"], ["show", str(path), "--html"]):
            assert cli.main(command) == 2
            assert f"whose problem is in {digest_path(path)}" in capsys.readouterr().err


def test_a_run_begins_with_what_it_observed(tmp_path, capsys):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        before = run(Hill(), "RandomSearch", 20, journal=journal, progress=False)
    config = tmp_path / "mine.yaml"
    settings = {"problem": "toy.Hill", "strategy": "RandomSearch", "capital": 30, "warm_start": str(path)}
    config.write_text(yaml.safe_dump({**settings, "out": str(tmp_path / "out"), "progress": False}))
    assert cli.main(["run", str(config)]) == 0
    with Journal(tmp_path / "out" / "history.sqlite", read_only=True) as journal:
        assert [r.value for r in journal.history()][: len(before)] == [r.value for r in before]
    digest_path(path).unlink()
    capsys.readouterr()
    assert cli.main(["run", str(config), "--out", str(tmp_path / "b")]) == 2
    assert "the folder or the journal of a run: folder = " in capsys.readouterr().err


def test_known_objectives_are_told_from_the_journal(tmp_path, capsys):
    path = tmp_path / "known.sqlite"
    space = Space({"x": (0.0, 1.0)}, [1])
    known = {"loss": None, "price": lambda x: 2 - x["x"]}
    with Journal(path) as journal:
        found = minimize(lambda x: {"loss": x**2}, space, 8, objectives=known, strategy="RandomSearch", journal=journal)
    assert cli.main(["export", str(path)]) == 0
    assert cli.main(["why", str(path), "1"]) == 0
    assert "price" in capsys.readouterr().out
    assert cli.main(["best", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == found.parameters


def test_objectives_that_were_told_have_their_names_and_signs(tmp_path, capsys):
    path = tmp_path / "told.sqlite"
    space = Space({"x": (0.0, 1.0)}, [1], objectives={"loss": "minimize", "speed": "maximize"})
    with Journal(path) as journal:
        optimizer = Optimizer(RandomSearch(space=space), journal)
        for loss in (0.3, 0.1, 0.5):
            optimizer.tell(optimizer.ask()[0].id, {"loss": loss, "speed": 2 - loss})
    assert cli.main(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "Best value" not in shown
    assert "loss = 0.1, speed = 1.9" in shown


@pytest.mark.parametrize("now", [{"epochs": [3, 6, 9]}, {"epochs": [30, 90]}, {"mesh": [3, 9]}, None])
def test_told_values_keep_their_fidelity(tmp_path, now):
    with Journal(tmp_path / "told.sqlite") as journal:
        space = Space({"x": (0.0, 1.0)}, fidelities={"epochs": [3, 9]})
        Optimizer(RandomSearch(space=space), journal).add({"x": 0.2}, {"epochs": 9}, 0.9)
    other = RandomSearch(space=Space({"x": (0.0, 1.0)}, [1, 3, 10] if now is None else None, fidelities=now))
    with Journal(tmp_path / "told.sqlite") as journal:
        refused("journal = .*the fidelities of its own are epochs = 3, epochs = 9", Optimizer, other, journal)
