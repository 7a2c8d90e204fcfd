"""Dask workers, with a cluster that does what a test tells it to."""

import asyncio
import pickle
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from quiet_runs import until
from refusals import refused
from toy import Hill, Walk

from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.executors import DaskWorkers, Processes, WorkerLost, cluster, dask_workers
from mfbo_torch.loop.runner import run


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


@pytest.fixture
def brisk(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.02)


def test_dask_workers_get_one_evaluation_a_thread(brisk):
    cluster = Cluster(a=1, b=2)
    workers = DaskWorkers(cluster)
    futures = [workers.submit(abs, i) for i in range(5)]
    until(lambda: len(cluster.sent) == 3)
    assert sorted(address for address, _ in cluster.sent.values()) == ["a", "b", "b"]
    cluster.threads["c"] = 1
    until(lambda: len(cluster.sent) == 4)
    assert workers.capacity == 4
    assert futures[4].cancel()
    for (i,), (_, future) in cluster.sent.items():
        future.set_result(2 * i)
    assert [future.result() for future in futures[:4]] == [0, 2, 4, 6]
    workers.shutdown()


def test_what_cannot_be_sent_is_refused_before_anything_is_asked(brisk, tmp_path):
    problem = Hill()
    problem.objective = lambda x: x
    DaskWorkers(Cluster(a=1)).packed(problem)  # which Dask sends all the same
    problem.lock = threading.Lock()
    with Journal(tmp_path / "a.sqlite") as journal:
        said = "^objective = 'Hill': must be a function at the top of a module, without open files or locks: .*pickle"
        for executor in (DaskWorkers(Cluster(a=1)), Processes(1), ProcessPoolExecutor(1)):
            refused(said, run, problem, Walk(), 20.0, journal=journal, progress=False, executor=executor)
            executor.shutdown(wait=False)
        assert not len(journal.history())


def test_what_an_executor_of_others_cannot_send_is_named():
    """As Dask's own does, which pickles while it takes an evaluation."""

    class Pickling(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **settings):
            pickle.dumps(args)
            return super().submit(fn, *args, **settings)

    problem = Hill()
    problem.lock = threading.Lock()
    said = "^objective = 'Hill': must be a function at the top of a module"
    with Pickling(1) as executor:
        refused(said, run, problem, Walk(), 20.0, progress=False, executor=executor)


def test_a_dask_worker_that_is_gone_is_noticed(brisk):
    """Also where the scheduler would wait for it to come back."""
    cluster = Cluster(a=1, b=1)
    workers = DaskWorkers(cluster)
    first, second = workers.submit(abs, 1), workers.submit(abs, 2)
    until(lambda: len(cluster.sent) == 2)
    del cluster.threads[cluster.sent[1,][0]]
    with pytest.raises(WorkerLost, match="the worker died"):
        first.result(20)
    until(cluster.sent[1,][1].cancelled)
    cluster.sent[2,][1].set_result(4)
    assert second.result(20) == 4
    third = workers.submit(abs, 3)
    until(lambda: len(cluster.sent) == 3)
    cluster.sent[3,][1].cancel()  # as someone does who restarts the workers
    with pytest.raises(WorkerLost, match="the worker died"):
        third.result(20)
    workers.shutdown()


def test_a_dask_worker_that_dies_while_others_are_counted_gets_nothing(brisk):
    """Its evaluation ends, and so does the worker, after the scheduler has named it."""
    from distributed import KilledWorker

    cluster = Cluster(a=1)
    workers = DaskWorkers(cluster)
    first = workers.submit(abs, 1)
    until(lambda: len(cluster.sent) == 1)
    seen = cluster.nthreads

    def late():
        found = seen()
        if found and not cluster.sent[1,][1].done():
            cluster.threads.clear()  # first: once the evaluation has ended the test names another one
            cluster.sent[1,][1].set_exception(KilledWorker("key", None, 0))
        return found

    cluster.nthreads = late
    second = workers.submit(abs, 2)
    with pytest.raises(WorkerLost, match="the worker died"):
        first.result(20)
    cluster.threads["b"] = 1
    until(lambda: len(cluster.sent) == 2)
    assert cluster.sent[2,][0] == "b"
    cluster.sent[2,][1].set_result(4)
    assert second.result(20) == 4
    workers.shutdown()


def test_a_dask_worker_that_hangs_gets_nothing_until_it_has_started_anew(brisk):
    cluster = Cluster(a=1)
    workers = DaskWorkers(cluster, timeout=1.0)
    hanging = workers.submit(abs, 1)
    until(lambda: len(cluster.sent) == 1)
    cluster.sent[1,][1].set_exception(dask_workers.Late())
    with pytest.raises(TimeoutError, match="no value within 1 seconds"):
        hanging.result(20)
    assert workers.capacity == 0
    workers.submit(abs, 2)
    del cluster.threads["a"]
    until(lambda: not workers._given_up)
    assert len(cluster.sent) == 1
    cluster.threads["a"] = 1
    until(lambda: len(cluster.sent) == 2)
    workers.shutdown(cancel_futures=True)


def test_a_late_dask_worker_is_given_up_when_nothing_is_heard_of_it(brisk, monkeypatch):
    """One that is still importing is heard of."""
    monkeypatch.setattr(dask_workers, "SILENCE", 0.3)
    monkeypatch.setattr(dask_workers, "IMPORT_SECONDS", 600.0)
    cluster = Cluster(a=1, b=1)
    workers = DaskWorkers(cluster, timeout=0.1)
    late = workers.submit(abs, 1)
    time.sleep(1.0)
    assert not late.done()
    assert workers.capacity == 2
    cluster.silent = True
    with pytest.raises(TimeoutError, match=r"no value within 0\.1 seconds"):
        late.result(20)
    until(lambda: len(cluster.threads) == 1)
    assert workers.capacity == 1
    workers.shutdown(cancel_futures=True)


def test_a_scheduler_that_goes_away_breaks_the_executor(brisk):
    cluster = Cluster(a=1)
    workers = DaskWorkers(cluster)
    futures = [workers.submit(abs, i) for i in range(3)]
    until(lambda: len(cluster.sent) == 1)
    cluster.status = "closed"
    for future in futures:
        with pytest.raises(BrokenExecutor, match="the Dask scheduler is gone"):
            future.result(20)
    assert workers.capacity == 0
    workers.shutdown()


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
    monkeypatch.setattr(dask_workers, "exit_process", lambda: ends.append(1))
    asyncio.run(dask_workers._retire(SimpleNamespace(nanny=nanny, state=State(), close=close, status=None)))
    assert ends == ([1] if nanny else ["an evaluation outlived its timeout"])
