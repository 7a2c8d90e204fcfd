"""Workers of both kinds: values, time limits, deaths, and the same answers everywhere."""

import builtins
import os
import signal
import time
from concurrent.futures import BrokenExecutor, CancelledError

import pytest
from test_runner import quiet, timeless
from toy import Hill, Walk

from mfbo_torch import executors
from mfbo_torch.errors import SettingError
from mfbo_torch.executors import DaskWorkers, WorkerLost, start
from mfbo_torch.history import Status
from mfbo_torch.journal import Journal

KINDS = ["processes", "dask"]


def double(x):
    return 2 * x


def fall_asleep(seconds):
    time.sleep(seconds)
    return seconds


def end_the_worker():
    os.kill(os.getpid(), signal.SIGKILL)


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
    here = timeless(quiet(Hill(trouble="raise"), Walk(), 60.0))
    with start(kind, 1) as workers, Journal(tmp_path / "a.sqlite") as journal:
        there = quiet(Hill(trouble="raise"), Walk(), 60.0, executor=workers, max_pending=None, journal=journal)
        again = [(history, query) for history, query in journal.replay()]
    assert timeless(there) == here
    strategy = Walk().bind(Hill().space, 60.0)
    assert all(strategy.ask(history)[0].x == query.x for history, query in again)


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "threads"}, r"executor = 'threads': must be 'processes' or 'dask'"),
        ({"workers": 0}, "workers = 0: must be a whole number from 1 on"),
        ({"timeout": 0.0}, "timeout = 0.0: must be a number of seconds above 0"),
        ({"timeout": float("nan")}, "timeout = nan: must be a number of seconds above 0"),
        ({"scheduler": "tcp://a:1"}, "scheduler = 'tcp://a:1': must be left out, or given with executor dask"),
    ],
)
def test_settings_that_cannot_work(settings, message):
    with pytest.raises(SettingError, match=f"^{message}$"):
        start(**settings)


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


def test_a_scheduler_that_goes_away_breaks_the_executor():
    workers = DaskWorkers.__new__(DaskWorkers)
    assert isinstance(workers._translated(CancelledError()), BrokenExecutor)


def test_settling_leaves_this_process_alone(monkeypatch):
    """Outside a worker there is no parent to end with."""
    monkeypatch.setattr(executors.signal, "signal", lambda *_: None)
    monkeypatch.setattr(executors.torch, "set_num_threads", lambda _: None)
    before = executors.threading.active_count()
    executors._settle()
    assert executors.threading.active_count() == before
