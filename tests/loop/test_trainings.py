"""Trainings that continue: what they cost, where they find what was done before, and what a kill does to them."""

import json
import multiprocessing
import os
import random
import signal
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from epochs import EPOCHS, RATE, Ladder
from refusals import refused
from toy import Walk

from mfbo_torch import MFGPUCB, Parameter, Space
from mfbo_torch.history import History, Query, Status
from mfbo_torch.history.continuation import full_costs, lower_training, trainings
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.early_failures import Hopeless
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import UserProblem
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.strategies.multi.resume_candidates import resumed
from mfbo_torch.utils.errors import SettingError

PAUSE = 0.0


def train(rate, epochs, trial):
    """Goes on from the checkpoint of the fidelity below, an epoch at a time, and notes each."""
    state = trial.folder / "state.json"
    known = json.loads(state.read_text()) if state.exists() else {"epoch": 0, "by": []}
    if trial.below is not None:
        assert known["epoch"] >= trial.below.at
    for epoch in range(known["epoch"] + 1, epochs + 1):
        time.sleep(PAUSE)
        known = {"epoch": epoch, "by": [*known["by"], trial.number]}
        (trial.folder / "new.json").write_text(json.dumps(known))
        os.replace(trial.folder / "new.json", state)
        trial.report(epoch, (rate - 0.3) ** 2 + 1 / epoch)
    return (rate - 0.3) ** 2 + 1 / epochs


def problem(**settings):
    return UserProblem(train, RATE, maximize=False, fidelities=EPOCHS, **{"continues": True, **settings})


def asked(*queries):
    history = History()
    for x, fidelity, cost in queries:
        history = history.asked(Query((x,), fidelity), cost)
        history = history.updated(history.records[-1].done(0.0)) if cost >= 0 else history
    return history


def test_what_a_query_goes_on_from():
    history = asked((0.5, 0, 3.0), (0.5, 1, 6.0), (0.7, 1, 9.0), (0.7, 0, 3.0), (0.7, 2, 18.0), (0.9, 0, 0.0))
    assert [(found := lower_training(history, (0.5,), m)) and found.paid for m in range(3)] == [None, 3.0, 9.0]
    assert lower_training(history, (0.7,), 2).record.id == 2
    assert lower_training(history, (0.9,), 1) is None  # observed before: nothing is there
    assert full_costs(history) == [3.0, 9.0, 9.0, 3.0, 27.0, 0.0]
    assert {x: sorted(levels) for x, levels in trainings(history).items()} == {(0.5,): [0, 1], (0.7,): [0, 1, 2]}
    tried = history.records[0].retried("why", 7.0).done(1.0)
    assert lower_training(history.updated(tried), (0.5,), 1).paid == 3.0 == tried.cost - tried.sunk
    assert lower_training(History((history.records[0].failed("why"),)), (0.5,), 1) is None


def test_what_a_query_costs():
    space = Space((Parameter("x", 0.0, 1.0),), fidelities=EPOCHS, continues=True)
    history = asked((0.5, 0, 3.0), (0.5, 1, 6.0))
    strategy = Walk(space=space)
    assert [strategy.cost(Query((x,), m), history) for x in (0.5, 0.6) for m in range(3)] == [3, 6, 18, 3, 9, 27]
    assert Walk(space=Space(space.parameters, fidelities=EPOCHS)).cost(Query((0.5,), 2), history) == 27
    measured = Space(space.parameters, (1, 10, 100), measured=True, continues=True)
    assert Walk(space=measured).costs(history) == (3, 9, 90)
    assert Walk(space=measured).cost(Query((0.5,), 2), history) == 81


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("workers", [0, 3])
def test_each_epoch_is_trained_and_paid_once(tmp_path, wide, workers):
    """Whoever evaluates: what is asked while the one below is still out waits for it, and pays what is missing."""
    how = {"executor": ThreadPoolExecutor(workers) if workers else None, "max_pending": workers or 1}
    with Journal(tmp_path / "a.sqlite") as journal:
        history = run(problem(), Ladder(wide=wide), 80.0, journal=journal, progress=False, **how)
    reached = defaultdict(int)
    for record in history:
        assert record.status == Status.DONE
        reached[record.query.x] = max(reached[record.query.x], EPOCHS["epochs"][record.query.fidelity])
    states = [json.loads(path.read_text()) for path in (tmp_path / "a.trials").glob("*/state.json")]
    assert sorted(state["epoch"] for state in states) == sorted(reached.values())
    assert history.spent == sum(reached.values()) <= 80.0
    if not workers:
        assert {r.cost for r in history} == {3.0, 6.0, 18.0}


