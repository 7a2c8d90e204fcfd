"""Trainings whose every epoch is observed: they pause, go on, stop early, break and are killed."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from mfbo_torch import Journal, Optimizer, Parameter, SettingError, Space, maximize, minimize
from mfbo_torch.history import History, Query, Status
from mfbo_torch.history.observation import LARGEST
from mfbo_torch.loop.early_failures import Hopeless
from mfbo_torch.loop.evaluation import Evaluation
from mfbo_torch.loop.trial_folders import Trials
from mfbo_torch.problems.trial import Span, Trial
from mfbo_torch.problems.user.function import FunctionProblem
from mfbo_torch.strategies import FreezeThaw, RandomSearch

SPACE = Space([Parameter("rate", 0.0, 1.0)], epochs=27)


def loss(rate: float, epoch: int) -> float:
    return 0.01 + (rate - 0.3) ** 2 + math.exp(-epoch / (1 + 9 * rate))


class Training:
    """Counts the epochs of each folder; keeps a checkpoint or not."""

    def __init__(self, checkpoints: bool) -> None:
        self.checkpoints, self.trained = checkpoints, []

    def __call__(self, parameters, trial):
        state = trial.folder / "state.json"
        done = json.loads(state.read_text()) if state.exists() else 0
        for epoch in trial.epochs():
            assert not self.checkpoints or epoch == done + 1
            done = epoch
            self.trained.append((trial.folder.name, epoch))
            if self.checkpoints:
                state.write_text(json.dumps(done))
            trial.report(loss(parameters["rate"], epoch))


@pytest.mark.parametrize("returned", [77.0, "model", {"accuracy": 0.9}])
@pytest.mark.parametrize("checkpoints", [True, False])
def test_what_a_training_has_reported_counts_and_not_what_it_returns(checkpoints, returned):
    told = Training(checkpoints)

    def training(parameters, trial):
        told(parameters, trial)
        return returned

    result = minimize(training, SPACE, 81)
    for curve in result.curves:
        assert curve.values == tuple(loss(curve.x[0], step) for step in curve.steps)
    assert result.fun == min(curve.values[-1] for curve in result.curves if curve.steps[-1] == 27)


@pytest.mark.parametrize("checkpoints", [True, False])
def test_no_epoch_is_trained_twice_and_each_is_observed(checkpoints):
    training = Training(checkpoints)
    result = minimize(training, SPACE, 108)
    assert len(training.trained) == len({*training.trained}) == result.spent <= 108
    assert result.success
    assert result.fun == loss(result.parameters["rate"], 27)
    observed = [(rate, step, value) for c in result.curves for rate in c.x for step, value in c]
    assert len(observed) == len(training.trained)
    assert all(value == loss(rate, step) for rate, step, value in observed)
    assert {c.steps for c in result.curves} <= {tuple(map(float, range(1, n + 1))) for n in (1, 3, 9, 27)}


def test_waiting_in_a_thread_and_a_checkpoint_are_the_same_run():
    runs = [minimize(Training(checkpoints), SPACE, 81, seed=3).history for checkpoints in (True, False)]
    told = [[(r.query, r.value, r.cost, r.curve) for r in history] for history in runs]
    assert told[0] == told[1]


def test_without_going_on_each_query_begins_anew_and_is_charged():
    training = Training(False)
    space = Space([Parameter("rate", 0.0, 1.0)], epochs=9, continues=False)
    result = minimize(training, space, 60)
    assert len(training.trained) == result.spent
    assert sum(epoch == 1 for _, epoch in training.trained) == result.nfev


def test_the_journal_keeps_curves_of_all_ends(tmp_path):
    """Done, stopped by the loop that was left, and broken: values are those at the end alone."""

    def training(parameters, trial):
        for epoch in trial.epochs():
            trial.report(loss(parameters["rate"], epoch))
            if parameters["rate"] > 0.6 and epoch == 2:
                break
            if parameters["rate"] < 0.2 and epoch == 5:
                raise RuntimeError("diverged")

    with Journal(tmp_path / "a.sqlite") as journal:
        result = minimize(training, SPACE, 324, journal=journal, strategy=RandomSearch())
    with Journal(tmp_path / "a.sqlite", read_only=True) as journal:
        history = journal.history()
    assert [*history] == [*result.history]
    ends = {Status.DONE: (27, 27), Status.STOPPED: (2, 2), Status.FAILED: (5, 5)}
    for record in history:
        length, cost = ends[record.status]
        assert (len(record.curve), record.cost) == (length, cost)
        assert (record.value is None) == (record.status != Status.DONE)
    assert {r.status for r in history} == {*ends}
    assert "stopped" in repr(history)


@pytest.mark.parametrize("end", ["leave", "should_stop", "raise"])
def test_an_early_end_changes_nothing_but_its_curve(end):
    """Whatever the training after its second epoch does, the others and the best stay what they are."""

    numbers = []

    def training(parameters, trial):
        for epoch in trial.epochs():
            trial.report(loss(parameters["rate"], epoch))
            if epoch == 2 and not numbers:
                numbers.append(trial.number)
                if end == "raise":
                    raise RuntimeError("a test")
                if end == "leave":
                    return loss(parameters["rate"], epoch)
                trial.stopped = 2.0
                return loss(parameters["rate"], epoch)
        return loss(parameters["rate"], trial.span.end)

    result = minimize(training, SPACE, 108)
    odd = result.history.records[numbers[0]]
    assert (odd.value, len(odd.curve), odd.cost) == (None, 1, 1.0)
    for record in result.history:
        if record.id != odd.id:
            epochs = SPACE.fidelity_value(record.query.fidelity)["epochs"]
            assert record.value == -loss(record.query.x[0], epochs)
    assert odd.query.x not in [r.query.x for r in result.history.records[odd.id + 1 :]]


def test_told_curves():
    optimizer = Optimizer(FreezeThaw(), problem=type("P", (), {"space": SPACE}))
    first, second, third = (optimizer.ask()[0] for _ in range(3))
    done = optimizer.tell(first.id, -0.5, curve={1: -0.5})
    assert (done.value, done.curve, done.status) == (-0.5, ((1.0, -0.5),), Status.DONE)
    assert optimizer.tell(second.id, None, curve=[(1, -0.4)]).value == -0.4
    with pytest.raises(SettingError, match="curve"):
        optimizer.tell(third.id, None, curve=[(1, math.nan)])
    with pytest.raises(SettingError, match="value"):
        optimizer.tell(third.id, None)
    query = optimizer.enqueue({"rate": 0.5}, fidelity={"epochs": 27})
    stopped = optimizer.tell(query.id, None, curve={2: -0.4, 1: -0.5})
    assert (stopped.status, stopped.cost, stopped.curve) == (Status.STOPPED, 2.0, ((1.0, -0.5), (2.0, -0.4)))


def test_objectives_that_report_are_seen_in_their_own_sign():
    def training(rate, trial):
        for epoch in trial.epochs():
            trial.report(1 - loss(rate, epoch))

    result = maximize(training, SPACE, 81)
    assert result.curves[0].values[0] == 1 - loss(result.curves[0].x[0], 1)
    assert result.fun == max(c.values[-1] for c in result.curves if len(c) == 27)


def test_what_is_refused():
    with pytest.raises(SettingError, match="epochs"):
        Space([Parameter("rate", 0.0, 1.0)], epochs=0)
    with pytest.raises(SettingError, match="fidelities"):
        Space([Parameter("rate", 0.0, 1.0)], epochs=9, fidelities={"epochs": [2, 9]})
    with pytest.raises(SettingError, match="trial"):
        minimize(lambda parameters: 1.0, SPACE, 27)
    assert [Space([Parameter("rate", 0.0, 1.0)], epochs=n).costs for n in (1, 2, 9, 100)] == [
        *((1,), (2,), (1, 3, 9), (1, 4, 11, 33, 100)),
    ]


SCRIPT = """
    import json, os, pathlib, signal, sys
    from mfbo_torch import Journal, Parameter, Space, minimize

    def training(parameters, trial):
        state = trial.folder / "state.json"
        done = json.loads(state.read_text()) if state.exists() else 0
        for epoch in trial.epochs():
            with open("trained.txt", "a") as log:
                log.write(f"{trial.folder.name} {epoch}\\n")
            if len(open("trained.txt").readlines()) == int(sys.argv[1]):
                os.kill(os.getpid(), signal.SIGKILL)
            state.write_text(json.dumps(epoch))
            trial.report((parameters["rate"] - 0.3) ** 2 + 1 / epoch)

    if __name__ == "__main__":
        with Journal("a.sqlite") as journal:
            print(minimize(training, Space([Parameter("rate", 0.0, 1.0)], epochs=9), 54, journal=journal).spent)
