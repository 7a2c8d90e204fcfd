"""The pruner of Optuna: who goes on, in studies of every kind."""

import math

import optuna
import pytest

from mfbo_torch import SettingError
from mfbo_torch.optuna import Pruner


def study(**settings):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), pruner=Pruner(9), **settings)


def sprinters_lose(rate: float, epoch: int) -> float:
    """High rates are ahead at first and overfit."""
    return math.exp(-epoch * (0.1 + 2 * rate)) + 0.1 * rate * epoch


def trained(trial, first=1, sign=1.0):
    rate = trial.suggest_float("rate", 0.0, 1.0)
    for epoch in range(1, 10):
        trial.report(sign * sprinters_lose(rate, epoch), epoch - 1 + first)
        if trial.should_prune():
            raise optuna.TrialPruned
    return sign * sprinters_lose(rate, 9)


@pytest.mark.parametrize(("first", "direction", "sign"), [(0, "minimize", 1.0), (1, "maximize", -1.0)])
def test_what_will_be_best_goes_on(first, direction, sign):
    found = study(direction=direction)
    found.optimize(lambda trial: trained(trial, first, sign), n_trials=18)
    ended = [t.params["rate"] for t in found.trials if t.state == optuna.trial.TrialState.COMPLETE]
    rates = sorted((t.params["rate"] for t in found.trials), key=lambda rate: sprinters_lose(rate, 9))
    assert rates[0] in ended
    assert len(ended) <= 8
    halved = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=0),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3),
    )
    halved.optimize(trained, n_trials=18)
    assert min(sprinters_lose(rate, 9) for rate in ended) <= halved.best_value


def test_values_that_are_not_finite_end_a_trial():
    found = study()
    found.enqueue_trial({"rate": 0.1})
    found.optimize(trained, n_trials=2)

    def broken(trial):
        trial.suggest_float("rate", 0.0, 1.0)
        trial.report(math.nan, 1)
        assert trial.should_prune()
        raise optuna.TrialPruned

    found.optimize(broken, n_trials=1)
    found.optimize(trained, n_trials=4)
    assert found.trials[2].state == optuna.trial.TrialState.PRUNED


def test_without_parameters_present_values_are_compared():
    found = study()

    def plain(trial):
        for epoch in range(1, 10):
            trial.report(float(trial.number), epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return float(trial.number)

    found.optimize(plain, n_trials=6)
    assert [t.state.name for t in found.trials] == ["COMPLETE"] + ["PRUNED"] * 5
    assert all(len(t.intermediate_values) == 1 for t in found.trials[1:])


def test_mixed_and_conditional_parameters():
    found = study()

    def mixed(trial):
        rate = trial.suggest_float("rate", 1e-3, 1.0, log=True)
        kind = trial.suggest_categorical("kind", ["a", "b"])
        width = trial.suggest_int("width", 4, 64) if kind == "b" else 8
        for epoch in range(1, 10):
            value = sprinters_lose(rate, epoch) + 0.001 * width
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    found.optimize(mixed, n_trials=10)
    states = [t.state.name for t in found.trials]
    assert states.count("COMPLETE") >= 1
    assert states.count("PRUNED") >= 3


def test_asks_at_few_epochs_and_leaves_the_generators_alone():
    import torch

    found, asked = study(), []

    def counted(trial):
        rate = trial.suggest_float("rate", 0.0, 1.0)
        for epoch in range(1, 10):
            trial.report(sprinters_lose(rate, epoch), epoch)
            before = torch.get_rng_state()
            asked.append((epoch, trial.should_prune()))
            assert torch.equal(before, torch.get_rng_state())
            if asked[-1][1]:
                raise optuna.TrialPruned
        return 0.0

    found.optimize(counted, n_trials=6)
    assert {epoch for epoch, pruned in asked if pruned} <= {1, 3}


@pytest.mark.parametrize("epochs", [0, 2.5, "many"])
def test_epochs_are_a_whole_number(epochs):
    with pytest.raises(SettingError, match="epochs"):
        Pruner(epochs)
