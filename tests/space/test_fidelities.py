"""Named fidelities through every door: the space, a problem, YAML, the command line, tables, pages."""

import csv
import json

import numpy
import pytest
from epochs import EPOCHS, RATE
from refusals import refused
from toy import Walk

from mfbo_torch import Optimizer, Parameter, Space
from mfbo_torch.app import cli, tabular_io
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import UserProblem
from mfbo_torch.space.fidelities import Fidelities
from mfbo_torch.strategies import RandomSearch

X = (Parameter("x", 0.0, 1.0),)


def loss(rate, epochs):
    assert type(epochs) is int
    return (rate - 0.3) ** 2 + 1 / epochs


def test_the_space_knows_names_and_values():
    space = Space(X, fidelities=EPOCHS)
    assert space.costs == (3, 9, 27)
    assert space.fidelities == ("epochs", (3, 9, 27))
    assert [space.fidelity_name(m) for m in range(3)] == ["epochs = 3", "epochs = 9", "epochs = 27"]
    assert space.arguments((0.25,), 1) == {"x": 0.25, "epochs": 9}
    assert Space(X, (1, 2)).arguments((0.25,), 1) == {"x": 0.25, "fidelity": 1}
    assert Space(X, fidelities=space.fidelities) == space != Space(X, (3, 9, 27))
    assert Space(X, (1, 2), fidelities={"mesh": ["coarse", "fine"]}).fidelity_value(1) == {"mesh": "fine"}
    assert repr(Space(X, fidelities={"share": [0.1, 0.3, 1]}).costs) == "(0.1, 0.3, 1.0)"
    assert [Fidelities("epochs", (3, 9.0)).level(told) for told in (3, 9, "3", "9.0")] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("given", "costs", "message"),
    [
        ({}, (), "fidelities = {}: must be one name and its values, such as"),
        ({"a": [1], "b": [2]}, (), "fidelities = .*must be one name"),
        ([3, 9], (), "fidelities = 3: must be named as an argument"),
        ({"x": [1, 2]}, (), "fidelities = 'x': must be another name than that of a parameter"),
        ({"fidelity": [1, 2]}, (), "fidelities = 'fidelity': must be named as an argument can be, but none of"),
        ({"my epochs": [1, 2]}, (), "fidelities = 'my epochs'"),
        ({"epochs": 3}, (), "fidelities.epochs = 3: must be a list"),
        ({"epochs": []}, (), "fidelities.epochs = "),
        ({"epochs": [3, 3]}, (1, 2), "fidelities.epochs = .*each once"),
        ({"epochs": [3, True]}, (), "fidelities.epochs = True"),
        ({"epochs": [3, float("nan")]}, (), "fidelities.epochs = nan"),
        ({"epochs": [9, 3]}, (), "fidelities.epochs = .*positive numbers that increase, .* or given with costs"),
        ({"mesh": ["coarse", "fine"]}, (), "fidelities.mesh = .* or given with costs"),
        (EPOCHS, (1, 10), "costs = .*3 numbers, one for each epochs of 3, 9, 27"),
    ],
)
def test_bad_fidelities_are_named(given, costs, message):
    for make in (
        lambda: Space(X, costs, fidelities=given),
        lambda: UserProblem(lambda **_: 0.0, {"x": {"lower": 0, "upper": 1}}, list(costs) or None, fidelities=given),
    ):
        refused(f"^{message}", make)


@pytest.mark.parametrize(
    ("settings", "costs", "measured"),
    [
        ({}, (3, 9, 27), False),
        ({"costs": [1, 2, 4]}, (1, 2, 4), False),
        ({"costs": "measured"}, (3, 9, 27), True),
        ({"costs": "measured", "num_fidelities": 3}, (3, 9, 27), True),
    ],
)
def test_costs_of_a_problem(settings, costs, measured):
    space = UserProblem(loss, RATE, **settings, fidelities=EPOCHS).space
    assert (space.costs, space.measured) == (costs, measured)
    wrong = {**settings, "num_fidelities": 2, "fidelities": EPOCHS}
    refused(r"num_fidelities = 2: must be 3, the number of values", UserProblem, loss, RATE, **wrong)


def test_ask_and_tell(tmp_path):
    """The journal keeps the number, the objective gets the value."""
    with Journal(tmp_path / "a.sqlite") as journal:
        optimizer = Optimizer(Walk(space=Space(X, fidelities=EPOCHS), every=2), journal)
        for _ in range(4):
            (record,) = optimizer.ask()
            given = optimizer.space.arguments(record.query.x, record.query.fidelity)
            optimizer.tell(record.id, float(given["epochs"]))
        assert {(r.query.fidelity, r.cost, r.value) for r in journal.history()} <= {(0, 3, 3), (1, 9, 9), (2, 27, 27)}


