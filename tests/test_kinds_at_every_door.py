"""Every kind of parameter and fidelity by Python, YAML, the command line and Ax: asked, kept, shown and read again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from pages import data

from mfbo_torch import MFGPUCB, Journal, Parameter, Space, minimize
from mfbo_torch.app import cli, experiment, tabular_io
from mfbo_torch.history import History
from mfbo_torch.space.parameter import text
from mfbo_torch.strategies import BOCA, Direct, Strategy

INITIAL = 2.0
"""What an initial design may cost, in units of the target's cost."""
X = {"x": {"lower": 0.0, "upper": 1.0}}
OPTIMIZER = {"optimizer": {"choices": ["sgd", "adam", "rms"]}}
SEEN: list[dict[str, Any]] = []
"""What an objective was called with."""


class Kind(NamedTuple):
    """A space as YAML has it, and what holds for everything that an objective is called with there."""

    parameters: dict[str, dict[str, Any]]
    holds: Callable[[dict[str, Any]], bool]
    more: dict[str, Any] = {"costs": [1, 4]}  # noqa: RUF012
    capital: int = 12

    @property
    def continues(self) -> bool:
        return "continues" in self.more

    @property
    def space(self) -> Space:
        return Space([Parameter(name, **settings) for name, settings in self.parameters.items()], **self.more)


EPOCHS = {"fidelities": {"epochs": [1, 4]}}
SHARE = {"fidelities": {"share": {"lower": 0.25, "upper": 1.0}}, "costs": [1, 4]}
KINDS = {
    "categorical": Kind(X | OPTIMIZER, lambda p: p["optimizer"] in ("sgd", "adam", "rms")),
    "boolean": Kind(  # and texts that YAML takes for a boolean
        X | {"flag": {"choices": [True, False]}, "mode": {"choices": ["no", "off"]}},
        lambda p: type(p["flag"]) is bool and p["mode"] in ("no", "off"),
    ),
    "ordered": Kind(
        X | {"width": {"choices": [16, 32, 256], "ordered": True}},
        lambda p: type(p["width"]) is int and p["width"] in (16, 32, 256),
    ),
    "conditional": Kind(
        X | OPTIMIZER | {"momentum": {"lower": 0.0, "upper": 0.9, "when": {"optimizer": "sgd"}}},
        lambda p: ("momentum" in p) == (p["optimizer"] == "sgd") and 0 <= p.get("momentum", 0) <= 0.9,
    ),
    "log": Kind({"rate": {"lower": 1e-6, "upper": 1.0, "log": True}}, lambda p: 1e-6 <= p["rate"] <= 1),
    "integer": Kind(
        X | {"n": {"lower": 1, "upper": 9, "integer": True}}, lambda p: type(p["n"]) is int and 1 <= p["n"] <= 9
    ),
    "constraint": Kind(
        X | {"y": {"lower": 0.0, "upper": 1.0}},
        lambda p: p["x"] + 2 * p["y"] <= 1 + 1e-8,
        {"costs": [1, 4], "constraints": ["x + 2*y <= 1"]},
    ),
    "named fidelity": Kind(X, lambda p: type(p["epochs"]) is int and p["epochs"] in (1, 4), EPOCHS),
    "continuous fidelity": Kind(X, lambda p: 0.25 <= p["share"] <= 1, SHARE, capital=18),
    "continuing": Kind(X, lambda p: p["epochs"] in (1, 4), {**EPOCHS, "continues": True}),
}


def loss(**given: Any) -> float:
    """Something of everything, smaller at a larger fidelity."""
    SEEN.append(given)
    if "rate" in given:
        return abs(given["rate"] - 0.01)
    return (given["x"] - 0.6) ** 2 + 0.1 * len(given) - 0.01 * sum(v for v in given.values() if isinstance(v, int))


def trained(trial: Any, **given: Any) -> float:
    """The same, which goes on from its checkpoint."""
    checkpoint = trial.folder / "state.json"
    assert checkpoint.exists() == (trial.below is not None)
    for epoch in range(trial.below.at if trial.below else 0, given["epochs"]):
        trial.report(epoch + 1, 1.0 / (epoch + 1))
    checkpoint.write_text(json.dumps(given["epochs"]))
    return loss(**given)