"""


def test_after_a_kill_only_the_epoch_that_was_killed_is_trained_again(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    run = [sys.executable, "script.py"]
    killed = [subprocess.run([*run, str(n)], cwd=tmp_path, capture_output=True).returncode for n in (14, 30)]
    assert killed == [-signal.SIGKILL] * 2
    ended = subprocess.run([*run, "0"], cwd=tmp_path, capture_output=True, text=True)
    trained = (tmp_path / "trained.txt").read_text().splitlines()
    assert ended.returncode == 0, ended.stderr
    assert len(trained) - len({*trained}) == 2
    assert float(ended.stdout.split()[-1]) == len({*trained})
    assert os.listdir(tmp_path / "a.trials")


def test_a_training_left_before_its_first_value_is_charged_for_that_epoch():
    def training(parameters, trial):
        for epoch in trial.epochs():
            if parameters["rate"] > 0.5:
                return
            trial.report(loss(parameters["rate"], epoch))

    result = minimize(training, SPACE, 40)
    stopped = [record for record in result.history if record.status == Status.STOPPED]
    assert {(record.cost, record.curve) for record in stopped} == {(1.0, ())}
    assert result.spent <= 40


def test_a_training_that_breaks_before_its_loop_is_charged_for_an_epoch():
    def training(parameters, trial):
        if parameters["rate"] > 0.5:
            raise OSError("no checkpoint")
        for epoch in trial.epochs():
            trial.report(loss(parameters["rate"], epoch))

    result = minimize(training, SPACE, 40)
    assert {record.cost for record in result.history if record.status == Status.FAILED} == {1.0}


def test_where_trainings_do_not_continue_each_has_a_folder_of_its_own():
    training = Training(checkpoints=True)
    result = minimize(training, Space(SPACE.parameters, epochs=9, continues=False), 36)
    assert len({folder for folder, _ in training.trained}) == result.nfev
    assert len(training.trained) == result.spent


def test_a_step_that_is_no_epoch_is_refused():
    def training(parameters, trial):
        for epoch in trial.epochs():
            trial.report(loss(parameters["rate"], epoch), epoch)  # as in Optuna

    with pytest.raises(Hopeless, match="must be an epoch, 1 to 1, as in report"):
        minimize(training, SPACE, 40)


def test_an_objective_without_a_trial_is_named():
    def nothing(parameters, fidelity=0):
        return 0.0

    with pytest.raises(SettingError, match="objective = 'nothing': must be a function with an argument trial"):
        minimize(nothing, SPACE, 40)


def test_a_value_that_was_not_reported_is_not_made_up():
    def training(parameters, trial):
        for epoch in trial.epochs():
            if epoch < trial.span.end:
                trial.report(loss(parameters["rate"], epoch))

    with pytest.raises(Hopeless, match=r"trial\.report\(value\) was"):
        minimize(training, SPACE, 40)


def test_a_training_that_neither_reports_nor_returns_is_told_what_to_call():
    def silent(parameters, trial):
        for _ in trial.epochs():
            pass

    with pytest.raises(Hopeless, match=r"trial\.report\(value\) was called in no epoch"):
        minimize(silent, SPACE, capital=81)


def test_a_second_loop_goes_on_where_the_first_was():
    seen = []

    def training(parameters, trial):
        for epoch in trial.epochs():
            trial.report(loss(parameters["rate"], epoch))
            break
        for epoch in trial.epochs():
            trial.report(loss(parameters["rate"], epoch))
            seen.append(epoch)

    minimize(training, Space(SPACE.parameters, epochs=9), 27, strategy="RandomSearch")
    assert min(seen) > 1


def test_values_beyond_all_models_on_the_way_count_as_the_largest():
    def training(parameters, trial):
        for epoch in trial.epochs():
            trial.report(1e300 if epoch == 2 else loss(parameters["rate"], epoch))

    result = minimize(training, SPACE, 81)
    reached = {value for record in result.history for _, value in record.curve}
    assert -LARGEST in reached
    assert min(reached) == -LARGEST


def test_patience_waits_for_a_first_value_at_the_end():
    result = minimize(Training(checkpoints=False), Space(SPACE.parameters, epochs=9), 21, patience=5)
    assert result.success


def test_trainings_that_another_run_has_left_are_not_taken_for_its_own(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        minimize(Training(checkpoints=True), SPACE, 40, journal=journal)
    os.remove(tmp_path / "a.sqlite")
    with (
        Journal(tmp_path / "a.sqlite") as journal,
        pytest.raises(SettingError, match=r"left by this run, which has asked 0 queries: move .*a\.trials away"),
    ):
        minimize(Training(checkpoints=True), SPACE, 40, journal=journal)


def test_a_function_without_a_trial_is_told_so():
    with pytest.raises(SettingError, match=r"training\(parameters, trial\)"):
        minimize(lambda parameters: 1.0, SPACE, 40)


def test_the_last_epoch_is_given_again_where_it_was_saved_and_not_reported(tmp_path):
    trial = Trial(0, tmp_path, span=Span(3, 9))
    assert [*trial.epochs(done=9)] == [9]
    trial.report(0.5)
    assert [*trial.epochs(done=9)] == []
    assert [*Trial(0, tmp_path, span=Span(3, 9)).epochs(done=5)] == [6, 7, 8, 9]


def test_a_training_that_waits_is_dropped_where_its_design_begins_anew():
    space = Space([Parameter("kind", choices=["a", "b", "c"])], epochs=3)

    def training(parameters, trial):
        for epoch in trial.epochs():
            trial.report(loss(0.3 + 0.1 * len(parameters["kind"]), epoch))

    result = minimize(training, space, capital=30)  # more than there is to know
    assert not result.history.select(Status.FAILED)


@pytest.mark.parametrize("strategy", ["RandomSearch", "MFGPUCB", "FreezeThaw", "BOCA"])
def test_of_few_designs_none_goes_on_from_a_later_checkpoint(strategy):
    """Each value is that of a training of as many epochs; where all have ended, the run ends."""
    trained = 0

    def training(parameters, trial):
        nonlocal trained
        checkpoint, goal = trial.folder / "state.json", (parameters["rate"] - 0.3) ** 2
        value = json.loads(checkpoint.read_text()) if checkpoint.exists() else 1.0
        for _ in trial.epochs():
            trained, value = trained + 1, goal + 0.8 * (value - goal)
            checkpoint.write_text(json.dumps(value))
            trial.report(value)

    result = minimize(training, Space({"rate": [0.1, 0.2, 0.3, 0.4]}, epochs=9), capital=80, strategy=strategy)
    for record in result.history:
        goal = (result.problem.space.named(record.query.x)["rate"] - 0.3) ** 2
        for epoch, value in record.curve:
            assert -value == pytest.approx(goal + 0.8**epoch * (1 - goal))
    assert result.fun == pytest.approx(0.8**9)
    assert result.spent == trained
    assert result.message == "every design was trained to its last epoch"


@pytest.mark.parametrize("every", [1, 5])
def test_what_is_charged_is_what_was_trained(every):
    """With attempts that break, and with a checkpoint in every fifth epoch alone."""
    trained, broken = 0, set()

    def training(parameters, trial):
        nonlocal trained
        checkpoint = trial.folder / "epoch"
        done = int(checkpoint.read_text()) if checkpoint.exists() else 0
        for epoch in trial.epochs(done=done):
            trained += 1
            if every == 1 and epoch in (2, 8) and (parameters["rate"], epoch) not in broken:
                broken.add((parameters["rate"], epoch))
                raise RuntimeError("flaky")
            if epoch % every == 0:
                checkpoint.write_text(str(epoch))
            trial.report(loss(parameters["rate"], epoch))

    result = minimize(training, Space([Parameter("rate", 0.0, 1.0)], epochs=9), capital=90, retries=3 * (every == 1))
    assert trained == result.spent
    assert result.success


def test_a_training_whose_worker_was_lost_keeps_its_curve_and_is_charged_for_it(tmp_path):
    problem = FunctionProblem(Training(True), Space([Parameter("rate", 0.0, 1.0)], epochs=9), maximize=False)
    trials, lost = Trials(problem, tmp_path), Evaluation(None, "WorkerLost: the process died", 1.0)
    history = History().asked(Query((0.5,), 1), 3.0)
    trial = trials.of(history.records[0], history)
    for epoch in trial.epochs():
        trial.report(0.9 - 0.1 * epoch)
        if epoch == 2:
            break
    end = trials.completed(history.records[0], lost)
    assert end.curve == ((1.0, pytest.approx(-0.8)), (2.0, pytest.approx(-0.7)))
    assert trials.cost(history.records[0], 1.0, end.stopped, end.curve) == 3.0  # the third was not ended
    trial = trials.of(history.records[0], history)
    (trial.folder / "reports.csv").unlink()
    assert trials.cost(history.records[0], 1.0, trials.completed(history.records[0], lost).stopped) == 1.0
    assert trials.completed(history.records[0], Evaluation(None, "bad", 1.0, raised=True)).curve == ()


def test_where_fidelities_are_no_epochs_a_failure_costs_what_it_was_to_cost():
    def objective(parameters, images, trial):
        raise ValueError("bad")

    space = Space([Parameter("x", 0.0, 1.0)], fidelities={"images": [400, 1800]})
    with pytest.raises(Hopeless) as broken:
        minimize(objective, space, capital=3600, strategy="RandomSearch")
    assert "all 2 evaluations failed" in str(broken.value)


@pytest.mark.parametrize("step", [0, -1, 0.5, 3, 1000])
def test_told_steps_that_are_no_epochs_are_refused(step):
    optimizer = Optimizer(FreezeThaw(space=Space([Parameter("rate", 0.0, 1.0)], epochs=9), capital=60))
    with pytest.raises(SettingError, match=rf"curve = {float(step)}: must be an epoch of the query, 1 to 1"):
        optimizer.tell(optimizer.ask()[0].id, None, curve={step: 0.5})
    assert optimizer.history.pending


def test_without_a_value_the_message_says_what_became_of_the_trainings():
    def training(parameters, trial):
        for epoch in trial.epochs():
            trial.report(0.5)
            if epoch == 6:
                break

    result = minimize(training, Space([Parameter("rate", 0.0, 1.0)], epochs=9), capital=40)
    stopped = result.history.select(Status.STOPPED)
    assert f" {len(stopped)} stopped, the last: stopped at step 6." in result.message


def test_a_journal_of_other_epochs_or_of_the_other_direction_is_refused(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        minimize(Training(False), Space(SPACE.parameters, epochs=9), 13, journal=journal)
    with Journal(tmp_path / "a.sqlite") as journal:
        with pytest.raises(SettingError, match=r"journal = .*the fidelities of its own are epochs = 1"):
            minimize(Training(False), Space(SPACE.parameters, epochs=12), 13, journal=journal)
        with pytest.raises(SettingError, match=r"journal = .*its own is one to minimize"):
            maximize(Training(False), Space(SPACE.parameters, epochs=9), 13, journal=journal)


def test_a_journal_of_other_parameters_is_refused(tmp_path):
    """Its designs are positions: of a renamed or a swapped parameter they would be another one's."""
    with Journal(tmp_path / "a.sqlite") as journal:
        minimize(lambda p: p["x"], {"x": (0, 1), "y": (0, 1)}, 2, strategy="RandomSearch", journal=journal)
        for space in ({"x": (0, 1), "z": (0, 1)}, {"y": (0, 1), "x": (0, 1)}):
            with pytest.raises(SettingError, match=r"journal = .*a history of this problem; its own has x, y"):
                minimize(lambda p: 0.0, space, 3, strategy="RandomSearch", journal=journal)


