"""Workers of both kinds: values, time limits, deaths, and the same answers everywhere."""

import builtins
import ctypes
import operator
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from quiet_runs import quiet, timeless, until
from refusals import refused
from toy import Hill, Walk

from mfbo_torch.history import Status
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.executors import WorkerLost, dask_workers, processes, start, workers
from mfbo_torch.loop.executors.workers import without_ctrl_c

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is not installed")
KINDS = ["processes", pytest.param("dask", marks=needs_dask)]


def double(x):
    return 2 * x


class Unreadable(ValueError):
    def __init__(self, one, two):
        super().__init__(one)


def raise_unreadable():
    raise Unreadable(1, 2)


def end_the_worker():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_dies_or_hangs_takes_nothing_else_with_it(kind):
    with start(kind, 2, timeout=1.0) as workers:
        assert workers.submit(double, 4).result() == 8
        assert workers.capacity == 2
        hanging = workers.submit(time.sleep, 60.0)
        dying = workers.submit(end_the_worker)
        with pytest.raises(TimeoutError, match="no value within 1 seconds"):
            hanging.result()
        with pytest.raises(WorkerLost, match="died"):
            dying.result()
        assert [workers.submit(double, i).result() for i in range(4)] == [0, 2, 4, 6]
        with pytest.raises(TypeError):
            workers.submit(double, None).result()


@pytest.mark.parametrize("kind", ["processes", pytest.param("dask", marks=[pytest.mark.slow, needs_dask])])
def test_one_worker_decides_as_this_process_does(kind, tmp_path):
    problem = Hill(trouble="raise", error=0.5)
    here = timeless(quiet(problem, Walk(), 60.0))
    with start(kind, 1) as workers, Journal(tmp_path / "a.sqlite") as journal:
        there = quiet(problem, Walk(), 60.0, executor=workers, max_pending=None, journal=journal)
        again = list(journal.replay())
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
    (leave_politely, [], WorkerLost, "the (process|worker) died"),
    (double, [Quitting()], WorkerLost, r"a module that it imports calls sys\.exit\(0\)"),
    (hold_the_lock, [], TimeoutError, "no value within 2 seconds"),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_hangs(kind, monkeypatch):
    """Exit code 0, an import that ends the process, an evaluation that lets nothing else run: all end with a reason."""
    monkeypatch.setattr(dask_workers, "SILENCE", 10.0)
    with start(kind, 2, timeout=2.0) as workers:
        assert workers.submit(double, 1).result(600) == 2
        for fn, args, error, said in TROUBLES:
            with pytest.raises(error, match=said):
                workers.submit(fn, *args).result(600)
        assert [workers.submit(double, i).result(600) for i in range(4)] == [0, 2, 4, 6]


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
        until(lambda: path.exists() and path.read_text())
        pid = int(path.read_text())
        if how == "timeout":
            with pytest.raises(TimeoutError):
                future.result(600)
    until(lambda: not alive(pid))


@pytest.mark.slow
def test_idle_workers_that_die_and_workers_interrupted_at_their_start_are_replaced():
    with start("processes", 2) as workers:
        assert workers.submit(double, 1).result(120) == 2
        for _ in range(2):
            for slot in workers._slots:
                until(lambda slot=slot: slot.process is not None and slot.process.pid)
                with suppress(ProcessLookupError):  # one that has died is replaced when it is needed
                    os.kill(slot.process.pid, signal.SIGINT)
                    os.kill(slot.process.pid, signal.SIGKILL)
            futures = [workers.submit(double, i) for i in range(4)]
            assert [future.result(120) for future in futures] == [0, 2, 4, 6]


@pytest.mark.slow
def test_workers_killed_as_they_answer_take_nothing_but_their_own_evaluations():
    """Whatever they share with others, they hold it just then."""
    with start("processes", 2) as workers:

        def kill(_):
            for slot in workers._slots:
                with suppress(AttributeError, TypeError, ProcessLookupError):
                    os.kill(slot.process.pid, signal.SIGKILL)

        for i in range(4):
            futures = [workers.submit(operator.mul, [k], 100_000) for k in range(20)]
            futures[i].add_done_callback(kill)
            errors = [future.exception(120) for future in futures]
            assert all(error is None or isinstance(error, WorkerLost) for error in errors)
            assert errors.count(None) >= 18
            assert all(future.exception() or future.result() == [k] * 100_000 for k, future in enumerate(futures))


@pytest.mark.slow
def test_an_evaluation_that_is_cancelled_ends():
    with start("processes", 1) as workers:
        workers.submit(double, 1).result(120)
        process = workers._slots[0].process
        sleeping, next_one = workers.submit(time.sleep, 600.0), workers.submit(double, 2)
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
            workers.submit(threading.Lock).result(120)
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
        (slot,) = workers._slots
        until(lambda: slot.process is not None and slot.process.pid)
        process = slot.process
        for _ in range(20):
            os.kill(process.pid, signal.SIGINT)
            time.sleep(0.01)
        assert future.result(600) == 4
        assert process.is_alive()


@pytest.mark.slow
def test_workers_that_never_begin_break_the_pool(monkeypatch):
    monkeypatch.setattr(processes, "FAILED_STARTS", 1)
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
    refused(r"must be installed: pip install 'mfbo-torch\[dask\]'", start("dask").__enter__)


def test_no_scheduler_at_an_address():
    pytest.importorskip("distributed")
    said = "scheduler = 'nonsense://a': must be the address of a running Dask"
    refused(said, start("dask", scheduler="nonsense://a").__enter__)


def test_settling_leaves_this_process_alone(monkeypatch):
    """Outside a worker there is no parent to end with."""
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)
    monkeypatch.setattr("torch.set_num_threads", lambda _: None)
    monkeypatch.setattr(workers.output_streams, "tolerate_broken_output", lambda: None)
    before = workers.threading.active_count()
    workers.set_up_worker()
    assert workers.threading.active_count() == before


def test_ctrl_c_is_heard_at_the_end_of_the_start_whichever_thread_gets_it():
    started, reached = threading.Event(), threading.Event()

    def press():
        started.wait(60)
        os.kill(os.getpid(), signal.SIGINT)  # this thread was there before, so it may get it

    thread = threading.Thread(target=press)
    thread.start()

    def begin():
        with without_ctrl_c():
            started.set()
            thread.join()
            time.sleep(0.1)
            reached.set()

    with pytest.raises(KeyboardInterrupt):
        begin()
    assert reached.is_set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_a_dask_cluster_that_is_interrupted_while_it_starts_ends_with_all_its_processes(tmp_path):
    pytest.importorskip("distributed")
    script = tmp_path / "starts.py"
    script.write_text(
        "import signal\nfrom mfbo_torch.loop.executors import start\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    print('begins', flush=True)\n"
        "    with start('dask', 1):\n        print('never', flush=True)\n"
    )
    driver = subprocess.Popen(
        [sys.executable, script], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "begins\n"
    until(lambda: driver.poll() is not None or has_children(driver.pid))
    time.sleep(0.2)  # multiprocessing's own helper is there, the cluster starts
    os.killpg(driver.pid, signal.SIGINT)
    out, err = driver.communicate(timeout=300)
    assert out == ""
    assert "KeyboardInterrupt" in err
    assert driver.returncode
    until(lambda: not group_alive(driver.pid))


def has_children(process: int) -> bool:
    return any(path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children"))


def group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
