"""Constraints of Optuna's trials are limits of the search."""

import warnings

import pytest

optuna = pytest.importorskip("optuna")

from mfbo_torch.optuna import Sampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)


def shown(trial):
    """The smaller x the worse; above a half it breaks the constraint."""
    x = trial.suggest_float("x", 0, 1)
    trial.set_constraint("c", x - 0.5)
    return -x


def test_the_search_keeps_constraints():
    study = optuna.create_study(sampler=Sampler(seed=1))
    study.optimize(shown, n_trials=14)
    assert -0.5 <= study.best_value < -0.49
    assert all(trial.params["x"] < 0.51 for trial in study.trials[-3:])


def test_the_best_trials_keep_their_constraints():
    study = optuna.create_study(sampler=Sampler("e", {9: 1.0}, "RandomSearch"))
    for x in (0.4, 0.9):
        study.enqueue_trial({"x": x, "e": 9})
    study.optimize(lambda trial: trial.suggest_int("e", 1, 9) * 0 + shown(trial), n_trials=2)
    assert study.sampler.best_trial(study).params["x"] == 0.4
    several = optuna.create_study(sampler=Sampler("e", {9: 1.0}, "RandomSearch"), directions=["minimize"] * 2)
    for x in (0.4, 0.9):
        several.enqueue_trial({"x": x, "e": 9})
    several.optimize(lambda trial: (trial.suggest_int("e", 1, 9), shown(trial)), n_trials=2)
    assert [trial.params["x"] for trial in several.sampler.best_trials(several)] == [0.4]


def test_a_study_in_which_no_trial_keeps_its_constraints_goes_on():
    def never(trial):
        trial.set_constraint("c", 1.0)
        return trial.suggest_float("x", 0, 1) + trial.suggest_int("e", 1, 9)

    study = optuna.create_study(sampler=Sampler("e", {9: 1.0}))
    study.optimize(never, n_trials=3)
    with pytest.raises(ValueError, match="keeps its constraints"):
        study.sampler.best_trial(study)


def test_a_constraint_that_not_every_trial_has_is_said():
    def sometimes(trial):
        return shown(trial) if trial.number else trial.suggest_float("x", 0, 1)

    study = optuna.create_study(sampler=Sampler(seed=1))
    with pytest.warns(UserWarning, match="constraint 'c' is not heeded"):
        study.optimize(sometimes, n_trials=4)


def test_pruned_trials_without_their_constraints_are_left_out():
    def training(trial):
        x = trial.suggest_float("x", 0, 1)
        trial.report(x, 0)
        if trial.number % 2:
            raise optuna.TrialPruned
        trial.set_constraint("c", x - 0.5)
        return x

    study = optuna.create_study(sampler=Sampler(seed=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.optimize(training, n_trials=6)
    assert len(study.trials) == 6


def test_the_range_of_the_fidelity_may_grow():
    study = optuna.create_study(sampler=Sampler("e", strategy="RandomSearch"))
    for highest in (9, 27):
        study.optimize(lambda t, e=highest: t.suggest_float("x", 0, 1) + t.suggest_int("e", 1, e), n_trials=3)
    assert all(trial.state == optuna.trial.TrialState.COMPLETE for trial in study.trials)


def test_pruned_trials_alone_show_the_search_space():
    def training(trial):
        trial.report(trial.suggest_float("x", 0, 1), 0)
        trial.suggest_int("e", 1, 9)
        raise optuna.TrialPruned

    study = optuna.create_study(sampler=Sampler("e"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.optimize(training, n_trials=10)
    assert {trial.params["e"] for trial in study.trials} > {1}