@pytest.mark.parametrize("lost", ["an attempt", "the process"])
def test_a_training_that_was_repeated_goes_on_from_its_own_epoch(lost, tmp_path):
    seen, failed = [], []

    def training(rate, trial):
        value, goal = 1.0, (rate - 0.3) ** 2
        for own, epoch in enumerate(trial.epochs(), 1):
            seen.append((own, epoch))
            if lost == "an attempt" and epoch == 3 and not failed:
                failed.append(trial.number)
                raise OSError("gone")
            value = goal + 0.7 * (value - goal)
            trial.report(value)

    space = Space([Parameter("rate", 0.0, 1.0)], epochs=9)
    if lost == "the process":
        minimize(training, space, 6, journal=Journal(tmp_path / "mine.sqlite"))
    result = minimize(training, space, 27, journal=Journal(tmp_path / "mine.sqlite"), retries=1)
    assert all(own == epoch for own, epoch in seen)
    assert max(epoch for _, epoch in seen) == 9
    paid = sum(record.cost - record.sunk for record in result.history)
    assert paid == len(seen) - 2 * len(failed)  # the attempt that was lost, up to the epoch before


def test_a_retry_goes_on_from_what_the_failed_attempt_saved():
    """So does the training after it, and all epochs are trained once but the one that was lost."""
    seen, failed = [], []

    def training(parameters, trial):
        place = trial.folder / "epochs"
        own = int(place.read_text()) if place.exists() else 0
        for epoch in trial.epochs():
            seen.append((parameters["kind"], epoch, own + 1))
            if parameters["kind"] == "a" and epoch == 9 and not failed:
                failed.append(epoch)
                raise RuntimeError("no memory left")
            own += 1
            place.write_text(str(own))
            trial.report(1 / own)

    found = minimize(training, Space([Parameter("kind", choices=("a", "b"))], epochs=27), 100, retries=1)
    assert all(epoch == own for _, epoch, own in seen)
    assert [(r.cost, r.sunk) for r in found.history if r.retries] == [(7.0, 1.0)]
    assert found.spent == len(seen) == 2 * 27 + 1