def test_the_trial_knows_what_was_done(tmp_path):
    seen = []

    def objective(parameters, epochs, trial):
        seen.append((trial.number, trial.folder.name, trial.below))
        return float(epochs)

    mapped = UserProblem(objective, RATE, fidelities=EPOCHS, continues=True)
    run(mapped, Ladder(designs=2), 54.0, progress=False, folder=tmp_path / "here")
    assert seen == [
        *((0, "00000", None), (1, "00000", (0, 3, 3.0)), (2, "00000", (1, 9, 9.0))),
        *((3, "00003", None), (4, "00003", (0, 3, 3.0)), (5, "00003", (1, 9, 9.0))),
    ]
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["00000", "00003"]


def test_a_failure_is_charged_for_the_epochs_it_trained(tmp_path, monkeypatch):
    """In a loop of its own: by what it reported, else all; a relative folder is that of the beginning."""

    def train(rate, epochs, trial):
        for epoch in range(1, epochs + 1):
            if rate < 0.5:
                trial.report(epoch, rate)
            if epoch == 2:
                os.chdir("/")
                raise RuntimeError("diverged")
        return rate

    monkeypatch.chdir(tmp_path)
    problem = UserProblem(train, RATE, maximize=False, fidelities={"epochs": [9]}, continues=True)
    optimizer = Optimizer(RandomSearch(), problem=problem)
    for rate in (0.2, 0.8):
        optimizer.enqueue({"rate": rate})
    journal = Journal(tmp_path / "a.sqlite")
    journal.asked(optimizer.history.records)
    with pytest.raises(Hopeless):
        run(problem, RandomSearch(), 18.0, journal=journal, folder="kept", progress=False)
    assert [record.cost for record in journal.history()] == [3.0, 9.0]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["00000", "00001"]


