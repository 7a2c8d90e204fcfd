import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from quiet_runs import quiet, timeless
from refusals import refused
from toy import Hill, Patient, Plain, Walk

from mfbo_torch.history import History, Query, Status
from mfbo_torch.history.observation import Observation
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.early_failures import ALIKE
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.loop.interrupt import stop_on_ctrl_c
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.loop.runner import drive, run
from mfbo_torch.utils.validation import describe


@pytest.mark.parametrize("capital", [1.0, 9.5, 12.0, 47.0, 100.0])
@pytest.mark.parametrize("max_pending", [1, 3])
@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize("walk", [Walk, Patient])
def test_capital_is_spent_and_never_overspent(capital, max_pending, threads, walk):
    executor = ThreadPoolExecutor(threads) if threads else None
    history = quiet(Hill(), walk(), capital, max_pending=max_pending, executor=executor)
    assert history.spent <= capital
    strategy = Walk().bind(Hill().space, capital)
    (refused,) = strategy.ask(history)
    assert history.spent + strategy.space.costs[refused.fidelity] > capital
    assert all(r.status == Status.DONE for r in history)
    assert [r.value for r in history] == [Hill().reward(r.query.x, r.query.fidelity) for r in history]


def test_costs_that_add_up_to_the_capital_fit_in_spite_of_rounding():
    problem = Hill()
    problem.space = replace(problem.space, costs=(0.1, 1.0))
    assert len(quiet(problem, Walk(every=100), 0.3)) == 3


def test_a_problem_that_minimises_is_negated_once():
    up, down = quiet(Hill(), Walk(), 30.0), quiet(Hill(maximize=False), Walk(), 30.0)
    assert timeless(up) == timeless(down)


def test_a_batch_is_asked_at_once_and_evaluated_in_order(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        quiet(Hill(), Walk(), 40.0, max_pending=3, journal=journal)
        pending = [len(history.pending) for history, _ in journal.replay()]
    assert pending[:6] == [0, 1, 2, 0, 1, 2]


class Backwards(Executor):
    """Runs what it was given, the newest first, once ``full`` evaluations are waiting."""

    def __init__(self, full: int) -> None:
        self.full, self.waiting, self.most = full, [], 0

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        self.waiting.append((future, fn, args))
        self.most = max(self.most, len(self.waiting))
        if len(self.waiting) == self.full:
            future, fn, args = self.waiting.pop()
            future.set_result(fn(*args))
        return future


def test_the_one_that_ends_first_is_replaced_first(tmp_path):
    executor = Backwards(3)
    ended = []

    class Watching(Journal):
        def ended(self, record):
            ended.append(record.id)
            super().ended(record)
            if len(ended) == 4:
                raise KeyboardInterrupt

    with Watching(tmp_path / "a.sqlite") as journal:
        history = quiet(Hill(), Walk(every=100), 50.0, executor=executor, max_pending=3, journal=journal)
        assert history == journal.history()
        assert ended == [2, 3, 4, 5]
        assert [r.id for r in history.pending] == [0, 1]
        asked = [[r.id for r in history.pending] for history, _ in journal.replay()]
        assert asked == [[], [0], [0, 1], [0, 1], [0, 1], [0, 1]]
    assert executor.most == 3


def test_everything_is_journaled_before_it_is_acted_on(tmp_path):
    path = tmp_path / "a.sqlite"

    class Looking(Hill):
        def evaluate(self, x, fidelity):
            with Journal(path, read_only=True) as onlooker:
                (pending,) = onlooker.history().pending
            assert (pending.query.x, pending.query.fidelity) == (tuple(x), fidelity)
            return super().evaluate(x, fidelity)

    class LookingWalk(Walk):
        def decide(self, history):
            with Journal(path, read_only=True) as onlooker:
                assert onlooker.history() == history
            return super().decide(history)

    with Journal(path) as journal:
        history = quiet(Looking(), LookingWalk(), 40.0, journal=journal)
        assert journal.history() == history
    assert [r.reason for r in history.select(Status.FAILED)] == []


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("raise", "RuntimeError: no convergence at step 3"),
        ("exit", "SystemExit: 3"),
        ("nan", "the value is not finite: nan"),
        ("text", "SettingError: objective's value = 'many': must be a number, or a pair (value, standard error)"),
    ],
)
@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor(1)])
def test_failed_evaluations_are_recorded_and_charged(trouble, reason, executor):
    history = quiet(Hill(trouble=trouble), Walk(), 60.0, executor=executor)
    failed = history.select(Status.FAILED)
    first, *frames = zip(*(r.reason.splitlines() for r in failed), strict=True)
    assert set(first) == {reason}
    if trouble in ("raise", "exit"):
        assert all("toy.py:" in line and " in misbehave: raise " in line for line in frames[-1])
    assert all(r.query.x[0] > 5 and r.value is None and r.cost > 0 for r in failed)
    assert history.done
    assert 50 < history.spent <= 60


