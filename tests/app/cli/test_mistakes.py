"""A table of mistakes: each gets one line that names the setting and says what to do, before anything is spent."""

from typing import Any

import pytest
import yaml

from mfbo_torch.app import cli
from mfbo_torch.app.run_folder import recorded

OBJECTIVES = """
def score(rate, width, optimizer, fidelity, momentum=0.0):
    open("called", "w").close()
    return rate

def by_epochs(rate, width, optimizer, epochs, momentum=0.0):
    return score(rate, width, optimizer, 0)

def misspelt(rat, width, optimizer, fidelity, momentum=0.0):
    return rat

def blind(rate, width, optimizer, momentum=0.0):
    return rate

number = 3
"""
PARAMETERS = {
    "rate": {"lower": 1e-5, "upper": 0.1, "log": True},
    "width": {"lower": 16, "upper": 512, "integer": True},
    "optimizer": {"choices": ["sgd", "adam"]},
    "momentum": {"lower": 0.0, "upper": 0.9, "when": {"optimizer": "sgd"}},
}
PLACES = ["{rate}", "{width}", "{optimizer}", "{momentum}", "{fidelity}"]
EPOCHS = {"objective": "mine:by_epochs", "costs": None}


def parameters(**changes: Any) -> dict[str, Any]:
    return {"parameters": {**PARAMETERS, **changes}}


def when(condition: Any) -> dict[str, Any]:
    return parameters(momentum={"lower": 0, "upper": 1, "when": condition})


def settings(**init_args: Any) -> dict[str, Any]:
    return {"strategy": {"class_path": "MFGPUCB", "init_args": init_args}}


