"""Ray Tune with the searcher; the search itself needs no cluster."""

import os
import sys

import numpy as np
import pytest
from installed import installed
from refusals import refused

if not installed("ray", "pyarrow"):
    pytest.skip("ray is not installed: pip install 'mfbo-torch[ray]'", allow_module_level=True)

from ray import tune

from mfbo_torch.history import Status
from mfbo_torch.ray import Searcher
from mfbo_torch.strategies import RandomSearch

SPACE = {
    "rate": tune.loguniform(1e-4, 1e-1),
    "model": {"width": tune.randint(4, 65), "kind": tune.choice(["linear", "tree"])},
    "step": tune.quniform(0.0, 1.0, 0.25),
    "epochs": tune.choice([27, 3, 9]),
}


def began(**settings):
    searcher = Searcher(fidelity="epochs", metric="loss", mode="min", **settings)
    assert searcher.set_search_properties(None, None, SPACE, num_samples=10)
    return searcher


def loss(config):
    return (config["rate"] - 0.01) ** 2 + abs(config["model"]["width"] - 30) / 64 + config["step"] / config["epochs"]


def search(searcher, trials, begin=0):
    found = []
    for i in range(begin, begin + trials):
        config = searcher.suggest(str(i))
        if config == Searcher.FINISHED:
            break
        found.append(config)
        searcher.on_trial_complete(str(i), {"loss": loss(config)})
    return found


def test_trials_are_in_the_space_and_values_arrive():
    searcher = began(capital=60.0)
    found = search(searcher, 40)
    assert 3 <= len(found) < 40
    assert sum(config["epochs"] for config in found) <= 60
    for config in found:
        assert 1e-4 <= config["rate"] <= 1e-1
        assert config["model"]["width"] in range(4, 65)
        assert config["model"]["kind"] in ("linear", "tree")
        assert config["step"] in (0.0, 0.25, 0.5, 0.75, 1.0)
        assert config["epochs"] in (3, 9, 27)
    assert [record.value for record in searcher.history] == [-loss(config) for config in found]


def test_a_choice_of_one_value_never_changes():
    searcher = Searcher(metric="loss", mode="min")
    space = {"model": {"kind": tune.choice(["tree"]), "width": tune.uniform(0, 1)}}
    assert searcher.set_search_properties(None, None, space, num_samples=3)
    assert searcher.suggest("0")["model"]["kind"] == "tree"


def test_a_trial_that_waits_for_values_is_no_end():
    searcher = began(capital=6 * 27.0)
    begun = []
    while (config := searcher.suggest(str(len(begun)))) is not None:
        assert config != Searcher.FINISHED
        begun.append(config)
    waiting = searcher.history
    assert waiting.spent - waiting.settled <= 6 * 27.0 - waiting.spent + 27.0
    assert searcher.suggest("next") is None
    assert searcher.history is waiting
    for i, config in enumerate(begun):
        searcher.on_trial_complete(str(i), {"loss": loss(config)})
    assert isinstance(searcher.suggest("next"), dict)


def test_a_strategy_by_its_name_is_the_one_with_that_seed():
    assert search(began(strategy="RandomSearch", seed=3), 4) == search(began(strategy=RandomSearch(seed=3)), 4)
    refused("^strategy = 'RandomSerch': .*did you mean RandomSearch", began, strategy="RandomSerch")


def test_a_search_that_is_saved_goes_on_as_if_it_had_not_been(tmp_path):
    whole = search(began(capital=80.0), 8)
    first = began(capital=80.0)
    search(first, 4)
    first.save(str(tmp_path / "kept"))
    second = Searcher(fidelity="epochs", capital=80.0)
    second.restore(str(tmp_path / "kept"))
    assert search(second, 4, begin=4) == whole[4:]


def test_trials_that_fail_or_report_nothing_are_failures():
    """A metric that is no number is a failure of its trial, and not of the search."""
    searcher = began(strategy=RandomSearch())
    ends = [{}, {"accuracy": 1.0}, *({"loss": value} for value in ("low", [1.0, 2.0], {"a": 1}, float("nan"), 10**400))]
    for i, end in enumerate(ends):
        searcher.suggest(str(i))
        searcher.on_trial_complete(str(i), end, error=not end)
        searcher.on_trial_complete(str(i), {"loss": 0.5})  # once more, of a trial that has ended
    searcher.on_trial_complete("nobody", {"loss": 0.5})
    assert [record.status for record in searcher.history] == [Status.FAILED] * len(ends)


@pytest.mark.parametrize("reports", [False, True])
def test_a_trial_that_was_in_flight_is_waited_for_once_it_reports(reports, tmp_path):
    """Tune gives trials up when it is restored with ``resume_unfinished=False``, and tells nobody."""
    first = began(capital=100.0, strategy="RandomSearch")
    assert isinstance(first.suggest("0"), dict)
    first.save(str(tmp_path / "kept"))
    second = Searcher(fidelity="epochs", capital=100.0)
    second.restore(str(tmp_path / "kept"))
    if reports:
        second.on_trial_result("0", {"loss": 1.0})
    begun = 1
    while isinstance(config := second.suggest(str(begun)), dict):
        second.on_trial_complete(str(begun), {"loss": loss(config)})
        begun += 1
    assert config == (None if reports else Searcher.FINISHED)
    second.on_trial_complete("0", {"loss": 1.0})
    assert len(second.history.done) == begun


