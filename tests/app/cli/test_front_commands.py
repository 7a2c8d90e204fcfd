"""A run with several objectives by the command line: its table, its export, its picture, a comparison of two."""

import csv
import json

import pytest
import yaml

from mfbo_torch.app import cli, experiment

PROBLEM = {
    "class_path": "mfbo_torch.problems.UserProblem",
    "init_args": {
        "objective": "two_objectives:evaluate",
        "parameters": {"a": {"lower": 0, "upper": 1}, "b": {"lower": 0, "upper": 1}},
        "costs": [1, 4],
        "objectives": {"loss": "minimize", "speed": "maximize"},
        "constraints": {"size": "<= 0.9"},
    },
}
CODE = """
def evaluate(parameters, fidelity):
    a, b = parameters["a"], parameters["b"]
    return {"loss": a**2 + b - 0.1 * fidelity, "speed": 1 - (a - 1) ** 2 - b, "size": b}
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "two_objectives.py").write_text(CODE)

    def write(name, **settings):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"problem": PROBLEM, "capital": 15, "out": f"runs/{name}", **settings}))
        return str(path)

    return write


def test_a_run_is_shown_exported_and_read_again(config, tmp_path, capsys):
    assert cli.main(["run", config("first", strategy="MFEHVI")]) == 0
    assert "maximize speed" in capsys.readouterr().out
    assert cli.main(["best", "runs/first", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    loaded = experiment.load(tmp_path / "runs" / "first")
    assert [one["values"] for one in found["front"]] == [one.values for one in loaded.front]
    knee = next(one for one in loaded.front if "knee" in one.labels)
    assert (found["parameters"], found["values"]) == (knee.parameters, knee.values)
    assert "value" not in found
    assert cli.main(["list", "runs"]) == 0
    assert f" loss {knee.values['loss']:.6g}, speed {knee.values['speed']:.6g} " in capsys.readouterr().out
    assert cli.main(["best", "runs/first"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["loss", "speed", "a", "b"]
    assert len(table) == 1 + len(loaded.front)
    assert (tmp_path / "runs" / "first" / "progress.png").read_bytes()[:4] == b"\x89PNG"
    assert cli.main(["show", "runs/first", "--html"]) == 0
    assert cli.main(["export", "runs/first", "all.csv"]) == 0
    with open("all.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["outcome.loss"]) for row in rows] == [r.outcomes["loss"].value for r in loaded.history]
    assert [float(row["value"]) for row in rows] == [-r.value for r in loaded.history]
    assert cli.main(["run", config("second", strategy="RandomSearch", warm_start="all.csv")]) == 0
    second = experiment.load(tmp_path / "runs" / "second").history
    given = [r for r in second if r.given]
    assert [(r.query.x, r.value, r.outcomes) for r in given] == [
        (r.query.x, r.value, r.outcomes) for r in loaded.history
    ]
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = loaded.history.to_pandas(loaded.problem)
    assert isinstance(frame, pandas.DataFrame)
    assert frame["outcome.speed"].tolist() == [r.outcomes["speed"].value for r in loaded.history]


def test_a_comparison_is_by_hypervolume(config, tmp_path, capsys):
    path = config("compared", strategies={"one": "RandomSearch", "two": "RandomSearch"}, seeds=2, workers=1)
    assert cli.main(["compare", path]) == 0
    out = capsys.readouterr().out
    assert "hypervolume" in out
    with open("runs/compared/regret.csv") as file:
        rows = list(csv.DictReader(file))
    ends = {(r["strategy"], r["seed"]): float(r["best_value"]) for r in rows if float(r["capital"]) == 15}
    assert ends["one", "0"] == ends["two", "0"] > 0
    assert ends["one", "0"] != ends["one", "1"]


def test_a_strategy_of_one_objective_is_refused(config, capsys):
    assert cli.main(["run", config("wrong", strategy="MFGPUCB")]) == 2
    assert "MFEHVI and RandomSearch take several" in capsys.readouterr().err


@pytest.mark.parametrize(
    "forged",
    [
        *(3, "abc", {}, [3], [[]], [{}], [None]),
        *([{"values": 3}], [{"values": {"loss": "low"}}], [{"values": {"loss": 1.0}, "parameters": {"a": [1]}}]),
        [{"values": {"loss": 1.0}, "parameters": {"a": 1}, "deviations": {"loss": "wide"}, "labels": []}],
        [{"values": {"loss": 1.0}, "parameters": {"a": 1}, "deviations": {}, "labels": [3]}],
        [
            {"values": {name: 1.0}, "parameters": {"a": 1}, "deviations": {}, "labels": []}
            for name in ("loss", "\x1b[2J")
        ],
    ],
)
def test_a_forged_front_is_refused_in_one_line(config, tmp_path, capsys, forged):
    path = tmp_path / "runs" / "first" / "summary.json"
    if not path.exists():
        assert cli.main(["run", config("first", strategy="RandomSearch")]) == 0
    path.write_text(json.dumps({**json.loads(path.read_text()), "front": forged}))
    capsys.readouterr()
    for command in ("best", "show"):
        assert cli.main([command, "runs/first"]) == 2
        assert capsys.readouterr().err.startswith("mfbo: summary")
    assert cli.main(["list"]) == 0
    assert "unreadable: summary" in capsys.readouterr().out