def test_reasons_are_one_line():
    assert describe(ValueError("a\n b")) == "ValueError: a b"
    assert describe(KeyError()) == "KeyError"
    assert evaluate(Hill(), (3.0,), 0)[:2] == (Observation(0.0), "")


def test_interruption_leaves_the_query_pending_and_can_be_continued(tmp_path):
    whole = quiet(Hill(), Walk(), 60.0)
    with Journal(tmp_path / "a.sqlite") as journal:
        how = {"options": RunOptions(1), "journal": journal, "progress": False}
        history, finished, _ = drive(Hill(trouble="interrupt"), Walk(), 60.0, **how)
        assert not finished
        assert len(history.pending) == 1
        assert journal.history() == history
        history, finished, _ = drive(Hill(), Walk(), 60.0, **how)
        assert finished
        assert timeless(history) == timeless(whole) == timeless(journal.history())


def test_interruption_keeps_what_has_finished_elsewhere():
    """Ctrl-C while waiting for several: values that are there are told, the others stay pending."""

    class Interrupted(Walk):
        def decide(self, history):
            if len(history) == 2:
                slow.wait(10)
                raise KeyboardInterrupt
            return super().decide(history)

    slow = threading.Event()
    release = threading.Event()

    class Two(Hill):
        def evaluate(self, x, fidelity):
            if fidelity:
                release.wait(10)
            else:
                slow.set()
            return super().evaluate(x, fidelity)

    with ThreadPoolExecutor(2) as executor:
        history = quiet(Two(), Interrupted(every=2), 50.0, executor=executor, max_pending=3)
        while not slow.is_set():
            time.sleep(0.001)
        release.set()
    assert history.records[1].status == Status.PENDING
    assert len(history) == 2


