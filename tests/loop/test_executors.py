"""Workers of both kinds: values, time limits, deaths, and the same answers everywhere."""

import asyncio
import builtins
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_runner import quiet, timeless
from toy import Hill, Walk

from mfbo_torch.history import Status
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.executors import DaskWorkers, WorkerLost, dask_workers, processes, start, workers
from mfbo_torch.utils.errors import SettingError

KINDS = ["processes", "dask"]


def double(x):
    return 2 * x


def repeat(times, x):
    return [x] * times


def make_a_lock():
    return threading.Lock()


class Unreadable(ValueError):
    def __init__(self, one, two):
        super().__init__(one)


def raise_unreadable():
    raise Unreadable(1, 2)


def fall_asleep(seconds):
    time.sleep(seconds)
    return seconds


def end_the_worker():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_dies_or_hangs_takes_nothing_else_with_it(kind):
    if kind == "dask":
        pytest.importorskip("distributed")
    with start(kind, 2, timeout=1.0) as workers:
        assert workers.submit(double, 4).result() == 8
        assert workers.capacity == 2
        hanging = workers.submit(fall_asleep, 60.0)
        dying = workers.submit(end_the_worker)
        with pytest.raises(TimeoutError, match="no value within 1 seconds"):
            hanging.result()
        with pytest.raises(WorkerLost, match="died"):
            dying.result()
        assert [workers.submit(double, i).result() for i in range(4)] == [0, 2, 4, 6]
        with pytest.raises(TypeError):
            workers.submit(double, None).result()


@pytest.mark.parametrize("kind", KINDS)
def test_one_worker_decides_as_this_process_does(kind, tmp_path):
    if kind == "dask":
        pytest.importorskip("distributed")
    problem = Hill(trouble="raise", error=0.5)
    here = timeless(quiet(problem, Walk(), 60.0))
    with start(kind, 1) as workers, Journal(tmp_path / "a.sqlite") as journal:
        there = quiet(problem, Walk(), 60.0, executor=workers, max_pending=None, journal=journal)
        again = [(history, query) for history, query in journal.replay()]
    assert timeless(there) == here
    assert {r.standard_error for r in there.done} == {0.5}
    strategy = Walk().bind(Hill().space, 60.0)
    assert all(strategy.ask(history)[0].x == query.x for history, query in again)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["die", "hang"])
def test_an_evaluation_that_takes_its_worker_along_fails_alone(trouble):
    problem = Hill(trouble=trouble, upper=6.0)
    with start("processes", 2, timeout=1.0) as workers:
        history = quiet(problem, Walk(every=100), 6.0, executor=workers, max_pending=None)
    said = {"die": "WorkerLost: the process died, exit code -9", "hang": "TimeoutError: no value within 1 seconds"}
    for record in history:
        assert record.status == (Status.FAILED if record.query.x[0] > 5 else Status.DONE)
        assert record.reason == (said[trouble] if record.query.x[0] > 5 else "")
    assert len(history) == 6
    assert history.select(Status.FAILED)


def leave_politely():
    os._exit(0)


def hold_the_lock():
    """Never gives another thread of the process a turn."""
    ctypes.PyDLL(None).sleep(600)


def start_a_child(path):
    child = subprocess.Popen(["sleep", "600"])
    Path(path).write_text(str(child.pid))
    time.sleep(600)


class Quitting:
    """What a module is that calls ``sys.exit(0)`` when a worker imports it."""

    def __reduce__(self):
        return sys.exit, (0,)


