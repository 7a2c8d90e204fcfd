"""What a trial tells and keeps: intermediate values on every kind of worker, and which trainings are hopeless."""

import math
import os
import random
import statistics
from contextlib import nullcontext

import pytest
from epochs import EPOCHS, RATE, Ladder
from refusals import refused

from mfbo_torch.history import Status
from mfbo_torch.history.continuation import lower_training
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop import executors
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import UserProblem
from mfbo_torch.problems.trial import PreviousTraining, Trial, reports


def reporting(rate, epochs, trial):
    """Tells each epoch, and stops where that is hopeless."""
    value = 0.0
    for epoch in range(1 + (trial.below.at if trial.below else 0), epochs + 1):
        value = 1 / epoch + rate
        trial.report(epoch, value)
        if trial.should_stop():
            break
    return value


def problem(**settings):
    return UserProblem(reporting, RATE, fidelities=EPOCHS, maximize=False, **settings)


@pytest.mark.parametrize("maximize", [True, False])
def test_the_median_rule(tmp_path, maximize):
    """By definition: the best so far against the median of the others' best by that step, of those that came as far."""
    draws = random.Random(0)
    told = {number: [draws.random() for _ in range(draws.randint(1, 9))] for number in range(12)}
    trials = {number: Trial(number, tmp_path / str(number), None, maximize) for number in told}
    for number, values in told.items():
        trials[number].open()
        for step, value in enumerate(values[:-1], 1):
            trials[number].report(step, value)
    better = max if maximize else min
    answers = []
    for number, values in told.items():
        last = len(values)
        trials[number].report(last, values[-1])
        shown = {n: v[: len(v) if n <= number else len(v) - 1] for n, v in told.items() if n != number}
        others = [better(v[:last]) for v in shown.values() if len(v) >= last]
        own, middle = better(values), statistics.median(others or [math.nan])
        answers.append(len(others) >= 5 and (own < middle if maximize else own > middle))
        assert trials[number].should_stop() is answers[-1]
        assert trials[number].stopped == (last if answers[-1] else None)
    assert {True, False} == set(answers)


def test_nothing_reported_nothing_hopeless(tmp_path):
    trial = Trial(0, tmp_path / "0")
    trial.open()
    assert not trial.should_stop()
    for step, value in ((1, float("nan")), ("one", 1.0)):
        refused(r"^trial.report's (step|value) = ", trial.report, step, value)
    (tmp_path / "0" / "reports.csv").write_text("0,1,0.5\n0,2,\n0,3")  # truncated by a kill
    assert [*reports(tmp_path / "0")] == [(1.0, 0.5)]
    refused("begins anew", Trial(1, tmp_path / "1", PreviousTraining(0, 3, 0.5)).open)


@pytest.mark.parametrize("kind", [None, *(pytest.param(k, marks=pytest.mark.slow) for k in ("processes", "dask"))])
def test_reports_arrive_from_every_worker(tmp_path, kind):
    if kind == "dask":
        pytest.importorskip("distributed")
    workers = nullcontext() if kind is None else executors.start(kind, 1)
    with Journal(tmp_path / "a.sqlite") as journal, workers as pool:
        how = {"executor": pool, "max_pending": 1 if kind is None else 2}
        history = run(problem(continues=True), Ladder(designs=2), 36.0, journal=journal, progress=False, **how)
    assert history.spent == 36.0
    for folder, epochs in (("00000", 27), ("00003", 9)):
        rate = history.records[int(folder)].query.x[0]
        told = [*reports(tmp_path / "a.trials" / folder)]
        assert told == [(epoch, 1 / epoch + rate) for epoch in range(1, epochs + 1)]


def test_a_hopeless_training_pays_for_what_it_has_trained(tmp_path):
    """From the sixth design on each is behind the median from its first epoch; it has a curve and no value."""
    ladder, capital = Ladder(wide=True, designs=8), 5 * 3.0 + 3 * 3.0
    history = run(problem(continues=True), ladder, capital, progress=False, folder=tmp_path)
    costs = [r.cost for r in history]
    assert costs[:8] == [3.0] * 5 + [1.0] * 3
    last = history.records[7]
    assert {(r.status, r.value, len(r.curve)) for r in history.records[5:8]} == {(Status.STOPPED, None, 1)}
    assert last.reason == "stopped at step 1"
    assert lower_training(history, last.query.x, 1) is None
    assert [r.cost for r in run(problem(), ladder, capital, progress=False)][:8] == costs[:8]


@pytest.mark.parametrize("written", [b"\xff\xfe\x00\n", b"0,nan,1\n0,1,inf\n0,1e400,2\n", b"0,1\nx,1,2\n,,\n"])
def test_a_file_of_reports_that_nobody_has_reported(written, tmp_path):
    (tmp_path / "reports.csv").write_bytes(written)
    assert [*reports(tmp_path, 0)] == []


def test_pipes_and_holes_in_the_place_of_reports(tmp_path):
    for name, make in (("pipe", os.mkfifo), ("hole", lambda path: (path.touch(), os.truncate(path, 2**40)))):
        (folder := tmp_path / name).mkdir()
        make(folder / "reports.csv")
        assert [*reports(folder)] == []
    with pytest.raises(OSError, match=r"reports\.csv"):
        Trial(0, tmp_path / "pipe").report(1, 0.5)
