"""The user's own objective: by import path or as a function, right and wrong."""

import importlib
import multiprocessing
import pickle
import sys

import numpy as np
import pytest
from refusals import refused

from mfbo_torch import Observation
from mfbo_torch.app.builder import build_problem, resolve_run
from mfbo_torch.app.schema import read_mapping
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.problems import UserProblem

PARAMETERS = {
    "learning_rate": {"lower": 1.0e-5, "upper": 1.0e-1, "log": True},
    "width": {"lower": 16, "upper": 512, "integer": True},
}
CODE = """
constant = 3

def evaluate(parameters, fidelity):
    assert isinstance(parameters["width"], int)
    return 10 * parameters["learning_rate"] + parameters["width"] + 1000 * fidelity
"""
YAML = """
problem:
  class_path: mfbo_torch.problems.UserProblem
  init_args:
    objective: made_up_package.train:evaluate
    parameters:
      learning_rate: {lower: 1.0e-5, upper: 1.0e-1, log: true}
      width: {lower: 16, upper: 512, integer: true}
    costs: COSTS
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """``made_up_package.train`` in the current folder, which is not on the import path."""
    (tmp_path / "made_up_package").mkdir()
    (tmp_path / "made_up_package" / "__init__.py").touch()
    (tmp_path / "made_up_package" / "train.py").write_text(CODE)
    (tmp_path / "made_up_package" / "broken.py").write_text("1 / 0")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()
    yield "made_up_package.train:evaluate"
    for name in [name for name in sys.modules if name.startswith("made_up_package")]:
        del sys.modules[name]


def square(parameters, fidelity):
    return parameters["x"] ** 2 + fidelity


def test_import_path_is_found_in_the_current_folder(package):
    problem = UserProblem(package, PARAMETERS, [1, 10])
    assert problem.evaluate([0.01, 17.4], 1) == pytest.approx(1017.1)
    assert [p.name for p in problem.space.parameters] == ["learning_rate", "width"]
    assert (problem.space.costs, problem.space.measured) == ((1, 10), False)


def test_functions_are_taken_as_they_are_can_be_minimised_and_measured():
    problem = UserProblem(square, {"x": {"lower": 0, "upper": 1}}, (1, 2), maximize=False)
    assert problem.evaluate([0.5], 1) == 1.25
    assert problem.reward([0.5], 1) == -1.25
    assert UserProblem(lambda p, m: p["x"], {"x": {"lower": 0, "upper": 1}}, [1]).evaluate([0.5], 0) == 0.5
    space = UserProblem(square, {"x": {"lower": 0, "upper": 1}}, "measured", num_fidelities=3).space
    assert (space.measured, space.costs) == (True, (1, 10, 100))


def test_parameters_may_be_written_as_for_minimize(tmp_path):
    assert (
        UserProblem(square, {"x": (0, 1)}, [1, 2]).space
        == UserProblem(square, {"x": {"lower": 0, "upper": 1}}, [1, 2]).space
    )
    path = tmp_path / "mine.yaml"
    path.write_text(
        YAML.replace("COSTS", "[1, 10]").replace("width: {", "kind: [a, b, c]\n      width: {") + "capital: 30"
    )
    space = build_problem(resolve_run(read_mapping(path, "config")), to_evaluate=False).space
    assert [p.choices for p in space.parameters] == [(), ("a", "b", "c"), ()]


def test_unpickles_where_the_folder_is_not_on_the_path(package, monkeypatch, tmp_path):
    content = pickle.dumps(UserProblem(package, PARAMETERS, [1, 10]))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    sys.path.remove(str(tmp_path))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(pickle.loads(content).evaluate, ([0.01, 17], 0)) == pytest.approx(17.1)


@pytest.mark.parametrize("costs", ["[1, 10]", "measured\n    num_fidelities: 2"])
def test_yaml_makes_one(package, tmp_path, costs):
    (tmp_path / "config.yaml").write_text(YAML.replace("COSTS", costs))
    given = read_mapping(tmp_path / "config.yaml", "config")
    problem = build_problem(resolve_run({**given, "strategy": "RandomSearch", "capital": 10}))
    assert isinstance(problem, UserProblem)
    assert problem.evaluate([0.01, 17], 0) == pytest.approx(17.1)
    assert problem.space.costs == (1, 10)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("made_up_package.train", 'like "package.module:function"'),
        ("made_up_package/train:evaluate", 'like "package.module:function"'),
        (":evaluate", 'like "package.module:function"'),
        ("made_up_package.gone:evaluate", "importable from .*ModuleNotFoundError: No module named"),
        ("made_up_package.broken:evaluate", "importable from .*ZeroDivisionError"),
        ("made_up_package.train:gone", r"the name of a function in \S*train.py .gone is not there."),
        ("made_up_package.train:constant", "constant is of type int"),
        (3, 'a function or "package.module:function"'),
    ],
)
def test_bad_objectives_are_named(package, objective, message):
    refused(rf"^objective = {objective!r}: must be .*{message}", UserProblem, objective, PARAMETERS, [1, 10])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"x": {"lower": 0, "uper": 1}}, "parameters.x = 'uper': must be one of lower, upper, log, integer"),
        ({"x": {"lower": 0}}, "parameters.x = .*given with upper"),
        ({"x": {"upper": 0}}, "parameters.x = .*given with lower"),
        ({"x": [0, 1]}, r"x = \[0, 1\]: must be bounds, \(0, 1\) or {'lower': 0, 'upper': 1}, or {'choices'"),
        ({"x": {"lower": 1, "upper": 2, "log": "yes"}}, "parameters.x.log = 'yes': must be true or false"),
        ({"x": {"lower": "1", "upper": 2}}, "x.lower = '1': must be a finite number"),
        ({"x": {"lower": 3, "upper": 2}}, "x.lower = 3: must be below"),
        ({"x": {"lower": 0, "upper": 2, "log": True}}, "x.lower = 0: must be above 0"),
        ({}, "parameters = .*at least one"),
        ([], r"parameters = \[\]: must be a mapping"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    refused(f"^{message}", UserProblem, square, parameters, [1, 10])


@pytest.mark.parametrize(
    ("costs", "num_fidelities", "message"),
    [
        ("cheap", None, "costs = 'cheap': must be a list"),
        (3.0, None, "costs = 3.0: must be a list"),
        ([], None, "costs = "),
        ([10, 1], None, "costs = .*increasing"),
        ([1, 10], 3, "num_fidelities = 3: must be 2"),
        ("measured", None, "num_fidelities = None: must be a positive whole number"),
        ("measured", 0, "num_fidelities = 0"),
    ],
)
def test_bad_costs_are_named(costs, num_fidelities, message):
    refused(f"^{message}", UserProblem, square, {"x": {"lower": 0, "upper": 1}}, costs, num_fidelities=num_fidelities)


@pytest.mark.parametrize(
    ("returned", "observed", "reason"),
    [
        ({"value": 2.0, "standard_error": 0.5}, (-2.0, 0.5), ""),
        ({"value": 2, "standard_error": np.float32(0)}, (-2.0, 0.0), ""),
        ({"value": 2.0, "standard_error": None}, (-2.0, None), ""),
        (Observation(2.0, 0.5), (-2.0, 0.5), ""),
        (None, (None, None), "SettingError: objective's value = None: must be a number"),
        ({"value": 2.0, "standard_error": -0.5}, (None, None), "SettingError: standard_error = -0.5: must be a number"),
        (
            {"value": (2.0, 0.1), "standard_error": 0.5},
            (None, None),
            "SettingError: standard_error = 0.5: must be",
        ),
        (
            (2.0, 0.5),
            (None, None),
            "SettingError: objective's value = 'tuple of 2': must be a number, or {\"value\": ...",
        ),
        ([2.0, 0.5, 1], (None, None), "SettingError: objective's value = 'list of 3': must be a number, or"),
    ],
)
def test_objectives_return_numbers_and_standard_errors(returned, observed, reason):
    """The sign of the value that is minimised is turned, that of the standard error is none."""
    problem = UserProblem(lambda parameters, m: returned, {"x": {"lower": 0, "upper": 1}}, [1], maximize=False)
    outcome = evaluate(problem, (0.5,), 0)
    found = outcome.observation
    assert ((None, None) if found is None else (found.value, found.standard_error)) == observed
    assert outcome.reason.partition("\n")[0].startswith(reason)
    if not reason:
        assert problem.reward((0.5,), 0) == -2.0


def test_candidates():
    """Some designs and no others; a wrong one is named."""
    settings = {"objective": lambda parameters, fidelity: parameters["width"], "parameters": PARAMETERS, "costs": [1.0]}
    problem = UserProblem(**settings, candidates=[[1e-3, 32], [1e-2, 64]])
    assert problem.space.candidates == ((1e-3, 32), (1e-2, 64))
    assert problem.reward(problem.space.candidates[1], 0) == 64.0
    for wrong in ([1e-3, 32.5], [1e-3], 7):
        refused(r"^candidates = .*: must be 2 numbers each", UserProblem, **settings, candidates=[[1e-3, 32], wrong])
    refused(r"^candidates = \[\]: must be at least one design", UserProblem, **settings, candidates=[])


def test_a_subclass_may_evaluate_in_its_own_way():
    class Shifted(UserProblem):
        def evaluate(self, x, fidelity):
            return super().evaluate(x, fidelity) + 1.0

    problem = Shifted(square, {"x": {"lower": 0, "upper": 1}}, (1, 2), maximize=False)
    assert evaluate(problem, (0.5,), 1).observation.value == -2.25