PROBLEM: list[tuple[str, dict[str, Any], str]] = [
    ("no function named", {"objective": "mine"}, "objective = 'mine': must be like \"package.module:function\""),
    ("a file, not a module", {"objective": "mine.py:score"}, 'must be a module, not a file: "mine:score"'),
    ("a module misspelt", {"objective": "mien:score"}, "objective = 'mien:score': must be importable from "),
    ("a function misspelt", {"objective": "mine:scroe"}, "(scroe is not there); did you mean score?"),
    ("what is no function", {"objective": "mine:number"}, "(number is of type int)"),
    ("a module that breaks", {"objective": "broken:score"}, "No module named 'nowhere_to_be_found'"),
    ("an argument misspelt", {"objective": "mine:misspelt"}, "did you mean rate by rat?"),
    ("no fidelity taken", {"objective": "mine:blind"}, "must be one that takes fidelity, as f(rate, width, optimizer"),
    ("a fidelity without values", {"objective": "mine:by_epochs"}, "must be one without the argument epochs"),
    ("no objective", {"objective": None}, "objective = None: must be a function or"),
    ("a function and a program", {"command": ["true"]}, "must be left out where command is given"),
    ("a program misspelt", {"objective": None, "command": ["simulat", *PLACES]}, "that is on the PATH and can be run"),
    ("a program told too little", {"objective": None, "command": ["true", "{rate}"]}, "with a place for {width}"),
    ("a place misspelt", {"objective": None, "command": ["true", "{rat}", *PLACES]}, "did you mean rate?"),
    ("a timeout of a function", {"timeout": 3}, "timeout = 3.0: must be left out, or given with command"),
    ("no parameters", {"parameters": {}}, "parameters = []: must be at least one"),
    ("parameters in a list", {"parameters": ["rate"]}, "problem.parameters = ['rate']: must be a mapping"),
    ("bounds in a list", parameters(width=[16, 512]), "width = [16, 512]: must be bounds, (16, 512) or {'lower'"),
    ("bounds swapped", parameters(width={"lower": 9, "upper": 1}), "width.lower = 9: must be below width.upper = 1"),
    ("one bound", parameters(width={"upper": 9}), "must be given with lower, or with choices"),
    ("a bound in words", parameters(width={"lower": "low", "upper": 9}), "width.lower = 'low': must be a finite"),
    ("no end", parameters(width={"lower": 1, "upper": float("inf")}), "width.upper = inf: must be a finite number"),
    ("a logarithm of 0", parameters(rate={"lower": 0.0, "upper": 1.0, "log": True}), "must be above 0 on a log scale"),
    ("halves of a whole", parameters(width={"lower": 0.5, "upper": 9, "integer": True}), "must be whole numbers where"),
    ("a key misspelt", parameters(width={"lower": 1, "upper": 9, "interger": True}), "must be one of lower, upper, lo"),
    ("one choice", parameters(optimizer={"choices": ["sgd"]}), "what never changes is no parameter"),
    ("no choice", parameters(optimizer={"choices": []}), "must be at least two, or give lower and upper"),
    ("a choice twice", parameters(optimizer={"choices": ["sgd", "adam", "sgd"]}), "'sgd': must be there once"),
    ("neither ordered nor not", parameters(optimizer={"choices": ["a", "b"], "ordered": 3}), "optimizer.ordered = 3"),
    ("choices and bounds", parameters(optimizer={"choices": ["a", "b"], "lower": 0}), "where there are choices"),
    ("a logarithm of choices", parameters(optimizer={"choices": ["a", "b"], "log": True}), "must be left out where"),
    ("a condition misspelt", when({"optimiser": "sgd"}), "one of rate, width, optimizer; did you mean optimizer?"),
    ("a value misspelt", when({"optimizer": "sdg"}), "optimizer = 'sdg': must be one of sgd, adam; did you mean sgd?"),
    ("a condition without a name", when("sgd"), "momentum.when = 'sgd': must be a mapping of another parameter to its"),
    (
        "a circle of conditions",
        parameters(
            optimizer={"choices": ["sgd", "adam"], "when": {"kind": "a"}},
            kind={"choices": ["a", "b"], "when": {"optimizer": "sgd"}},
        ),
        "must be no circle: one of them must not depend",
    ),
    ("costs that fall", {"costs": [10, 1]}, "costs = [10.0, 1.0]: must be increasing, the target fidelity last"),
    ("a cost of nothing", {"costs": [0, 1]}, "must be one positive number a fidelity"),
    ("no costs", {"costs": None}, 'costs = None: must be a list of one number a fidelity, or "measured"'),
    ("costs in words", {"costs": "cheap"}, "problem.costs = 'cheap': must be a list or one of 'measured'"),
    ("one cost, not a list", {"costs": 1}, "problem.costs = 1: must be a list or one of 'measured'"),
    ("measured, but how many", {"costs": "measured"}, "num_fidelities = None: must be a positive whole number where"),
    ("two numbers of fidelities", {"num_fidelities": 3}, "num_fidelities = 3: must be 2, the number of costs"),
    ("fidelities without a name", {**EPOCHS, "fidelities": [3, 9]}, "problem.fidelities = [3, 9]: must be a mapping"),
    ("a fidelity twice", {**EPOCHS, "fidelities": {"epochs": [3, 3]}}, "each once, the target last"),
    ("fidelities that fall", {**EPOCHS, "fidelities": {"epochs": [9, 3]}}, "the target last, or given with costs"),
    ("too many costs", {**EPOCHS, "costs": [1, 2, 3], "fidelities": {"epochs": [3, 9]}}, "must be 2 number"),
    ("a fidelity called as a parameter", {**EPOCHS, "fidelities": {"rate": [3, 9]}}, "another name than that of a par"),
    ("a fidelity misspelt", {**EPOCHS, "fidelities": {"epoch": [3, 9]}}, "did you mean epoch by epochs?"),
    ("an interval of one end", {**EPOCHS, "fidelities": {"epochs": {"lower": 3}}}, "must be given with upper"),
    ("an interval swapped", {**EPOCHS, "fidelities": {"epochs": {"lower": 3, "upper": 1}}}, "must be below fidelities"),
    ("nothing to go on from", {**EPOCHS, "fidelities": {"epochs": [3, 9]}, "continues": True}, "must take a trial"),
    ("a constraint misspelt", {"constraints": ["widht <= 99"]}, "did you mean width?"),
    ("a constraint on a logarithm", {"constraints": ["rate <= 0.1"]}, "'rate': must be a number that is not on a log"),
    ("a constraint on a choice", {"constraints": ["optimizer <= 1"]}, "a number that is always there; it has choices"),
    ("a strict constraint", {"constraints": ["width < 99"]}, 'must be one inequality, like "a + 2 b <= 3"'),
    ("a product in a constraint", {"constraints": ["width * width <= 99"]}, "must be one inequality, like"),
    ("a constraint nothing meets", {"constraints": ["width <= 3"]}, "must be met by more than 0 of"),
    ("a strict limit", {"constraints": {"latency": "< 20"}}, "constraints.latency = '< 20': must be like \"<= 20\""),
    ("a second objective", {"constraints": {"latency": "minimize"}}, "several objectives are named by objectives"),
    ("a limit on the value", {"constraints": {"value": ">= 3"}}, "must be the name of an outcome, other than 'value'"),
    ("neither true nor false", {"maximize": "maybe"}, "problem.maximize = 'maybe': must be true or false"),
    ("another word for it", {"minimize": True}, "did you mean maximize?"),
    ("a candidate out of bounds", {"candidates": [[1.0, 16, "sgd", 0.5]]}, "candidates.rate = 1.0: must be between"),
    ("a candidate too short", {"candidates": [[0.01, 16]]}, "must be 4 numbers each, between the bounds"),
]
RUN: list[tuple[str, dict[str, Any], str]] = [
    ("no capital", {"capital": None}, "capital = None: must be given, in CONFIG or as --capital"),
    ("too little capital", {"capital": 0.5}, "capital = 0.5: must be at least 1, the cost of the cheapest query"),
    ("capital in words", {"capital": "lots"}, "capital = 'lots': must be a number"),
    ("capital without end", {"capital": float("inf")}, "capital = inf: must be a finite number"),
    ("a setting misspelt", {"captal": 3}, "did you mean capital?"),
    ("a strategy misspelt", {"strategy": "MFGPUBC"}, "or the import path of your own; did you mean MFGPUCB?"),
    ("a problem misspelt", {"problem": "UserProblm"}, "or the import path of your own; did you mean UserProblem?"),
    ("a strategy's setting misspelt", settings(inital_capital=3), "did you mean initial_capital?"),
    ("a word that is none", settings(link="recursiv"), "link = 'recursiv': must be 'recursive' or 'independent'"),
    ("a seed in the wrong place", settings(seed=3), "strategy.seed = 3: must be left out; it is set by seed for the"),
    ("settings beside a class", {"strategy": {"class_path": "MFGPUCB", "beta": 3}}, "of class_path and init_args"),
    ("a strategy without choices", {"strategy": "Direct"}, "Direct takes no choices and no conditions"),
    ("half a seed", {"seed": 1.5}, "seed = 1.5: must be a whole number"),
    ("a seed below 0", {"seed": -1}, "seed = -1: must be a whole number from 0 on"),
    ("a precision that is none", {"dtype": "float16"}, "must be one of 'float64', 'float32'"),
    ("a device that is none", {"device": "gpu"}, "device = 'gpu': must be a device of this machine"),
    ("no workers", {"workers": 0}, "workers = 0: must be a whole number from 1 on"),
    ("an executor that is none", {"executor": "thread"}, "must be one of 'processes', 'dask'"),
    ("less than no query in flight", {"max_pending": -1}, "max_pending = -1: must be a whole number from 1 on"),
    ("a timeout below 0", {"timeout": -1}, "timeout = -1.0: must be a number of seconds above 0"),
    ("fewer attempts than one", {"retries": -1}, "retries = -1: must be a whole number from 0 on"),
    ("a scheduler without Dask", {"scheduler": "tcp://a:1"}, "must be left out, or given with executor dask"),
    ("too many workers", {"scheduler": "tcp://a:1", "executor": "dask", "workers": 2}, "workers = 2: must be left"),
    ("no patience", {"patience": 0}, "patience = 0.0: must be a capital above 0"),
    ("time that is over", {"time_limit": -3}, "time_limit = -3.0: must be a number of seconds above 0"),
    ("all that is left to gain", {"stop_gain": 2}, "stop_gain = 2.0: must be between 0 and 1"),
    ("deciding for nothing", {"charge_deciding": True}, "must be false, or the problem's costs: measured"),
    ("a start that is not there", {"warm_start": "nowhere.csv"}, "must be a readable CSV file: [Errno 2] No such file"),
    ("no folder", {"out": ""}, "out = '': must be the name of a folder"),
]
ROWS = [(name, {}, *row) for name, *row in PROBLEM] + [(name, change, {}, said) for name, change, said in RUN]


def test_there_are_fifty():
    assert len({row[0] for row in ROWS}) == len(ROWS) >= 50


@pytest.mark.parametrize(("name", "run", "problem", "said"), ROWS, ids=[row[0] for row in ROWS])
def test_a_mistake_is_one_line_that_says_what_to_do(name, run, problem, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OBJECTIVES)
    (tmp_path / "broken.py").write_text("import nowhere_to_be_found\n")
    for module in ("mine", "broken"):
        monkeypatch.delitem(__import__("sys").modules, module, raising=False)
    given = {"objective": "mine:score", "parameters": PARAMETERS, "costs": [1, 10], **problem}
    made = {"class_path": "UserProblem", "init_args": {key: value for key, value in given.items() if value is not None}}
    given = {"problem": made, "strategy": "RandomSearch", "capital": 30, "out": "out", **run}
    kept = {key: value for key, value in given.items() if value is not None}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(kept, sort_keys=False))
    assert cli.main(["run", "mine.yaml"]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert err.startswith("mfbo: ")
    assert err.count("\n") == 1
    assert not out
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "out").exists() or not len(recorded(tmp_path / "out"))
