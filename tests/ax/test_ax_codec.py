"""Ax search spaces as spaces of strategies: parameters, constraints, and one clear error for each that cannot be."""

import importlib
import sys

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, DerivedParameterConfig, RangeParameterConfig, StorageConfig
from ax.core.parameter import ChoiceParameter, DerivedParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.generation_strategy.generation_strategy import GenerationStrategy
from refusals import refused

import mfbo_torch.ax
from mfbo_torch import MFGPUCB, Parameter
from mfbo_torch.ax import StrategyNode, best, multi_fidelity_client
from mfbo_torch.ax.codec import AxCodec
from mfbo_torch.ax.goal import goal
from mfbo_torch.ax.history import read
from mfbo_torch.history import Query
from mfbo_torch.strategies import RandomSearch

X = RangeParameter("x", ParameterType.FLOAT, lower=0.0, upper=2.0)
FIDELITY = RangeParameter("m", ParameterType.INT, lower=0, upper=2, is_fidelity=True, target_value=2)
COSTS = [1.0, 4.0, 16.0]


def fidelity(name="m", kind=ParameterType.INT, lower=0, upper=2, target=2):
    return RangeParameter(name, kind, lower=lower, upper=upper, is_fidelity=True, target_value=target)


def own_client(parameters, objective="loss", **optimization) -> Client:
    """A client as its user makes it, with a search space of the user's own."""
    client = Client()
    client.configure_experiment([RangeParameterConfig("unused", (0, 1), "float")])
    client._experiment._search_space = SearchSpace(parameters)
    client.configure_optimization(objective, **optimization)
    client.set_generation_strategy(GenerationStrategy(nodes=[StrategyNode(RandomSearch(), COSTS)]))
    return client


def test_every_kind_of_parameter_there_and_back():
    space = SearchSpace(
        [
            X,
            RangeParameter("k", ParameterType.INT, lower=1, upper=64, log_scale=True),
            ChoiceParameter("size", ParameterType.INT, [16, 32, 256], is_ordered=True),
            ChoiceParameter("grade", ParameterType.STRING, ["low", "mid", "high"], is_ordered=True, sort_values=False),
            ChoiceParameter("flag", ParameterType.BOOL, [False, True], is_ordered=True),
            FixedParameter("data", ParameterType.STRING, "digits"),
            FIDELITY,
        ]
    )
    codec = AxCodec(space, COSTS)
    assert [(p.name, p.lower, p.upper, p.log, p.integer) for p in codec.space.parameters] == [
        ("x", 0.0, 2.0, False, False),
        ("k", 1, 64, True, True),
        ("size", 0, 2, False, True),
        ("grade", 0, 2, False, True),
        ("flag", 0, 1, False, True),
    ]
    query = Query((0.3, 7.0, 2.0, 1.0, 1.0), 1)
    parameters = codec.decode(query.x, query.fidelity)
    assert parameters == {"x": 0.3, "k": 7, "size": 256, "grade": "mid", "flag": True, "data": "digits", "m": 1}
    assert [type(parameters[name]) for name in ("k", "size", "m")] == [int, int, int]
    space.check_membership(parameters, raise_error=True)
    assert Query(*codec.encode(parameters)) == query


@pytest.mark.parametrize(
    "wrong", [{"x": 2.5}, {"x": None}, {"x": "a"}, {"x": 1.5}, {"m": 3}, {"m": None}, {"size": 17}, {"data": "letters"}]
)
def test_arms_outside_the_search_space_are_no_queries(wrong):
    size = ChoiceParameter("size", ParameterType.INT, [16, 32, 64], is_ordered=True)
    data = FixedParameter("data", ParameterType.STRING, "digits")
    codec = AxCodec(SearchSpace([X, size, data, FIDELITY], [ParameterConstraint(inequality="x <= 1.25")]), COSTS)
    inside = {"x": 1.0, "size": 16, "data": "digits", "m": 2}
    assert codec.encode(inside) == ((1.0, 0.0), 2)
    assert codec.encode({**inside, **wrong}) is None
    assert codec.encode({**inside, "x": -1e-9}) == ((0.0, 0.0), 2)


