"""Strategies as what Ax stores of them."""

import json

import pytest
import torch
from ax.core.experiment_status import ExperimentStatus
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.transition_criterion import MinTrials
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from refusals import refused
from strategy_table import ROWS

from mfbo_torch import MFGPUCB, Parameter
from mfbo_torch.app import builder
from mfbo_torch.app.builder import strategy_from_settings, strategy_to_settings
from mfbo_torch.ax import StrategyNode, trust
from mfbo_torch.strategies import RandomSearch


class Knowing(RandomSearch):
    """A strategy with settings of every kind that can be stored."""

    def __init__(self, known, *, width=1.0, **settings):
        super().__init__(**settings)
        self.known, self.width = known, width


def stored(node: StrategyNode) -> StrategyNode:
    return object_from_json(json.loads(json.dumps(object_to_json(node))))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_every_strategy_there_and_back(row):
    strategy = row.make(3).bind(row.adapt(row.space), 7.0)
    again = stored(StrategyNode(strategy, [1.0, 4.0])).strategy
    assert type(again) is type(strategy)
    assert (again.seed, again.capital, again.own_space) == (3, 7.0, strategy.own_space)
    kept = {k: v for k, v in strategy.settings.items() if k not in ("space", "capital") and v is not None}
    assert {k: v for k, v in again.settings.items() if k in kept} == kept


def test_values_of_every_kind():
    known = {
        "tensor": torch.eye(2, dtype=torch.double),
        "pair": (1, 2.5),
        "words": ["a", None, True],
        "parameter": Parameter("x", 0.0, 1.0, log=False),
        "strategy": MFGPUCB(link="independent"),
    }
    again = stored(StrategyNode(Knowing(known, seed=2), [1.0, 2.0])).strategy
    assert again.seed == 2
    assert torch.equal(again.known["tensor"], known["tensor"])
    assert again.known["pair"] == [1, 2.5]
    assert again.known["words"] == known["words"]
    assert again.known["parameter"] == known["parameter"]
    assert again.known["strategy"].link == "independent"


def test_the_rest_of_a_node_is_kept():
    criterion = MinTrials(threshold=3, transition_to="next", only_in_statuses=[TrialStatus.COMPLETED])
    again = stored(StrategyNode(RandomSearch(), (1.0, 2.0), "first", ExperimentStatus.INITIALIZATION, [criterion]))
    assert (again.name, again.costs) == ("first", [1.0, 2.0])
    assert again.suggested_experiment_status == ExperimentStatus.INITIALIZATION
    assert again.transition_criteria == [criterion]


@pytest.mark.parametrize("value", [lambda x: x, object(), {1: 2}, {3}])
def test_what_cannot_be_stored_is_refused_at_once(value):
    refused(r"Knowing\.known", StrategyNode, Knowing(value), [1.0, 2.0])


def test_a_class_that_cannot_be_found_again_is_refused():
    class Local(RandomSearch):
        pass

    refused("at the top of a module", strategy_to_settings, Local())


USER = {"objective": "evilmod:f", "parameters": {"x": {"lower": 0, "upper": 1}}, "costs": [1.0]}


@pytest.mark.parametrize(
    "stored",
    [
        {"class_path": "mfbo_torch.problems.user.function.UserProblem", "init_args": USER},
        {"class_path": "mfbo_torch.history.storage.journal.Journal", "init_args": {"path": "made.sqlite"}},
        {"function": "evilmod:f"},
        {"function": "pickle:_loads"},
        {"function": "mfbo_torch.problems.user.function:import_function"},
        {"function": ["a list"]},
        {"class_path": 3, "init_args": {}},
    ],
)
def test_nothing_is_imported_or_called_because_a_file_names_it(stored, tmp_path, monkeypatch):
    (tmp_path / "evilmod.py").write_text("raise SystemExit('imported')\ndef f(*_): ...")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    outer = {"class_path": "mfbo_torch.strategies.multi.mf_gp_ucb.MFGPUCB", "init_args": {"prior": stored}}
    for given in (stored, outer):
        refused(r"(class_path|function) = ", strategy_from_settings, given)
    assert not (tmp_path / "made.sqlite").exists()


def known(x):
    return x


def test_a_function_has_to_be_named_before_a_file_may_call_it(monkeypatch):
    monkeypatch.setattr(builder, "_TRUSTED", {})
    stored = {"class_path": f"{__name__}.Knowing", "init_args": {"known": {"function": f"{__name__}:known"}}}
    refused(r"named before loading, as in trust\(policy\)", strategy_from_settings, stored)
    trust(known)
    assert strategy_from_settings(stored).known is known
    refused("functions = ", trust, "known")


def test_a_class_that_is_no_strategy():
    made = {"class_path": "mfbo_torch.space.Parameter", "init_args": {"name": "x", "lower": 0.0, "upper": 1.0}}
    refused("must be a strategy", strategy_from_settings, made)