def test_pending_queries_are_evaluated_first_and_within_max_pending(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        history = History()
        for x in (1.0, 2.0, 4.0, 6.0):
            history = history.asked(Query((x,), 0), 1.0)
        journal.asked(history.records)
        busy, most = [], []

        class Counting(Hill):
            def evaluate(self, x, fidelity):
                busy.append(x)
                most.append(len(busy))
                time.sleep(0.01)
                busy.remove(x)
                return super().evaluate(x, fidelity)

        with ThreadPoolExecutor(4) as executor:
            history = quiet(Counting(), Walk(), 4.0, executor=executor, max_pending=2, journal=journal)
    assert max(most) == 2
    assert [r.query.x for r in history] == [(1.0,), (2.0,), (4.0,), (6.0,)]
    assert [r.value for r in history.done] == [Hill().reward(r.query.x, 0) for r in history]


def test_measured_costs_are_the_seconds_it_took():
    problem = Hill(measured=True, seconds=0.02, trouble="raise")
    problem.space = replace(problem.space, costs=(0.01, 0.1))
    history = quiet(problem, Walk(), 0.5)
    assert all(r.cost == r.evaluation_seconds >= 0.02 for r in history)
    assert history.select(Status.FAILED)
    assert 0.3 < history.spent < 0.7


@pytest.mark.parametrize("trouble", ["", "raise"])
def test_measured_costs_are_not_refused_for_a_wrong_guess(trouble):
    """The guesses say 1 and 10 seconds, the capital is a tenth of one: the guesses do not count."""
    history = quiet(Hill(measured=True, seconds=0.01, trouble=trouble), Walk(every=1), 0.1)
    assert history.done
    assert 0.03 < history.spent < 0.3


def test_progress_bar_speaks_the_users_language(capsys):
    run(Hill(maximize=False), Walk(every=2), 34.0)
    shown = capsys.readouterr().err
    asked = [r.query for r in quiet(Hill(), Walk(every=2), 34.0)]
    best = min(-Hill().reward(query.x, 1) for query in asked if query.fidelity)
    last = shown.strip().split("\r")[-1]
    assert f"best {best:.6g}, queries 4/3" in last
    assert "34/34" in last
    assert "Hill" in last
    quiet(Hill(), Walk(), 34.0)
    assert capsys.readouterr().err == ""


class Unread(io.StringIO):
    """A pipe that nobody reads any more."""

    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("stream", [Unread(), None])
def test_a_bar_that_nobody_can_read_ends_no_run(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    assert len(run(Hill(), Walk(), 34.0)) == len(quiet(Hill(), Walk(), 34.0))
    with stop_on_ctrl_c() as interrupted:
        signal.raise_signal(signal.SIGINT)
    assert interrupted.is_set()


@pytest.mark.slow
def test_processes_and_a_worker_that_dies(tmp_path):
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        history = quiet(Hill(), Walk(), 20.0, executor=executor)
        assert timeless(history) == timeless(quiet(Hill(), Walk(), 20.0))
        with Journal(tmp_path / "a.sqlite") as journal:
            deadly = Hill(trouble="die")
            with pytest.raises(BrokenExecutor, match=r"queries in flight are recorded as failed: \d"):
                quiet(deadly, Walk(), 60.0, executor=executor, max_pending=2, journal=journal)
            history = journal.history()
    assert history.pending == []
    assert 1 <= len(history.select(Status.FAILED)) <= 2
    assert all(r.reason.startswith("BrokenProcessPool: ") for r in history.select(Status.FAILED))


def test_an_executor_already_broken_loses_nothing(tmp_path):
    class Broken(Executor):
        def submit(self, fn, /, *args, **kwargs):
            raise BrokenExecutor("no workers")

    with Journal(tmp_path / "a.sqlite") as journal, pytest.raises(BrokenExecutor, match=r"failed: none \(no workers\)"):
        quiet(Hill(), Walk(), 60.0, executor=Broken(), journal=journal)
    with Journal(tmp_path / "a.sqlite") as journal:
        assert timeless(quiet(Hill(), Plain(), 60.0, journal=journal)).records[0].query.fidelity == 0


def test_what_is_in_flight_when_the_executor_breaks_has_had_an_attempt(tmp_path):
    class Breaking(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            return super().submit(self.fail)

        def fail(self):
            raise BrokenExecutor("no scheduler")

    with Journal(tmp_path / "a.sqlite") as journal, Breaking(1) as executor:
        for numbers in ("none", "0"):
            with pytest.raises(BrokenExecutor, match=rf"failed: {numbers} \(no scheduler\)"):
                quiet(Hill(), Walk(), 20.0, executor=executor, journal=journal, retries=1, charge_retries=False)
        history = quiet(Hill(), Walk(), 20.0, journal=journal)
    assert [(r.status, r.retries) for r in history][:2] == [(Status.FAILED, 1), (Status.DONE, 0)]
    assert history.records[0].reason == "BrokenExecutor: no scheduler"


def test_what_the_executor_cannot_send_is_refused_before_anything_is_asked(tmp_path):
    problem = Hill()
    problem.local = lambda: None
    with (
        Journal(tmp_path / "a.sqlite") as journal,
        ProcessPoolExecutor(1, get_context("spawn")) as executor,
    ):
        said = "^objective = 'Hill': must be a function at the top of a module, .*pickle"
        refused(said, quiet, problem, Walk(), 60.0, executor=executor, journal=journal)
    with Journal(tmp_path / "a.sqlite", read_only=True) as journal:
        assert not len(journal.history())


CHILD = """
import sys
from toy import Hill, Walk
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.runner import run
print("ready", flush=True)
with Journal(sys.argv[1]) as journal:
    run(Hill(seconds=0.005, trouble="raise"), Walk(), 240.0, journal=journal, progress=False)
print("finished", flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_continues_as_if_it_never_was(tmp_path):
    whole = timeless(quiet(Hill(trouble="raise"), Walk(), 240.0))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "helpers"), "OMP_NUM_THREADS": "1"}
    path, moments, kills = tmp_path / "a.sqlite", random.Random(0), 0
    for _ in range(4):
        command = [sys.executable, "-c", CHILD, str(path)]
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.0, 0.06))
        child.kill()
        kills += "finished" not in child.communicate()[0]
        if path.exists() and path.stat().st_size:
            with Journal(path) as journal:
                part = timeless(journal.history())
                assert len(part.pending) <= (1 if part.done else ALIKE)
                known = len(part) - len(part.pending)
                assert part.records[:known] == whole.records[:known]
    assert kills >= 2
    with Journal(path) as journal:
        assert timeless(quiet(Hill(trouble="raise"), Walk(), 240.0, journal=journal)) == whole
        assert timeless(journal.history()) == whole


@pytest.mark.slow
def test_killed_before_any_write_it_continues_as_if_it_never_was(tmp_path):
    """The first two queries raise and are held back, so that up to three are pending at a time."""

    class Killed(BaseException):
        pass

    whole = timeless(quiet(Hill(trouble="raise"), Walk(), 60.0))
    pending = []
    for writes in range(30):

        class Mortal(Journal):
            left = writes

            def _append(self, made):
                if not self.left:
                    raise Killed
                self.left -= 1
                super()._append(made)

        with pytest.raises(Killed), Mortal(tmp_path / f"{writes}.sqlite") as journal:
            quiet(Hill(trouble="raise"), Walk(), 60.0, journal=journal)
        with Journal(tmp_path / f"{writes}.sqlite") as journal:
            pending.append(len(journal.history().pending))
            assert timeless(quiet(Hill(trouble="raise"), Walk(), 60.0, journal=journal)) == whole
    assert max(pending) == ALIKE
    assert set(pending[10:]) <= {0, 1}