def test_constraints():
    parameters = [
        X,
        RangeParameter("y", ParameterType.FLOAT, lower=-1.0, upper=1.0),
        ChoiceParameter("step", ParameterType.FLOAT, [0.0, 0.5, 1.0], is_ordered=True, log_scale=False),
        FIDELITY,
    ]
    texts = ["x + 2*y + step <= 0.75", "x >= 0.5"]
    space = SearchSpace(parameters, [ParameterConstraint(inequality=text) for text in texts])
    codec = AxCodec(space, COSTS)
    U = torch.rand(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    arms = [codec.decode(x, 0) for x in codec.space.from_unit(U).tolist()]
    expected = [space.check_membership(arm) for arm in arms]
    assert codec.space.allows(U).tolist() == expected
    assert 20 < sum(expected) < 180


UNORDERED = ChoiceParameter("m", ParameterType.INT, [0, 1, 2], is_fidelity=True, target_value=2, is_ordered=False)
TASK = ChoiceParameter("c", ParameterType.STRING, list("abc"), is_ordered=False, is_task=True, target_value="a")
LOGIT = RangeParameter("x", ParameterType.FLOAT, lower=0.1, upper=0.9, logit_scale=True)
DERIVED = DerivedParameter("y", ParameterType.FLOAT, expression_str="2 * x")


@pytest.mark.parametrize(
    ("parameters", "costs", "message"),
    [
        ([X], COSTS, r"fidelity parameters = \[\]: must be one integer range parameter"),
        ([X, fidelity(), fidelity("n")], COSTS, r"fidelity parameters = \['m', 'n'\]: must be one"),
        (
            [X, UNORDERED],
            COSTS,
            "m = 'ChoiceParameter of type int': must be a RangeParameter of type int, or an",
        ),
        ([X, fidelity(kind=ParameterType.FLOAT)], COSTS, "m = 'RangeParameter of type float'"),
        ([X, fidelity(lower=1)], COSTS, "m.lower = 1: must be 0"),
        ([X, fidelity(target=1)], COSTS, "m.target_value = 1: must be 2, the last fidelity"),
        ([X, FIDELITY], None, "costs = None: must be 3 numbers"),
        ([X, FIDELITY], [1.0, 2.0], r"costs = \[1.0, 2.0\]: must be 3 numbers"),
        ([X, FIDELITY], [4.0, 2.0, 1.0], "costs = .*: must be increasing"),
        ([TASK, FIDELITY], COSTS, "c = .*no task"),
        ([LOGIT, FIDELITY], COSTS, "x.logit_scale = True: must be False"),
        ([X, DERIVED, FIDELITY], COSTS, "y = 'DerivedParameter': must be a range, a choice or fixed"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_search_spaces_that_cannot_be(parameters, costs, message):
    refused(message, AxCodec, SearchSpace(parameters), costs)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (ParameterConstraint(equality="x == 1"), "must be inequalities"),
        (ParameterConstraint(inequality="x + m <= 1"), "other parameters than 'm'"),
        (ParameterConstraint(inequality="x + c <= 1"), "c in a constraint = .*evenly spaced"),
    ],
)
def test_constraints_that_cannot_be(constraint, message):
    choice = ChoiceParameter("c", ParameterType.INT, [1, 2, 8], is_ordered=True, log_scale=False)
    refused(message, AxCodec, SearchSpace([X, choice, FIDELITY], [constraint]), COSTS)


@pytest.mark.parametrize(
    ("parameters", "objective", "optimization", "message"),
    [
        ([X], "loss", {}, "fidelity parameters"),
        ([X, FIDELITY], "loss, 2*cost", {}, "objective = .*: must be one metric between two commas"),
        ([X, FIDELITY], "loss + cost", {}, "objective = .*: must be one metric"),
        ([X, FIDELITY], "loss", {"outcome_constraints": ["cost + time <= 1"]}, "outcome_constraints = .*on one metric"),
    ],
)
def test_experiments_of_ones_own_fail_before_the_first_trial(parameters, objective, optimization, message):
    client = own_client(parameters, objective, **optimization)
    refused(message, client.get_next_trials, 1)
    assert not client._experiment.trials
    refused("objective = None: must be configured", goal, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"costs": None}, "costs = None"),
        ({"costs": []}, r"costs = \[\]"),
        ({"costs": [2.0, 1.0]}, "increasing"),
        ({"objective": "loss, 2*cost"}, "objective"),
        ({"strategy": "MFGPUBC"}, "strategy = 'MFGPUBC': .*MFGPUCB"),
        ({"strategy": 3}, "strategy = 3: must be a strategy"),
        ({"parameters": [RangeParameterConfig("fidelity", (0, 2), "int")]}, "parameters = 'fidelity'"),
        ({"parameters": [DerivedParameterConfig("y", "2*x", "float"), RangeParameterConfig("x", (0, 1), "int")]}, "y"),
        ({"strategy": MFGPUCB(space=AxCodec(SearchSpace([X, FIDELITY]), COSTS).space)}, "strategy.space"),
        ({"parameters": [Parameter("x", 0.0, 1.0)]}, "parameters = .*must be each a RangeParameterConfig or Choice"),
        ({"objective": None}, "objective = None: must be the name of a metric"),
        ({"objective": "0*loss"}, "objective = '0.loss': must be one metric"),
        ({"storage_config": StorageConfig(url="sqlite://")}, "name = None: must be given, to store"),
    ],
)
def test_clients_that_cannot_be(changes, message):
    settings = {"parameters": [RangeParameterConfig("x", (0, 1), "float")], "costs": [1.0, 4.0], "objective": "loss"}
    refused(message, multi_fidelity_client, **{**settings, **changes})