TROUBLES = [
    ("exit 0", leave_politely, [], WorkerLost, "the (process|worker) died"),
    ("import exit", double, [Quitting()], WorkerLost, r"a module that it imports calls sys\.exit\(0\)"),
    ("the lock held", hold_the_lock, [], TimeoutError, "no value within 2 seconds"),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_hangs(kind, monkeypatch):
    """Exit code 0, an import that ends the process, an evaluation that lets nothing else run: all end with a reason."""
    if kind == "dask":
        pytest.importorskip("distributed")
        monkeypatch.setattr(dask_workers, "SILENCE", 10.0)
    with start(kind, 2, timeout=2.0) as workers:
        assert workers.submit(double, 1).result(600) == 2
        for _, fn, args, error, said in TROUBLES:
            with pytest.raises(error, match=said):
                workers.submit(fn, *args).result(600)
        assert [workers.submit(double, i).result(600) for i in range(4)] == [0, 2, 4, 6]


def until(condition):
    give_up = time.monotonic() + 120
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.001)
    assert condition()


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("how", ["timeout", "shutdown"])
def test_what_an_evaluation_has_started_ends_with_it(how, tmp_path):
    path = tmp_path / "pid"
    with start("processes", 1, timeout=5.0 if how == "timeout" else None) as workers:
        future = workers.submit(start_a_child, str(path))
        give_up = time.monotonic() + 600
        while not (path.exists() and path.read_text()) and time.monotonic() < give_up:
            time.sleep(0.05)
        pid = int(path.read_text())
        if how == "timeout":
            with pytest.raises(TimeoutError):
                future.result(600)
    while alive(pid) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not alive(pid)


@pytest.mark.slow
def test_idle_workers_that_die_and_workers_interrupted_at_their_start_are_replaced():
    with start("processes", 2) as workers:
        assert workers.submit(double, 1).result(120) == 2
        for _ in range(2):
            for seat in workers._seats:
                until(lambda seat=seat: seat.process is not None and seat.process.pid)
                with suppress(ProcessLookupError):  # one that has died is replaced when it is needed
                    os.kill(seat.process.pid, signal.SIGINT)
                    os.kill(seat.process.pid, signal.SIGKILL)
            futures = [workers.submit(double, i) for i in range(4)]
            assert [future.result(120) for future in futures] == [0, 2, 4, 6]


@pytest.mark.slow
def test_workers_killed_as_they_answer_take_nothing_but_their_own_evaluations():
    """Whatever they share with others, they hold it just then."""
    with start("processes", 2) as workers:

        def kill(_):
            for seat in workers._seats:
                with suppress(AttributeError, TypeError, ProcessLookupError):
                    os.kill(seat.process.pid, signal.SIGKILL)

        for i in range(4):
            futures = [workers.submit(repeat, 100_000, k) for k in range(20)]
            futures[i].add_done_callback(kill)
            errors = [future.exception(120) for future in futures]
            assert all(error is None or isinstance(error, WorkerLost) for error in errors)
            assert errors.count(None) >= 18
            assert all(future.exception() or future.result() == [k] * 100_000 for k, future in enumerate(futures))


@pytest.mark.slow
def test_an_evaluation_that_is_cancelled_ends():
    with start("processes", 1) as workers:
        workers.submit(double, 1).result(120)
        process = workers._seats[0].process
        sleeping, next_one = workers.submit(fall_asleep, 600.0), workers.submit(double, 2)
        time.sleep(0.5)
        assert sleeping.cancel()
        assert next_one.result(120) == 4
        assert not process.is_alive()


@pytest.mark.slow
def test_what_cannot_travel_fails_alone():
    with start("processes", 1) as workers:
        with pytest.raises(Exception, match="pickle"):
            workers.submit(lambda: 1).result(120)
        with pytest.raises(RuntimeError, match="pickle"):
            workers.submit(make_a_lock).result(120)
        with pytest.raises(TypeError, match="missing 1 required"):
            workers.submit(raise_unreadable).result(120)
        assert workers.submit(double, 1).result(120) == 2
    with pytest.raises(RuntimeError, match="shut down"):
        workers.submit(double, 1)