@pytest.mark.parametrize(
    ("metric", "mode", "said"), [(None, "min", "^metric = None"), (["a"], ["max"], "^metric = "), ("a", None, "^mode")]
)
def test_what_is_optimised_is_to_be_said(metric, mode, said):
    refused(said, Searcher(fidelity="epochs").set_search_properties, metric, mode, SPACE)


def test_fidelities_of_numpy_are_their_costs():
    searcher = Searcher(fidelity="epochs", metric="loss", mode="min", strategy="RandomSearch")
    space = {"rate": tune.uniform(0, 1), "epochs": tune.choice([*np.array([9, 3])])}
    assert searcher.set_search_properties(None, None, space, num_samples=3)
    assert searcher.suggest("0")["epochs"] == 9


@pytest.mark.parametrize(
    ("settings", "config", "said"),
    [
        *(({"capital": capital}, SPACE, "^capital = ") for capital in (0, -1, 2.0, "9", float("nan"))),
        (
            {"fidelity": None},
            {"rate": tune.uniform(0, 1), "model": tune.choice([{"width": tune.randint(1, 9)}, {}])},
            "^model = 'a choice': must be of values alone",
        ),
        ({"fidelity": "epoch"}, SPACE, "^fidelity = 'epoch': must be a parameter with tune.choice"),
        ({"costs": {3: 1.0}}, SPACE, "^costs = .*: must be a positive number for each value of epochs"),
        ({}, {"rate": tune.grid_search([1, 2])}, "^rate = 'grid_search': must be tune.choice"),
        (
            {"fidelity": None},
            {"a/b": tune.uniform(0, 1), "a": {"b": tune.uniform(2, 3)}},
            "^param_space = 'a/b': must be",
        ),
        ({}, {"a": {"": tune.uniform(0, 1)}}, "^param_space = '': must be names of text"),
        (
            {},
            {"rate": tune.uniform(0, 1), "epochs": tune.choice([[1], [2]])},
            "^fidelity = 'epochs': must be a parameter",
        ),
        ({"fidelity": None}, {"rate": tune.randn(0, 1)}, "^rate = 'randn': must be a uniform"),
        ({"fidelity": None}, {"rate": 1.0}, "^param_space = .*: must be with something to search"),
    ],
)
def test_what_cannot_be_searched(settings, config, said):
    searcher = Searcher(**{"fidelity": "epochs", **settings}, metric="loss", mode="min")
    refused(said, searcher.set_search_properties, None, None, config)


@pytest.mark.slow
def test_a_tuner_uses_it(tmp_path):
    ray = pytest.importorskip("ray")
    here = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}  # workers find this module
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=here)
    try:
        how = tune.TuneConfig(metric="loss", mode="min", num_samples=6, max_concurrent_trials=2)
        how.search_alg = searcher = Searcher(fidelity="epochs")
        run = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
        trial = lambda config: tune.report({"loss": loss(config)})  # noqa: E731
        results = tune.Tuner(trial, param_space=SPACE, tune_config=how, run_config=run).fit()
    finally:
        ray.shutdown()
    assert len(results) == 6
    best = results.get_best_result()
    assert best.metrics["loss"] == min(loss(result.config) for result in results)
    assert len(searcher.history.done) == 6


def test_steps_are_tried_once_each_and_lie_in_their_range():
    space = {"a": tune.quniform(0.0, 1.0, 0.25), "b": tune.qrandint(5, 34, 10), "c": tune.qlograndint(1, 1000, 10)}
    searcher = Searcher(metric="loss", mode="min")
    assert searcher.set_search_properties(None, None, space, num_samples=12)
    found = []
    for i in range(12):
        found.append(searcher.suggest(str(i)))
        searcher.on_trial_complete(str(i), {"loss": found[-1]["a"] + found[-1]["b"] / 10 + found[-1]["c"] / 1000})
    assert len({tuple(each.values()) for each in found}) == 12
    assert {each["a"] for each in found} <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert {each["b"] for each in found} <= {10, 20, 30}
    assert all(10 <= each["c"] <= 1000 and each["c"] % 10 == 0 for each in found)


@pytest.mark.parametrize("samples", [-1, sys.maxsize])  # what Tune makes of -1
def test_samples_without_end_are_a_hundred_to_plan_for(samples):
    planned = []

    class Planned(RandomSearch):
        def bind(self, space, capital=None):
            planned.append(capital)
            return super().bind(space, capital)

    searcher = Searcher(fidelity="epochs", metric="loss", mode="min", strategy=Planned())
    assert searcher.set_search_properties(None, None, SPACE, num_samples=samples)
    assert planned == [2700.0]