@pytest.mark.parametrize("costs", [np.array([1.0, 4.0]), torch.tensor([1, 4]), [3.0]])
def test_costs_as_an_array_and_of_one_fidelity(costs):
    client = multi_fidelity_client([RangeParameterConfig("x", (0, 1), "float")], costs, "loss", RandomSearch())
    assert best.node_of(client._generation_strategy).costs == [float(cost) for cost in costs]
    assert client.get_next_trials(1)[0]["fidelity"] in range(len(costs))


def test_named_fidelities(tmp_path):
    """Trials have the value, the strategy sees the number, and both survive storage."""
    x = RangeParameterConfig("x", (0, 1), "float")
    for values in ([3, 9, 27], [0.1, 1.0], ["coarse", "fine"]):
        costs = None if values != ["coarse", "fine"] else [1, 4]
        client = multi_fidelity_client([x], costs, "loss", MFGPUCB(), fidelities={"of": values})
        client.attach_trial({"x": 0.5, "of": values[1]})
        client.save_to_json_file(str(tmp_path / "a.json"))
        client = Client.load_from_json_file(str(tmp_path / "a.json"))
        (parameters,) = client.get_next_trials(1).values()
        assert repr(parameters["of"]) == repr(values[0])
        strategy, codec = best.node_of(client._generation_strategy).bound(client._experiment)
        assert strategy.space.fidelities == ("of", tuple(values))
        assert [r.query.fidelity for r in read(client._experiment, codec).history] == [1, 0]
    for given, message in (
        ({"x": [1, 2]}, "fidelities = 'x': must be another name"),
        ({"of": [2, 1]}, "fidelities.of = .*increase"),
        ({"of": [1, "two"]}, "fidelities.of = .*positive numbers that increase"),
    ):
        refused(message, multi_fidelity_client, [x], objective="loss", fidelities=given)
    said = "fidelities.of = .*numbers that increase, or texts, in Ax"
    refused(said, multi_fidelity_client, [x], [1, 2], "loss", fidelities={"of": [2, 1]})


def test_fixed_parameters_are_refused():
    configs = [RangeParameterConfig("x", (0, 1), "float"), ChoiceParameterConfig("data", ["digits"], "str")]
    client = multi_fidelity_client(configs, [1.0, 4.0], "loss", RandomSearch())
    assert client.get_next_trials(1)[0]["data"] == "digits"
    said = "fixed_parameters = {'fidelity': 1}: must be none"
    refused(said, client.get_next_trials, 1, fixed_parameters={"fidelity": 1})


def test_without_ax_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ax", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install mfbo-torch\[ax\]"):
        importlib.reload(mfbo_torch.ax)
