"""What evaluations do to the processes that evaluate them, and to the line between them and this one."""

import os
import random
import subprocess
import sys
import threading
import time

import pytest
from refusals import refused
from toy import Hill, Walk

from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.loop.executors import WorkerLost, processes, start
from mfbo_torch.loop.runner import run

pytestmark = pytest.mark.slow
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="a system that copies processes")


def double(x):
    return 2 * x


def fork_and_return(x):
    """The copy comes back too, and says something else."""
    copy = os.fork() == 0
    return -1 if copy else 2 * x


def fork_and_raise(x):
    if os.fork() == 0:
        raise KeyboardInterrupt
    return 2 * x


def leave_a_copy_and_die(x):
    if os.fork() == 0:
        time.sleep(600)
    os._exit(3)


def close_everything(x):
    os.closerange(3, 256)
    return 2 * x


class Ending:
    """Ends whoever unpickles it in one of the ways there are."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        return _raise, (self.error,)


def _raise(error):
    raise error()


class Slow:
    """Takes its time to be unpickled, as a module does that never comes to an end."""

    def __reduce__(self):
        return time.sleep, (600,)


@needs_fork
@pytest.mark.parametrize("fn", [fork_and_return, fork_and_raise])
def test_a_copy_that_an_evaluation_makes_of_its_process_says_nothing(fn):
    with start("processes", 1) as workers:
        assert [workers.submit(fn, i).result(600) for i in range(5)] == [0, 2, 4, 6, 8]
        assert [workers.submit(double, i).result(600) for i in range(5)] == [0, 2, 4, 6, 8]


class Forking(Hill):
    """Its evaluations make a copy of the whole program."""

    def evaluate(self, x, fidelity):
        os.fork()
        return super().evaluate(x, fidelity)


@needs_fork
def test_a_copy_of_the_program_writes_no_journal(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        history = run(Forking(), Walk(), 20.0, journal=journal, progress=False)
        assert journal.history() == history
    with Journal(tmp_path / "a.sqlite", read_only=True) as journal:
        assert journal.history() == history


@pytest.mark.parametrize(
    ("fn", "said"), [(close_everything, ""), pytest.param(leave_a_copy_and_die, "exit code 3", marks=needs_fork)]
)
def test_what_closes_everything_or_leaves_a_copy_behind_is_a_failure(fn, said):
    with start("processes", 1) as workers:
        assert workers.submit(double, 1).result(600) == 2
        with pytest.raises(WorkerLost, match=said):
            workers.submit(fn, 1).result(600)
        assert workers.submit(double, 1).result(600) == 2


def test_much_goes_both_ways():
    with start("processes", 1, timeout=60.0) as workers:
        assert len(workers.submit(bytes, 50_000_000).result(600)) == 50_000_000
        assert workers.submit(len, bytes(50_000_000)).result(600) == 50_000_000


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_cannot_be_unpickled_is_a_failure_on_both_sides(error):
    with start("processes", 1) as workers:
        assert isinstance(workers.submit(double, Ending(error)).exception(600), (error, WorkerLost))
        with pytest.raises(error):
            workers.submit(Ending, error).result(600)
        assert workers.submit(double, 1).result(600) == 2


class Elsewhere(Hill):
    """Needs a module that its worker does not have."""

    def __reduce__(self):
        return __import__, ("not_there",)


def test_what_a_worker_cannot_import_is_a_wrong_setting():
    said = "^objective = 'Elsewhere': must be a function that the workers can import, .*No module named 'not_there'"
    with start("processes", 1) as workers:
        refused(said, run, Elsewhere(), Walk(), 20.0, progress=False, executor=workers)


def test_what_is_never_imported_to_the_end_is_a_failure_in_bounded_time(monkeypatch):
    monkeypatch.setattr(processes, "IMPORT_SECONDS", 10.0)
    with start("processes", 1, timeout=0.5) as workers, pytest.raises(TimeoutError, match="not begun within 10 s"):
        workers.submit(max, Slow(), bytes(5_000_000)).result(600)


def test_a_program_without_a_main_guard_ends(tmp_path):
    """Its workers run all of it again, and may not start workers of their own."""
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from mfbo_torch.loop.executors import start\n"
        "with start('processes', 1) as workers:\n    print(workers.submit(abs, -1).result())\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert "end before they have begun anything" in done.stderr
    assert "__main__" in done.stderr


def test_a_pool_that_is_shut_down_while_it_starts_leaves_nothing():
    moments, before = random.Random(0), set(threading.enumerate())
    for _ in range(8):
        pool = processes.Processes(2)
        futures = [pool.submit(double, i) for i in range(4)]
        time.sleep(moments.choice([0.0, 0.001, 0.01, 0.05, 0.3]))
        pool.shutdown(cancel_futures=True)
        assert all(future.done() for future in futures)
        assert not [slot for slot in pool._slots if slot.is_alive()]
        assert not [slot for slot in pool._slots if slot.process is not None]
    assert set(threading.enumerate()) <= before


@needs_fork
def test_an_evaluation_in_this_process_ends_its_copies():
    assert evaluate(Forking(), (1.0,), 0).observation is not None
    assert os.waitpid(-1, 0)[1] == 0
