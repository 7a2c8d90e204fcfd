"""Studies with several directions."""

import pytest

optuna = pytest.importorskip("optuna", reason="needs the extra mfbo-torch[optuna]")
from mfbo_torch.optuna import Sampler  # noqa: E402


def objective(trial):
    x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
    epochs = trial.suggest_int("epochs", 1, 4)
    return (x - 0.2) ** 2 + y + 0.1 / epochs, 1 - (x - 0.8) ** 2 - y - 0.1 / epochs


def test_two_directions():
    def studied():
        sampler = Sampler("epochs", costs={1: 1.0, 4: 4.0}, seed=0)
        study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
        study.optimize(objective, n_trials=11)
        return study, sampler

    study, sampler = studied()
    best = sampler.best_trials(study)
    target = [trial for trial in study.trials if trial.params["epochs"] == 4]
    assert best
    for trial in target:
        a, b = trial.values
        dominated = any(c <= a and d >= b and (c, d) != (a, b) for c, d in (other.values for other in target))
        assert (trial.number in {one.number for one in best}) == (not dominated)
    with pytest.raises(ValueError, match="best_trials"):
        sampler.best_trial(study)
    assert [trial.params for trial in studied()[0].trials] == [trial.params for trial in study.trials]


def test_a_trial_with_an_infinite_value_has_failed_and_the_study_goes_on():
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=Sampler(seed=0))

    def sometimes(trial):
        x = trial.suggest_float("x", 0.0, 1.0)
        return (float("inf") if trial.number in (1, 2) else x), 1 - x

    study.optimize(sometimes, n_trials=6)
    assert len(study.trials) == 6


def test_metric_names_that_are_no_objectives():
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=Sampler(seed=0))
    study.set_metric_names(["loss", "value"])
    study.optimize(lambda trial: (trial.suggest_float("x", 0.0, 1.0), 1.0 - trial.params["x"]), n_trials=3)
    assert len(study.trials) == 3