def strategy_of(kind: str) -> Strategy:
    return (BOCA if kind == "continuous fidelity" else MFGPUCB)(initial_capital=INITIAL)


def by_python(kind: Kind, strategy: Strategy, out: Path) -> History:
    """A call; its journal, its result and its table."""
    path = out.with_suffix(".sqlite")
    with Journal(path) as journal:
        found = minimize(
            trained if kind.continues else loss, kind.space, kind.capital, strategy=strategy, journal=journal
        )
    with Journal(path, read_only=True) as journal:
        assert journal.history() == found.history
    assert found.success
    frame = found.history.to_pandas(found.problem)
    for name, best in found.parameters.items():
        assert name in repr(found)
        assert best in frame[name].tolist()
    return found.history


def settings_of(kind: Kind, strategy: Strategy) -> dict[str, dict[str, Any]]:
    """The problem and the strategy as YAML has them."""
    objective = f"{__name__}:{'trained' if kind.continues else 'loss'}"
    problem = {"objective": objective, "parameters": kind.parameters, "maximize": False, **kind.more}
    given = {} if isinstance(strategy, Direct) else {"initial_capital": INITIAL}
    return {
        "problem": {"class_path": "UserProblem", "init_args": problem},
        "strategy": {"class_path": type(strategy).__name__, "init_args": given},
    }


def by_yaml(kind: Kind, strategy: Strategy, out: Path) -> History:
    """A config file alone; the page of the run."""
    path = out.with_suffix(".yaml")
    settings = {**settings_of(kind, strategy), "capital": kind.capital, "out": str(out)}
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    history = finished(["run", str(path)], kind, out)
    assert cli.main(["show", str(out), "--html"]) == 0
    cells = {column["title"]: column["cells"] for column in data((out / "report.html").read_text())["columns"]}
    for name, given in kind.parameters.items():
        shown = [text(seen[name]) if "choices" in given else seen[name] for seen in SEEN if name in seen]
        assert [cell for cell in cells[name] if cell is not None] == shown
    assert cells["fidelity"] == [kind.space.fidelity_name(r.query.fidelity) for r in history]
    return history


def by_flags(kind: Kind, strategy: Strategy, out: Path) -> History:
    """A command line alone."""
    flags = ["--capital", str(kind.capital), "--out", str(out)]
    for setting, entry in settings_of(kind, strategy).items():
        flags += [f"--{setting}", entry["class_path"]]
        for name, given in entry["init_args"].items():
            flags += [f"--{setting}.{name}", given if isinstance(given, str) else json.dumps(given)]
    return finished(["run", *flags], kind, out)


def finished(arguments: list[str], kind: Kind, out: Path) -> History:
    """A run on the command line; its journal, its summary, ``show`` and its table."""
    if cli.main(arguments):
        raise Refused
    with Journal(out / "history.sqlite", read_only=True) as journal:
        history = journal.history()
    run = experiment.load(out)
    space = run.problem.space
    assert run.history == history
    assert [space.arguments(r.query.x, r.query.fidelity) for r in history] == SEEN
    assert cli.main(["show", str(out)]) == 0
    assert json.loads((out / "summary.json").read_text())["best_parameters"] in [
        {name: part for name, part in given.items() if name in kind.parameters} for given in SEEN
    ]
    assert cli.main(["export", str(out)]) == 0
    again = tabular_io.read(out / "history.csv", run.problem)
    rows = [[(r.query.x, r.query.fidelity, r.value) for r in records] for records in (again, history)]
    assert rows[0] == rows[1]
    return history