def test_tables_tell_the_value_and_take_it(tmp_path):
    problem = UserProblem(loss, RATE, fidelities=EPOCHS, maximize=False)
    written = run(problem, Walk(every=2), 80.0, progress=False)
    path = tmp_path / "a.csv"
    tabular_io.write(written, problem, path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epochs"] for row in rows] == [str(EPOCHS["epochs"][r.query.fidelity]) for r in written]
    read = [(r.query.x, r.query.fidelity, r.query.meta) for r in tabular_io.read(path, problem)]
    assert read == [(r.query.x, r.query.fidelity, tabular_io.GIVEN) for r in written]
    path.write_text("rate,epochs,value\n0.5,9.0,1\n0.5,,2\n")
    assert [r.query.fidelity for r in tabular_io.read(path, problem)] == [1, 2]
    for text, message in (
        ("rate,epochs,value\n0.5,8,1\n", r"epochs = 8': must be one of 3, 9, 27.* \(.*, line 2\)"),
        ("rate,epochs,fidelity,value\n0.5,9,2,1\n", r"fidelity = 2': must be 1, as 9 says"),
        ("rate,fidelity,value\n0.5,9,1\n", r"fidelity = 9': must be 0 to 2, or its value in a column epochs"),
    ):
        path.write_text(text)
        refused(message, tabular_io.read, path, problem)


@pytest.mark.parametrize("told", [1, {"epochs": 2}, {"epochs": 2.0}, {"epochs": "2"}, "2", numpy.int64(1)])
def test_points_are_told_by_the_number_of_a_fidelity_or_its_value(told):
    """A bare number is the number of a fidelity, also where it is a value of one."""
    optimizer = Optimizer(RandomSearch(space=Space((Parameter("rate", 0.0, 1.0),), fidelities={"epochs": [1, 2, 4]})))
    assert optimizer.add({"rate": 0.5}, told, 1.0).query.fidelity == 1
    assert optimizer.enqueue({"rate": 0.25}, told).query.fidelity == 1
    assert optimizer.enqueue({"rate": 0.75}).query.fidelity == 2


@pytest.mark.parametrize(
    ("fidelities", "told", "message"),
    [
        (EPOCHS, 9, "fidelity = 9: must be a whole number from 0 to 2, .*or a value by its name, {'epochs': 9}"),
        (EPOCHS, 4, "or a value by its name, {'epochs': 27}"),
        (EPOCHS, {"epochs": 10}, "epochs = 10: must be one of 3, 9, 27"),
        (EPOCHS, {"epoch": 9}, "fidelity = {'epoch': 9}: must be .*did you mean epochs"),
        (EPOCHS, {}, "fidelity = {}: must be a whole number from 0 to 2, the cheapest first, or a value"),
        (EPOCHS, "nine", "epochs = 'nine': must be one of 3, 9, 27"),
        ({"share": {"lower": 0.1, "upper": 1.0}}, 0.37, "or a value by its name, {'share': 0.3"),
        (None, {"epochs": 9}, "fidelity = {'epochs': 9}: must be a whole number from 0 to 1$"),
        (None, "1", "fidelity = '1': must be a whole number from 0 to 1$"),
    ],
)
def test_points_at_no_fidelity(fidelities, told, message):
    space = Space((Parameter("rate", 0.0, 1.0),), [] if fidelities else [1.0, 4.0], fidelities=fidelities)
    optimizer = Optimizer(RandomSearch(space=space))
    for call in (lambda: optimizer.add({"rate": 0.5}, told, 1.0), lambda: optimizer.enqueue({"rate": 0.5}, told)):
        refused(message, call)
    assert not len(optimizer.history)


def test_a_continuous_fidelity_is_told_by_its_value():
    space = Space((Parameter("rate", 0.0, 1.0),), fidelities={"share": {"lower": 0.0, "upper": 1.0}}, costs=[1.0, 2.0])
    record = Optimizer(RandomSearch(space=space)).add({"rate": 0.5}, {"share": 0.3701}, 1.0)
    assert space.fidelity_value(record.query.fidelity) == {"share": 0.37}


CONFIG = """
problem:
  class_path: mfbo_torch.problems.UserProblem
  init_args:
    objective: trained:loss
    parameters: {rate: {lower: 0.0, upper: 1.0}}
    fidelities: {epochs: [3, 9, 27]}
    maximize: false
strategy: RandomSearch
capital: 81
"""


def test_yaml_command_line_and_what_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trained.py").write_text(
        "def loss(rate, epochs):\n    assert type(epochs) is int\n    return (rate - 0.3) ** 2 + 1 / epochs\n"
    )
    (tmp_path / "config.yaml").write_text(CONFIG)
    assert cli.main(["run", "config.yaml", "--out", "a"]) == 0
    assert " at epochs = 27" in capsys.readouterr().out
    assert "epochs=27" in (tmp_path / "a" / "run.log").read_text()
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["fidelities"] == {"epochs": [3, 9, 27]}
    assert summary["queries_per_fidelity"] == [0, 0, 3]
    assert cli.main(["show", "a"]) == 0
    assert "  epochs = 9  0 for 0 queries" in capsys.readouterr().out.splitlines()
    flags = ["--out", "b", "--capital", "50", "--problem.fidelities", "{epochs: [5, 25]}"]
    assert cli.main(["run", "config.yaml", *flags]) == 0
    assert json.loads((tmp_path / "b" / "summary.json").read_text())["fidelities"] == {"epochs": [5, 25]}
    assert cli.main(["run", "config.yaml", "--out", "c", "--problem.fidelities", "{epoch: [1, 3]}"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "objective = 'loss(rate, epochs)': must be one without the argument epochs" in message
    assert "did you mean epoch by epochs?" in message
    assert not (tmp_path / "c").exists()


def test_costs_as_an_array_and_narrow_intervals():
    for values in ([1, 10], ["coarse", "fine"]):
        assert Space({"x": (0, 1)}, numpy.array([1.0, 10.0]), fidelities={"mesh": values}).costs == (1.0, 10.0)
    refused(
        "^costs = .*: must be 2 numbers",
        Space,
        {"x": (0, 1)},
        numpy.array([1.0, 2.0, 3.0]),
        fidelities={"mesh": [1, 2]},
    )
    narrow = Space({"x": (0, 1)}, fidelities={"mesh": {"lower": 1000.0, "upper": 1000.1}})
    assert len(narrow.fidelities.values) == 101
