"""Runs that meet failures, interruptions and full disks, and lose nothing."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import pytest
import yaml
from quiet_runs import quiet, timeless
from refusals import refused
from toy import Flaky, Hill, Walk

from mfbo_torch.app import cli
from mfbo_torch.history import History, Query, Status
from mfbo_torch.history.storage import disk_waits
from mfbo_torch.history.storage.journal import DiskFull, Journal
from mfbo_torch.loop import runner
from mfbo_torch.loop.early_failures import Hopeless
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.loop.runner import drive
from mfbo_torch.utils.errors import SettingError


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize(("charged", "factor"), [(True, 3.0), (False, 1.0)])
def test_retries_are_charged_or_not(tmp_path, threads, charged, factor):
    how = {"retries": 2, "charge_retries": charged}
    with Journal(tmp_path / "a.sqlite") as journal:
        executor = ThreadPoolExecutor(1) if threads else None
        history = quiet(Flaky(2), Walk(), 60.0, executor=executor, journal=journal, **how)
        assert journal.history() == history
    done = history.done
    costs = Hill().space.costs
    assert [r.cost for r in done] == [factor * costs[r.query.fidelity] for r in done]
    assert all(r.retries == 2 and not r.reason for r in done)
    assert len(done) > 4
    assert history.spent <= 60.0
    free = quiet(Hill(), Walk(), 60.0)
    assert [r.value for r in done[:5]] == [r.value for r in free][:5]


def test_a_retry_that_the_capital_does_not_pay_for_is_not_made():
    history = quiet(Flaky(1), Walk(every=1), 25.0, retries=3)
    assert [(r.status, r.retries, r.cost) for r in history] == [(Status.DONE, 1, 20.0)]
    problem = Flaky(2)
    with pytest.raises(Hopeless):
        quiet(problem, Walk(every=1), 25.0, retries=3)
    assert list(problem.attempts.values()) == [2]


def test_measured_retries_cost_what_they_took():
    problem = Flaky(1, measured=True, seconds=0.01)
    problem.space = replace(problem.space, costs=(0.01, 0.1))
    for record in quiet(problem, Walk(), 0.3, retries=1).done:
        assert record.retries == 1
        assert record.cost == pytest.approx(record.sunk + record.evaluation_seconds)
    free = quiet(Flaky(1, measured=True, seconds=0.01), Walk(), 0.1, retries=1, charge_retries=False)
    assert all(r.cost == r.evaluation_seconds for r in free.done)


@pytest.mark.parametrize("threads", [0, 3])
def test_a_run_that_only_fails_stops_early(threads, tmp_path):
    problem = Flaky(10**9)
    executor = ThreadPoolExecutor(threads) if threads else None
    with Journal(tmp_path / "a.sqlite") as journal:
        with pytest.raises(Hopeless, match=r"^all 1\d evaluations failed, the last with RuntimeError: not yet"):
            quiet(problem, Walk(), 1000.0, executor=executor, max_pending=threads or 1, journal=journal)
        assert runner.HOPELESS <= len(journal.history().select(Status.FAILED)) <= runner.HOPELESS + threads
        assert quiet(Hill(), Walk(), 200.0, journal=journal).done
    with pytest.raises(Hopeless, match=r"^all 2 evaluations failed"):
        quiet(problem, Walk(), 3.0)


def test_failures_after_a_value_go_on():
    history = quiet(Hill(trouble="nan", upper=200.0), Walk(), 600.0)
    assert len(history.select(Status.FAILED)) > 3 * runner.HOPELESS
    assert history.done


class Interrupting(Hill):
    """Sends Ctrl-C to this process in its third evaluation, ``times`` times."""

    def __init__(self, times):
        super().__init__()
        self.times, self.count = times, 0

    def evaluate(self, x, fidelity):
        self.count += 1
        if self.count == 3:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)
        return super().evaluate(x, fidelity)


@pytest.mark.parametrize(("times", "ended"), [(1, 3), (2, 2)])
def test_the_first_interrupt_finishes_what_is_in_flight_the_second_does_not(tmp_path, times, ended, capsys):
    whole = quiet(Hill(), Walk(), 60.0)
    before = signal.getsignal(signal.SIGINT)
    with Journal(tmp_path / "a.sqlite") as journal:
        history, finished, _ = drive(Interrupting(times), Walk(), 60.0, RunOptions(1), journal=journal, progress=False)
        assert not finished
        assert [len(history.done), len(history)] == [ended, 3]
        assert "Ctrl-C again stops at once" in capsys.readouterr().err
        assert signal.getsignal(signal.SIGINT) is before
        history, finished, _ = drive(Hill(), Walk(), 60.0, RunOptions(1), journal=journal, progress=False)
        assert finished
        assert timeless(history) == timeless(whole)


def test_an_interrupt_lets_workers_finish(tmp_path):
    """What was asked in the moment of the interrupt, and was not sent, is pending still."""
    problem = Interrupting(1)
    with Journal(tmp_path / "a.sqlite") as journal, ThreadPoolExecutor(2) as executor:
        history, finished, _ = drive(problem, Walk(), 60.0, RunOptions(2), executor, journal, progress=False)
        assert not finished
        assert problem.count == len(history.done)
        assert 3 <= len(history.done) <= 5
        assert len(history.pending) <= 1


def test_a_handler_of_someone_else_is_left_alone():
    heard = []
    former = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        _, finished, _ = drive(Interrupting(1), Walk(), 60.0, RunOptions(1), progress=False)
    finally:
        signal.signal(signal.SIGINT, former)
    assert heard == [1]
    assert finished


def test_values_are_taken_in_while_the_next_query_is_decided(tmp_path):
    """The third query is decided on a history without the value that came in meanwhile, and its replay knows."""
    release, path = threading.Event(), tmp_path / "a.sqlite"

    class Slow(Walk):
        def decide(self, history):
            if len(history) == 2 and len(history.pending) == 1:
                release.set()
                assert collected.wait(10)
            return super().decide(history)

    class Held(Hill):
        def evaluate(self, x, fidelity):
            if fidelity:
                assert release.wait(10)
            return super().evaluate(x, fidelity)

    collected = threading.Event()

    class Watching(Journal):
        def ended(self, record):
            super().ended(record)
            if record.query.fidelity:
                collected.set()

    with Watching(path) as journal, ThreadPoolExecutor(2) as executor:
        history = quiet(Held(), Slow(every=2), 12.0, executor=executor, max_pending=2, journal=journal)
        steps = list(journal.replay())
    assert len(history.done) == 3
    base, query = steps[2]
    assert [r.status for r in base] == [Status.DONE, Status.PENDING]
    assert Walk(every=2).bind(Hill().space, 12.0).ask(base)[0].x == query.x == history.records[2].query.x


def test_workers_that_join_are_used():
    class Growing(ThreadPoolExecutor):
        capacity = 1
        most = 0

        def submit(self, fn, /, *args):
            self.sent = getattr(self, "sent", 0) + 1
            self.capacity = 1 + (self.sent > 3)
            return super().submit(fn, *args)

    class Counting(Hill):
        busy, most = 0, 0

        def evaluate(self, x, fidelity):
            with lock:
                self.busy += 1
                Counting.most = max(Counting.most, self.busy)
            if self.most < 2:
                both.wait(0.2)
            with lock:
                self.busy -= 1
            return super().evaluate(x, fidelity)

    lock, both = threading.Lock(), threading.Event()
    with Growing(2) as executor:
        history = quiet(Counting(), Walk(every=100), 8.0, executor=executor, max_pending=None)
    assert len(history.done) == 8
    assert Counting.most == 2


def test_no_worker_at_first(monkeypatch, capsys):
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(runner, "PATIENCE", 2)

    class Late(ThreadPoolExecutor):
        looks = 0

        @property
        def capacity(self):
            self.looks += 1
            return int(self.looks > 3)

    with Late(1) as executor:
        history = quiet(Hill(), Walk(), 30.0, executor=executor, max_pending=None)
    assert timeless(history) == timeless(quiet(Hill(), Walk(), 30.0))
    assert "no worker to evaluate on; waiting for one to join" in capsys.readouterr().err


def test_earlier_observations_are_given_once_and_cost_nothing(tmp_path):
    given = [
        replace(History().asked(Query((x,), 1), 0.0).records[0].done(Hill().reward((x,), 1)), id=i)
        for i, x in enumerate((1.0, 4.0))
    ]
    with Journal(tmp_path / "a.sqlite") as journal:
        history, *_ = drive(Hill(), Walk(), 30.0, RunOptions(1), journal=journal, progress=False, given=given)
        assert history.records[:2] == tuple(given)
        assert history.spent <= 30.0 < history.spent + 10.0
        assert journal.history() == history
        assert drive(Hill(), Walk(), 30.0, RunOptions(1), journal=journal, progress=False, given=given)[0] == history
        optimizer = Optimizer(Walk(), journal, problem=Hill())
        refused(r"^warm_start = '2 observations': must be given before the first query$", optimizer.give, given)


def test_other_errors_of_an_executor_rise():
    class Odd(ThreadPoolExecutor):
        def submit(self, fn, /, *args):
            future = Future()
            future.set_exception(MemoryError("no room for the task"))
            return future

    with pytest.raises(MemoryError):
        quiet(Hill(), Walk(), 30.0, executor=Odd(1))


def test_an_executor_says_how_many_workers_it_has():
    class Silent(Executor):
        pass

    class Together(Hill):
        """Gives no value before three evaluations have begun."""

        begun, three = count(1), threading.Event()

        def evaluate(self, x, fidelity):
            if next(self.begun) == 3:
                self.three.set()
            assert self.three.wait(60)
            return super().evaluate(x, fidelity)

    with ThreadPoolExecutor(3) as executor:
        history = quiet(Together(), Walk(), 30.0, executor=executor, max_pending=None)
    assert max(r.query.meta["pending"] for r in history) >= 2  # or more, kept for them
    assert len(history.done) == len(history) > 3
    with pytest.raises(SettingError, match=r"^max_pending = None: must be a number here: Silent does not tell"):
        quiet(Hill(), Walk(), 30.0, executor=Silent(), max_pending=None)


class Wandering(Hill):
    """An objective that goes to another folder, and may remove one."""

    def __init__(self, folder: str = "/", gone: str = ""):
        super().__init__()
        self.folder, self.gone = folder, gone

    def evaluate(self, x, fidelity):
        os.chdir(self.folder)
        if self.gone and x[0] > 5:
            shutil.rmtree(self.gone, ignore_errors=True)
        return super().evaluate(x, fidelity)


@pytest.fixture
def run_of(tmp_path, monkeypatch):
    def start(**settings):
        problem = {"class_path": "test_survival.Wandering", "init_args": {"folder": "/", **settings}}
        text = yaml.safe_dump({"problem": problem, "strategy": "toy.Walk", "capital": 40})
        (tmp_path / "a.yaml").write_text(text)
        return cli.main(["run", "a.yaml", "--out", "out"])

    monkeypatch.chdir(tmp_path)
    return start


def test_results_are_where_they_belong_when_an_objective_changes_the_folder(tmp_path, run_of):
    assert run_of() == 0
    names = {"config.yaml", "history.sqlite", "summary.json", "progress.png", "run.log"}
    assert names <= {path.name for path in (tmp_path / "out").iterdir()}


def test_an_output_folder_that_is_removed_during_a_run_costs_nothing(tmp_path, run_of, capsys):
    assert run_of(gone=str(tmp_path / "out")) == 2
    err = capsys.readouterr().err
    saved = tmp_path / "out.saved.sqlite"
    assert err.count("mfbo:") == 1
    assert f"must be left where it is during a run; what is known is in {saved}" in err
    assert not (tmp_path / "out").exists()
    with Journal(saved) as journal:
        assert journal.history().done
        assert not journal.history().pending


class Full(Journal):
    """Without room, ``refusals`` times, for a query or for a value."""

    refusals, asking = 2, False

    def refuse(self):
        if self.refusals:
            self.refusals -= 1
            raise DiskFull(self.path, "on a disk with room: database or disk is full")

    def asked(self, records, seen=None):
        if self.asking and self._sequence > 2:
            self.refuse()
        super().asked(records, seen)

    def ended(self, record):
        if not self.asking and record.id == 1:
            self.refuse()
        super().ended(record)


@pytest.mark.parametrize("asking", [False, True])
def test_a_full_disk_is_waited_for_and_nothing_is_lost_or_given_out(tmp_path, monkeypatch, capsys, asking):
    monkeypatch.setattr(disk_waits, "DISK_WAITS", (0.0, 0.0))
    monkeypatch.setattr(Full, "asking", asking)

    class Watching(Hill):
        def evaluate(self, x, fidelity):
            assert tuple(x) in [r.query.x for r in journal.history().pending]
            return super().evaluate(x, fidelity)

    with Full(tmp_path / "a.sqlite") as journal:
        history = quiet(Watching(), Walk(), 30.0, journal=journal)
        assert journal.history() == history
    assert timeless(history) == timeless(quiet(Hill(), Walk(), 30.0))
    assert capsys.readouterr().err.count("trying again in 0 s, nothing is lost") == 2
    with Full(tmp_path / "b.sqlite") as journal:
        journal.refusals = 3
        with pytest.raises(DiskFull):
            quiet(Watching(), Walk(), 30.0, journal=journal)
        assert not (asking and journal.history().pending)
        journal.refusals = 0
        assert timeless(quiet(Watching(), Walk(), 30.0, journal=journal)) == timeless(history)


def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path):
    code = """
import resource, sys
from mfbo_torch.history import Query, Record
from mfbo_torch.history.storage.journal import DiskFull, Journal
with Journal(sys.argv[1]) as journal:
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    try:
        journal.asked([Record(0, Query((0.0,), 0, {"note": "x" * 50_000}), 1.0)])
    except DiskFull:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        journal.asked([Record(0, Query((0.0,), 0, {"note": "x" * 50_000}), 1.0)])
        print(len(journal.history()))
"""
    found = subprocess.run([sys.executable, "-c", code, tmp_path / "a.sqlite"], capture_output=True, text=True)
    assert found.stdout == "1\n", found.stderr