def by_ax(kind: Kind, strategy: Strategy, out: Path) -> History:
    """Ax's client; its snapshot, its best point and its analysis."""
    pytest.importorskip("ax.api.client", reason="Ax is not installed: pip install mfbo-torch[ax]")
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    from mfbo_torch.ax import ValueAgainstCost, best_point, multi_fidelity_client
    from mfbo_torch.ax.best import node_of
    from mfbo_torch.ax.history import read

    types = {bool: "bool", int: "int", float: "float", str: "str"}

    def config(name: str, given: dict[str, Any]) -> Any:
        if "choices" in given:
            depend = {(other, v): n for n, s in kind.parameters.items() for other, v in s.get("when", {}).items()}
            below = {value: [n] for (other, value), n in depend.items() if other == name} or None
            values, order = given["choices"], given.get("ordered", False)
            kind_of = types[type(values[0])]
            return ChoiceParameterConfig(name, values, kind_of, is_ordered=order, dependent_parameters=below)
        bounds, scaling = (given["lower"], given["upper"]), "log" if given.get("log") else None
        return RangeParameterConfig(name, bounds, "int" if given.get("integer") else "float", scaling=scaling)

    def history_of(client: Client) -> History:
        return read(client._experiment, node_of(client._generation_strategy).bound(client._experiment)[1]).history

    configs = [config(name, given) for name, given in kind.parameters.items()]
    more = {"parameter_constraints" if name == "constraints" else name: given for name, given in kind.more.items()}
    client = multi_fidelity_client(configs, objective="-loss", strategy=strategy, **more)
    while history_of(client).spent <= kind.capital - 4:  # a query of the target is paid for
        for index, parameters in client.get_next_trials(1).items():
            client.complete_trial(index, {"loss": loss(**parameters)})
    history = history_of(client)
    assert history_of(Client._from_json_snapshot(client._to_json_snapshot())) == history
    assert best_point(client).parameters in SEEN
    (card,) = client.compute_analyses([ValueAgainstCost()], display=False)
    assert card.df["value"].tolist() == [-r.value for r in history]
    return history


DOORS = {"python": by_python, "yaml": by_yaml, "flags": by_flags, "ax": by_ax}


class Refused(Exception):
    """The command line has said no."""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """In a folder of one's own, nothing seen yet."""
    monkeypatch.chdir(tmp_path)
    SEEN.clear()


@pytest.mark.parametrize("door", ["python", "yaml", pytest.param("flags", marks=pytest.mark.slow), "ax"])
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_at_a_door(name, door, tmp_path, capsys):
    kind = KINDS[name]
    history = DOORS[door](kind, strategy_of(name), tmp_path / "run")
    assert len(SEEN) == len(history) == len(history.done) > 3
    assert all(map(kind.holds, SEEN))
    assert len({r.query.fidelity for r in history}) > 1
    assert "model" in {r.query.meta["stage"] for r in history}
    assert capsys.readouterr().out.count("share = ") < 30, "ten lines each time, not one for each of 101 fidelities"
    if kind.continues:
        assert history.spent < sum(kind.space.costs[r.query.fidelity] for r in history)


ON_A_LOGARITHM = KINDS["log"]._replace(more={"costs": [1, 4], "constraints": ["rate <= 0.5"]})


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("kind", "strategy", "message"),
    [
        (KINDS["categorical"], Direct(), "parameters = ['optimizer']: must be numbers that are always there"),
        (KINDS["conditional"], Direct(), "parameters = ['optimizer', 'momentum']: must be numbers that are always"),
        (KINDS["continuous fidelity"], MFGPUCB(), "fidelities = 101: must be at most 20 for MFGPUCB; BOCA takes"),
        (ON_A_LOGARITHM, MFGPUCB(), "log scale"),  # in Ax its own words
        (KINDS["boolean"]._replace(parameters={"flag": {"choices": [True, True]}}), MFGPUCB(), "flag.choices = "),
    ],
    ids=["categorical", "conditional", "continuous", "constraint on a logarithm", "choices that repeat"],
)
def test_what_cannot_be_is_refused_in_one_line(kind, strategy, message, door, tmp_path, capsys):
    with pytest.raises((ValueError, Refused)) as caught:
        DOORS[door](kind, strategy, tmp_path / "run")
    said = capsys.readouterr().err if caught.type is Refused else str(caught.value)
    assert message in said
    assert said.rstrip().count("\n") == 0
    assert not SEEN