def test_a_folder_that_vanished_is_named_and_nothing_is_paid(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        history = run(problem(), Ladder(), 9.0, journal=journal, progress=False)
        folder = tmp_path / "a.trials" / "00000"
        folder.rename(tmp_path / "elsewhere")
        for _ in range(2):
            with pytest.raises(SettingError, match=r"^trial.folder = .*00000': must be there, .*begins anew") as error:
                run(problem(), Ladder(), 27.0, journal=journal, progress=False)
            assert "\n" not in str(error.value)
        after = journal.history()
        assert after.done == history.done
        assert len(after.pending) == 1
        (tmp_path / "elsewhere").rename(folder)
        assert run(problem(), Ladder(), 27.0, journal=journal, progress=False).spent == 27.0


def test_objectives_that_cannot_continue():
    for objective, message in (
        (lambda rate, epochs: 0.0, "continues = True: must be false, or the objective must take a trial"),
        (lambda rate, epochs, trail: 0.0, "did you mean trial by trail"),
    ):
        refused(message, UserProblem, objective, RATE, fidelities=EPOCHS, continues=True)


def test_objectives_that_say_nothing_below():
    silent = UserProblem(lambda rate, epochs, trial: None, RATE, fidelities=EPOCHS, continues=True)
    refused(r"trial = None: must be given to this objective, as mfbo_torch.run", silent.evaluate, (0.5,), 0)
    wanted = "with SettingError: objective's value = None: must be a number at every fidelity, also at epochs = 3"
    with pytest.raises(Hopeless, match=wanted):
        run(silent, Walk(), 60.0, progress=False)


def test_what_has_begun_is_cheaper():
    """The gain per missing cost decides, and the next fidelity is asked; nothing that was asked there, or is now."""
    space = Space((Parameter("x", 0.0, 1.0),), fidelities=EPOCHS, continues=True)
    strategy, u = Walk(space=space), torch.tensor([[0.25]], dtype=torch.double)
    begun = asked((0.5, 0, 3.0), (0.5, 1, 6.0), (0.75, 0, 3.0))

    def chosen(history, *gains, fidelity=2, of=space):
        found, m = resumed(Walk(space=of).snapshot(history), lambda X: torch.tensor(gains[: len(X)]), u, fidelity)
        return found.item(), m

    assert chosen(begun, 1.0, 0.7, 0.5) == (0.5, 2)  # 0.7 / 18 is more than 1 / 27
    assert chosen(begun, 1.0, 0.6, 0.5) == (0.25, 0)  # 0.6 / 18 is less, 0.5 / 24 too; the lowest fidelity is free
    assert chosen(begun, 1.0, 0.6, 0.9) == (0.75, 1)
    assert chosen(begun, -1.0, -0.1, -0.1) == (0.25, 0)
    assert chosen(begun, 1.0, 0.9, 0.9, fidelity=0) == (0.25, 0)
    assert chosen(begun.asked(Query((0.5,), 2), 18.0), 1.0, 0.5) == (0.25, 0)
    assert chosen(begun, 1.0, 9.0, 9.0, of=Space(space.parameters, fidelities=EPOCHS)) == (0.25, 2)
    assert strategy.ask(begun)[0].x != (0.5,)


def test_decisions_go_on(tmp_path):
    """MFGPUCB asks designs again, to the last bit, at the next fidelity; each of them costs what is missing."""
    made = problem()
    with Journal(tmp_path / "a.sqlite") as journal:
        history = run(made, MFGPUCB(hedge=False, initial_capital=2.0), 66.0, journal=journal, progress=False)
        before, asked_then = list(journal.replay())[-1]
    again = MFGPUCB(hedge=False, initial_capital=2.0).bind(made.space, 66.0).ask(before)[0]
    assert (again.x, again.fidelity) == (asked_then.x, asked_then.fidelity)
    further = [r for r in history if r.query.meta["stage"] == "model" and r.query.fidelity > 0]
    assert further
    assert all(r.cost in (6.0, 18.0) for r in further)
    paid = [max(training.paid for training in here.values()) for here in trainings(history).values()]
    assert history.spent == sum(paid)


def test_a_program_goes_on_from_the_folder_of_its_design(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = "touch $1/log; while [ $(wc -l < $1/log) -lt $2 ]; do echo $0 >> $1/log; done; wc -l < $1/log"
    command = ["sh", "-c", script, "{rate}", "{folder}", "{epochs}"]
    made = UserProblem(command=command, parameters=RATE, fidelities=EPOCHS, continues=True)
    with Journal("a.sqlite") as journal:
        history = run(made, Ladder(designs=2), 54.0, journal=journal, progress=False)
    assert [(r.value, r.cost) for r in history] == [(3.0, 3.0), (9.0, 6.0), (27.0, 18.0)] * 2
    assert [len(path.read_text().split()) for path in Path("a.trials").glob("*/log")] == [27, 27]
    with pytest.raises(SettingError, match="must take a trial, or the command"):
        UserProblem(command=["echo", "{rate}{epochs}"], parameters=RATE, fidelities=EPOCHS, continues=True)


def go_on(folder):
    with Journal(folder / "a.sqlite") as journal:
        run(problem(), Ladder(wide=True, designs=3), 81.0, journal=journal, progress=False)


@pytest.mark.slow
def test_killed_twelve_times_and_no_epoch_twice(tmp_path, monkeypatch):
    """81 epochs of three designs, killed at random moments; what was trained is gone on from."""
    monkeypatch.setitem(globals(), "PAUSE", 0.02)
    draws, fork = random.Random(0), multiprocessing.get_context("fork")
    for _ in range(12):
        process = fork.Process(target=go_on, args=(tmp_path,))
        process.start()
        aim = trained(tmp_path) + draws.randint(2, 5)
        while trained(tmp_path) < aim:
            time.sleep(0.005)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    go_on(tmp_path)
    with Journal(tmp_path / "a.sqlite", read_only=True) as journal:
        history = journal.history()
    assert history.spent == 81.0
    assert [r.status for r in history] == [Status.DONE] * 9
    states = [json.loads(path.read_text()) for path in (tmp_path / "a.trials").glob("*/state.json")]
    assert [state["epoch"] for state in states] == [len(state["by"]) for state in states] == [27] * 3


def trained(folder):
    """How many epochs are on disk."""
    return sum(json.loads(path.read_text())["epoch"] for path in (folder / "a.trials").glob("*/state.json"))
