"""A run in a few lines, without what decides or evaluates."""

import json
import os
import random
import subprocess
import sys

import pytest

from mfbo_torch import Journal, Parameter, Space, maximize, minimize
from mfbo_torch.app import cli, digest
from mfbo_torch.history import History, Query, Record, Status
from mfbo_torch.history.observation import Outcome
from mfbo_torch.history.storage.beside import digest_path

SPACE = Space(
    [Parameter("x", 0, 1), Parameter("k", choices=["a", "bb"]), Parameter("n", 1, 3, integer=True, when={"k": "bb"})],
    [1, 4],
)


def loss(parameters, fidelity):
    return parameters["x"] + len(parameters["k"]) + parameters.get("n", 0) + 0.1 * (1 - fidelity)


@pytest.mark.parametrize(("optimize", "sign"), [(minimize, 1), (maximize, -1)])
def test_a_journal_made_in_python_is_shown_in_the_users_sign(tmp_path, capsys, optimize, sign):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        found = optimize(
            lambda p, fidelity: sign * loss(p, fidelity), SPACE, 30, strategy="ExpectedImprovement", journal=journal
        )
    assert cli.main(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert f"Best value    {found.fun:.8g}" in shown
    assert (
        ", ".join(
            f"{name} = {value:.6g}" if name != "k" else f"k = {value}" for name, value in found.parameters.items()
        )
        in shown
    )
    assert f"Spent         {found.spent:g} of 30" in shown
    assert "Left          2, less than the next evaluation costs" in shown
    assert "more evaluation" not in shown


def test_a_front_that_is_still_growing_is_shown(tmp_path, capsys):
    """As the strategy's own result names it, without a model."""
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        found = minimize(
            lambda p, fidelity: {"loss": loss(p, fidelity), "size": -p["x"] - 0.1 * p.get("n", 0)},
            SPACE,
            60,
            strategy="RandomSearch",
            journal=journal,
            objectives=["loss", "size"],
        )
    assert len(found.front) > 1
    assert cli.main(["show", str(path)]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"Front {len(found.front)} designs" in shown
    for one in found.front:
        seen = ", ".join(f"{name} = {value:.5g}" for name, value in one.values.items())
        assert all(f"{label} {seen}" in shown for label in one.labels)
    assert cli.main(["best", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["parameters"] for one in told["front"]] == [one.parameters for one in found.front]
    assert [one["values"] for one in told["front"]] == [one.values for one in found.front]
    assert told["finished"]
    assert cli.main(["best", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:2] == ["loss", "size"]


def test_the_best_of_a_journal_is_told(tmp_path, capsys):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        found = minimize(loss, SPACE, 30, strategy="RandomSearch", journal=journal)
    assert cli.main(["best", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["value"], told["parameters"], told["spent"]) == (found.fun, found.parameters, found.spent)
    assert cli.main(["best", str(path)]) == 0
    assert f"{found.fun:.10g}" in capsys.readouterr().out
    digest_path(path).unlink()
    assert cli.main(["best", str(path)]) == 2
    assert "a journal of minimize or maximize with" in capsys.readouterr().err


@pytest.mark.parametrize("directions", [("minimize", "minimize"), ("maximize", "minimize")])
def test_a_front_is_what_no_other_design_dominates(directions):
    """Against all pairs, with equal designs, of which the first counts."""
    numbers = random.Random(0)
    values = [(float(numbers.randrange(30)), float(numbers.randrange(30))) for _ in range(200)]
    signs = [-1 if direction == "maximize" else 1 for direction in directions]
    costs = [tuple(sign * v for sign, v in zip(signs, pair, strict=True)) for pair in values]
    best = {c for c in costs if not any(o != c and o[0] <= c[0] and o[1] <= c[1] for o in costs)}
    records = [
        Record(i, Query((0.0,), 0), 1.0, value=a, status=Status.DONE, outcomes={"a": Outcome(a), "b": Outcome(b)})
        for i, (a, b) in enumerate(values)
    ]
    objectives = [(name, direction == "maximize") for name, direction in zip("ab", directions, strict=True)]
    x = {"name": "x", "lower": 0.0, "upper": 1.0, "choices": None, "integer": False, "when": []}
    found = digest.front_of({"objectives": objectives, "costs": [1.0], "parameters": [x]}, History(records))
    assert [tuple(sign * v for sign, v in zip(signs, one["values"].values(), strict=True)) for one in found] == sorted(
        best
    )


@pytest.mark.parametrize("kept", [None, "[]", "{", '{"name": 1}', "null"])
def test_a_journal_of_which_nothing_is_known_is_shown_as_it_was_told(tmp_path, capsys, kept):
    """Also beside a file that something else has written."""
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        minimize(lambda x: x, {"x": (1, 2)}, 3, strategy="RandomSearch", journal=journal)
    digest_path(path).unlink() if kept is None else digest_path(path).write_text(kept)
    assert cli.main(["show", str(path)]) == 0
    assert "as it was told, larger is better, at fidelity 0" in capsys.readouterr().out


def test_what_is_kept_by_a_stranger_is_not_believed(tmp_path, capsys):
    """A design that does not fit what the file says is shown without it."""
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        minimize(lambda x: x, {"x": (1, 2)}, 3, strategy="RandomSearch", journal=journal)
    known = json.loads(digest_path(path).read_text())
    for changes in (
        {"parameters": []},
        {"costs": []},
        {"parameters": 3},
        {"levels": [[]]},
        {"limits": [1]},
    ):
        digest_path(path).write_text(json.dumps({**known, **changes}))
        assert cli.main(["show", str(path)]) == 0
        assert "as it was told" in capsys.readouterr().out


def seconds_to_show(folder):
    """Processor time of ``mfbo show`` of the journal in a folder."""
    return seconds(
        folder,
        "import sys; from mfbo_torch.app import cli; cli.main(['show', 'a.sqlite']); "
        "sys.exit(bool({'torch', 'asyncio', 'filelock', 'multiprocessing'} & {*sys.modules}))",
    )


def seconds_of_a_round_trip(folder):
    """Processor time of writing the rows as JSON and reading that, half of what showing them may take."""
    return seconds(
        folder,
        "import json, sqlite3; rows = sqlite3.connect('a.sqlite').execute('SELECT *, hex(checksum) FROM event'); "
        "names = [column[0] for column in rows.description]; "
        "json.loads(json.dumps([{n: v for n, v in zip(names, row) if type(v) is not bytes} for row in rows]))",
    )


def seconds(folder, code):
    """Processor time of a Python program in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    before = os.times()
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=False).returncode == 0
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_showing_needs_no_model(tmp_path):
    """Nor torch, which takes seconds to load."""
    with Journal(tmp_path / "a.sqlite") as journal:
        minimize(lambda x: x, {"x": (1, 2)}, 3, strategy="RandomSearch", journal=journal)
    assert seconds_to_show(tmp_path) < 1


@pytest.mark.slow
def test_showing_twenty_thousand_records(tmp_path):
    numbers = random.Random(0)
    with Journal(tmp_path / "a.sqlite") as journal:
        minimize(lambda x: x, {"x": (1, 2)}, 3, strategy="RandomSearch", journal=journal)
        asked = [
            Record(i, Query((numbers.uniform(1, 2),), 0, {"stage": "random"}), 1.0, decision_seconds=numbers.random())
            for i in range(3, 20_000)
        ]
        journal.given([r.done(numbers.random(), evaluation_seconds=numbers.random()) for r in asked])
    # each against the moment's own speed, as that of a shared core varies by a half within seconds
    assert min(seconds_to_show(tmp_path) / seconds_of_a_round_trip(tmp_path) for _ in range(5)) < 2


def test_conditions_of_a_design():
    known = {
        "parameters": [
            {"name": "n", "choices": [], "integer": True, "when": [["k", ["b"]]]},
            {"name": "k", "choices": ["a", "b"], "integer": False, "when": []},
        ]
    }
    assert digest.named(known, (2.0, 1.0)) == {"n": 2, "k": "b"}
    assert digest.named(known, (2.0, 0.0)) == {"k": "a"}