@pytest.mark.slow
def test_a_program_that_forgets_its_workers_ends(tmp_path):
    """Waiting, evaluating or starting: the interpreter does not wait for them."""
    script = tmp_path / "forgets.py"
    script.write_text(
        "import time\nfrom mfbo_torch.loop.executors import Processes\n"
        "if __name__ == '__main__':\n"
        "    pool = Processes(2)\n    print(pool.submit(abs, -1).result())\n    pool.submit(time.sleep, 600)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "1\n"
    assert not done.stderr


@pytest.mark.slow
def test_ctrl_c_while_workers_start_is_not_theirs():
    with start("processes", 1) as workers:
        future = workers.submit(double, 2)
        (seat,) = workers._seats
        until(lambda: seat.process is not None and seat.process.pid)
        process = seat.process
        for _ in range(20):
            os.kill(process.pid, signal.SIGINT)
            time.sleep(0.01)
        assert future.result(600) == 4
        assert process.is_alive()


@pytest.mark.slow
def test_workers_that_never_begin_break_the_pool(monkeypatch):
    monkeypatch.setattr(processes, "USELESS", 1)
    monkeypatch.setattr(processes, "_begin", leave_politely)
    with start("processes", 1) as workers, pytest.raises(BrokenExecutor, match="end before they have begun anything"):
        workers.submit(double, 2).result(600)


def test_dask_that_is_not_there(monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name in ("dask", "distributed"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingError, match=r"must be installed: pip install 'mfbo-torch\[dask\]'"), start("dask"):
        pass


def test_no_scheduler_at_an_address():
    pytest.importorskip("distributed")
    with (
        pytest.raises(SettingError, match=r"scheduler = 'nonsense://a': must be the address of a running Dask"),
        start("dask", scheduler="nonsense://a"),
    ):
        pass


class Cluster:
    """What :class:`DaskWorkers` sees of a Dask client: workers by name, and evaluations that end when they are told."""

    def __init__(self, **threads):
        self.threads, self.status, self.sent = threads, "running", {}
        self.silent, self.beats = False, 0

    def get_executor(self, **settings):
        return self

    def nthreads(self):
        if self.status == "closed":
            raise OSError("gone")
        return dict(self.threads)

    def scheduler_info(self):
        """As of former versions, which take no number of workers."""
        self.beats += 0 if self.silent else 1
        return {"workers": {address: {"last_seen": self.beats} for address in self.threads}}

    def restart_workers(self, addresses, **settings):
        for address in addresses:
            self.threads.pop(address)

    def submit(self, within, timeout, packed, *, workers, allow_other_workers):
        future = Future()
        _, args = pickle.loads(packed)
        self.sent[args] = workers[0], future
        assert not allow_other_workers
        return future

    def shutdown(self, wait):
        pass

    def until(self, condition):
        """Wait for the thread that looks after the workers."""
        give_up = time.monotonic() + 20
        while not condition() and time.monotonic() < give_up:
            time.sleep(0.01)
        assert condition()


@pytest.fixture
def brisk(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_workers, "LOOK_AROUND", 0.02)


def test_dask_workers_get_one_evaluation_a_thread(brisk):
    cluster = Cluster(a=1, b=2)
    workers = DaskWorkers(cluster)
    futures = [workers.submit(double, i) for i in range(5)]
    cluster.until(lambda: len(cluster.sent) == 3)
    assert sorted(address for address, _ in cluster.sent.values()) == ["a", "b", "b"]
    cluster.threads["c"] = 1
    cluster.until(lambda: len(cluster.sent) == 4)
    assert workers.capacity == 4
    assert futures[4].cancel()
    for (i,), (_, future) in cluster.sent.items():
        future.set_result(2 * i)
    assert [future.result() for future in futures[:4]] == [0, 2, 4, 6]
    workers.shutdown()


def test_a_dask_worker_that_is_gone_is_noticed(brisk):
    """Also where the scheduler would wait for it to come back."""
    cluster = Cluster(a=1, b=1)
    workers = DaskWorkers(cluster)
    first, second = workers.submit(double, 1), workers.submit(double, 2)
    cluster.until(lambda: len(cluster.sent) == 2)
    del cluster.threads[cluster.sent[1,][0]]
    with pytest.raises(WorkerLost, match="the worker died"):
        first.result(20)
    cluster.until(cluster.sent[1,][1].cancelled)
    cluster.sent[2,][1].set_result(4)
    assert second.result(20) == 4
    third = workers.submit(double, 3)
    cluster.until(lambda: len(cluster.sent) == 3)
    cluster.sent[3,][1].cancel()  # as someone does who restarts the workers
    with pytest.raises(WorkerLost, match="the worker died"):
        third.result(20)
    workers.shutdown()


def test_a_dask_worker_that_dies_while_others_are_counted_gets_nothing(brisk):
    """Its evaluation ends, and so does the worker, after the scheduler has named it."""
    from distributed import KilledWorker

    cluster = Cluster(a=1)
    workers = DaskWorkers(cluster)
    first = workers.submit(double, 1)
    cluster.until(lambda: len(cluster.sent) == 1)
    seen = cluster.nthreads

    def late():
        found = seen()
        if found and not cluster.sent[1,][1].done():
            cluster.sent[1,][1].set_exception(KilledWorker("key", None, 0))
            cluster.threads.clear()
        return found

    cluster.nthreads = late
    second = workers.submit(double, 2)
    with pytest.raises(WorkerLost, match="the worker died"):
        first.result(20)
    cluster.threads["b"] = 1
    cluster.until(lambda: len(cluster.sent) == 2)
    assert cluster.sent[2,][0] == "b"
    cluster.sent[2,][1].set_result(4)
    assert second.result(20) == 4
    workers.shutdown()


def test_a_dask_worker_that_hangs_gets_nothing_until_it_has_started_anew(brisk):
    cluster = Cluster(a=1)
    workers = DaskWorkers(cluster, timeout=1.0)
    hanging = workers.submit(double, 1)
    cluster.until(lambda: len(cluster.sent) == 1)
    cluster.sent[1,][1].set_exception(dask_workers.Late())
    with pytest.raises(TimeoutError, match="no value within 1 seconds"):
        hanging.result(20)
    assert workers.capacity == 0
    workers.submit(double, 2)
    del cluster.threads["a"]
    cluster.until(lambda: not workers._given_up)
    assert len(cluster.sent) == 1
    cluster.threads["a"] = 1
    cluster.until(lambda: len(cluster.sent) == 2)
    workers.shutdown(cancel_futures=True)


def test_a_late_dask_worker_is_given_up_when_nothing_is_heard_of_it(brisk, monkeypatch):
    """One that is still importing is heard of."""
    monkeypatch.setattr(dask_workers, "SILENCE", 0.3)
    monkeypatch.setattr(dask_workers, "BEGINNING", 600.0)
    cluster = Cluster(a=1, b=1)
    workers = DaskWorkers(cluster, timeout=0.1)
    late = workers.submit(double, 1)
    time.sleep(1.0)
    assert not late.done()
    assert workers.capacity == 2
    cluster.silent = True
    with pytest.raises(TimeoutError, match=r"no value within 0\.1 seconds"):
        late.result(20)
    cluster.until(lambda: len(cluster.threads) == 1)
    assert workers.capacity == 1
    workers.shutdown(cancel_futures=True)


def test_a_scheduler_that_goes_away_breaks_the_executor(brisk):
    cluster = Cluster(a=1)
    workers = DaskWorkers(cluster)
    futures = [workers.submit(double, i) for i in range(3)]
    cluster.until(lambda: len(cluster.sent) == 1)
    cluster.status = "closed"
    for future in futures:
        with pytest.raises(BrokenExecutor, match="the Dask scheduler is gone"):
            future.result(20)
    assert workers.capacity == 0
    workers.shutdown()


def test_settling_leaves_this_process_alone(monkeypatch):
    """Outside a worker there is no parent to end with."""
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)
    monkeypatch.setattr(workers.torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr(workers.output_streams, "endure", lambda: None)
    before = workers.threading.active_count()
    workers.settle()
    assert workers.threading.active_count() == before


@pytest.mark.parametrize("nanny", [None, "tcp://a:1"])
def test_a_dask_worker_that_hung_ends_its_process_only_if_it_is_its_own(nanny, monkeypatch):
    pytest.importorskip("distributed")
    ends, counts = [], iter([1, 0])

    class State:
        @property
        def executing_count(self):
            return next(counts)

    async def close(reason):
        ends.append(reason)

    async def soon(seconds):
        pass

    monkeypatch.setattr(dask_workers.asyncio, "sleep", soon)
    monkeypatch.setattr(dask_workers, "leave", lambda: ends.append(1))
    asyncio.run(dask_workers._retire(SimpleNamespace(nanny=nanny, state=State(), close=close, status=None)))
    assert ends == ([1] if nanny else ["an evaluation outlived its timeout"])
