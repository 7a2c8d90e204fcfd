"""Where evaluations run: processes of this machine, or the workers of a Dask cluster.

Both are executors of :mod:`concurrent.futures`. What they add to the standard library's own: a worker
that dies takes its own evaluation with it and no other, and is replaced; an evaluation that outlives a
timeout is ended; workers that come or go later are counted.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from concurrent.futures import wait as wait_for
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

import torch
from pebble import ProcessExpired, ProcessPool

from mfbo_torch.errors import SettingError

if TYPE_CHECKING:
    from distributed import Client

KINDS = ("processes", "dask")
LOOK_AROUND = 1.0
"""Seconds after which workers that have joined or left are noticed."""


class WorkerLost(RuntimeError):
    """The worker that was evaluating has died."""


class Workers(Executor):
    """An executor whose futures end with a value, with :class:`TimeoutError` or with :class:`WorkerLost`.

    Args:
        timeout: Seconds that an evaluation may take, ``None`` for as long as it likes.
    """

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many evaluations run at once at present."""

    @abstractmethod
    def _send(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]: ...

    @abstractmethod
    def _translated(self, error: BaseException) -> BaseException: ...

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:  # type: ignore[override]
        """Evaluate ``fn(*args)`` on a worker."""
        outer: Future[Any] = Future()
        inner = self._send(fn, args)
        outer.add_done_callback(lambda future: inner.cancel() if future.cancelled() else None)
        inner.add_done_callback(partial(self._pass_on, outer))
        return outer

    def _pass_on(self, outer: Future[Any], inner: Future[Any]) -> None:
        if not outer.set_running_or_notify_cancel():
            return
        try:
            outer.set_result(inner.result())
        except TimeoutError:
            outer.set_exception(TimeoutError(f"no value within {self.timeout:g} seconds"))
        except BaseException as error:
            outer.set_exception(self._translated(error))


class Processes(Workers):
    """Fresh processes of this machine with one thread each, ended with this one however it ends."""

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        super().__init__(timeout)
        self._workers = workers
        self._pool = ProcessPool(workers, initializer=_settle, context=multiprocessing.get_context("spawn"))

    @property
    def capacity(self) -> int:
        return self._workers

    def _send(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        return self._pool.schedule(fn, args, timeout=self.timeout)

    def _translated(self, error: BaseException) -> BaseException:
        if isinstance(error, ProcessExpired):
            return WorkerLost(f"the process died, exit code {error.exitcode}")
        return error

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, after what they are doing if ``wait``."""
        self._pool.close() if wait and not cancel_futures else self._pool.stop()
        self._pool.join()


class DaskWorkers(Workers):
    """The workers of a Dask cluster, as many as there are at the time.

    Every evaluation is sent to one worker that is free, and to no other: Dask would queue some behind others,
    to die with them, and move those of a dead worker elsewhere. An evaluation that outlives the timeout is left
    behind in a thread of its worker, which ends as soon as it has nothing else to do, and which its nanny starts
    anew. Workers with one thread each are best: all that a worker was doing dies with it.
    """

    def __init__(self, client: Client, timeout: float | None = None) -> None:
        super().__init__(timeout)
        self._client = client
        self._inner = client.get_executor(pure=False, retries=0)
        self._lock, self._wake, self._over = threading.Lock(), threading.Event(), False
        self._waiting: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._placed: dict[Future[Any], tuple[str, Future[Any]]] = {}
        self._given_up: set[str] = set()
        self._threads = client.nthreads()
        threading.Thread(target=self._watch, name="mfbo-dask", daemon=True).start()

    @property
    def capacity(self) -> int:
        return sum(count for address, count in self._threads.items() if address not in self._given_up)

    def _send(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, fn, args))
        self._wake.set()
        return future

    def _watch(self) -> None:
        """Notice workers that come and go, and give the free ones what is waiting."""
        while not self._over:
            self._wake.wait(LOOK_AROUND)
            self._wake.clear()
            try:
                self._threads = self._client.nthreads()
            except Exception:  # of whatever kind: Dask's own, its event loop's or the network's
                self._threads = {}
                if self._client.status in ("closed", "closing"):
                    self._break()
                continue
            self._given_up &= set(self._threads)
            for future, (address, sent) in [*self._placed.items()]:
                if address not in self._threads:
                    self._end(future, WorkerLost("the worker died"))
                    sent.cancel()
            self._place()

    def _place(self) -> None:
        load = Counter(address for address, _ in [*self._placed.values()])
        spare = {a: count - load[a] for a, count in self._threads.items() if a not in self._given_up}
        free = [address for address, count in spare.items() for _ in range(count)]
        while self._waiting and free and not self._over:
            future, fn, args = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                address = free.pop()
                with self._lock:
                    sent = self._inner.submit(
                        _within, self.timeout, fn, *args, workers=[address], allow_other_workers=False
                    )
                    self._placed[future] = address, sent
                sent.add_done_callback(partial(self._landed, future, address))

    def _break(self) -> None:
        """End everything: there is no scheduler any more."""
        while self._waiting:
            future, *_ = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                future.set_exception(CancelledError())
        for future in [*self._placed]:
            self._end(future, CancelledError())

    def _landed(self, future: Future[Any], address: str, sent: Future[Any]) -> None:
        """Pass on what came of an evaluation."""
        error: BaseException | None
        if sent.cancelled():  # with the scheduler, or by someone who restarts the workers
            error = WorkerLost("the worker died") if self._client.status == "running" else CancelledError()
        else:
            error = sent.exception()
        if isinstance(error, TimeoutError) and self.timeout is not None:
            self._given_up.add(address)
        self._end(future, error, sent.result() if error is None else None)
        self._wake.set()

    def _end(self, future: Future[Any], error: BaseException | None, value: Any = None) -> None:
        """End an evaluation, unless it has ended already."""
        with self._lock:
            if self._placed.pop(future, None) is None:
                return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    def _translated(self, error: BaseException) -> BaseException:
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return WorkerLost("the worker died")
        return BrokenExecutor("the Dask scheduler is gone") if isinstance(error, CancelledError) else error

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for future, *_ in [*self._waiting]:
                future.cancel()
        elif wait:
            wait_for([*(future for future, *_ in self._waiting), *self._placed])
        self._over = True
        self._wake.set()
        self._inner.shutdown(wait and not cancel_futures)


def _within(timeout: float | None, fn: Callable[..., Any], *args: Any) -> Any:
    """``fn(*args)`` in a Dask worker, which is given up if it takes too long."""
    if timeout is None:
        return fn(*args)
    result: Future[Any] = Future()

    def work() -> None:
        try:
            result.set_result(fn(*args))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return result.result(timeout)
    except TimeoutError:
        from distributed import get_worker

        worker = get_worker()
        worker.loop.add_callback(_retire, worker)
        raise


async def _retire(worker: Any) -> None:
    """Take no more work, let the failure arrive and other evaluations end, start anew.

    The process exits of its own accord: a worker that says goodbye may, if the scheduler is quicker to hang up,
    take leave of its nanny too, and then nobody starts it again.
    """
    from distributed.core import Status

    worker.status = Status.paused
    await asyncio.sleep(1.0)
    while worker.state.executing_count:
        await asyncio.sleep(0.1)
    if worker.nanny is None:
        await worker.close(reason="an evaluation outlived its timeout")
    os._exit(1)


def _settle() -> None:
    """Make a worker leave Ctrl-C to its parent, end with it, and keep to one thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    if parent := multiprocessing.parent_process():
        threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


def start(
    kind: str = "processes", workers: int | None = None, scheduler: str | None = None, timeout: float | None = None
) -> AbstractContextManager[Workers]:
    """Workers, for as long as the context lasts.

    Args:
        kind: ``"processes"`` or ``"dask"``.
        workers: How many; one a core if not given. Left out where a scheduler has its own.
        scheduler: Address of a Dask scheduler; a cluster on this machine is made if not given.
        timeout: Seconds that an evaluation may take.

    Raises:
        SettingError: An unknown kind, no worker, a timeout that is not positive, no scheduler at the
            address, or Dask is not installed.
    """
    if kind not in KINDS:
        raise SettingError("executor", kind, " or ".join(map(repr, KINDS)))
    if scheduler is not None and kind != "dask":
        raise SettingError("scheduler", scheduler, "left out, or given with executor dask")
    if timeout is not None and not timeout > 0:
        raise SettingError("timeout", timeout, "a number of seconds above 0")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise SettingError("workers", workers, "a whole number from 1 on")
    if kind == "dask":
        return _dask(workers, scheduler, timeout)
    return _processes(workers or os.cpu_count() or 1, timeout)


@contextmanager
def _processes(workers: int, timeout: float | None) -> Iterator[Workers]:
    pool = Processes(workers, timeout)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _dask(workers: int | None, scheduler: str | None, timeout: float | None) -> Iterator[Workers]:
    try:
        import dask
        from distributed import Client, LocalCluster, WorkerPlugin
    except ImportError:
        raise SettingError("executor", "dask", "installed: pip install 'mfbo-torch[dask]'") from None

    class Settled(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            _settle()

    quiet = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.worker.daemon": False,
        "distributed.deploy.lost-worker-timeout": "1 day",  # on a busy machine they take long to start anew
    }
    with dask.config.set(quiet if scheduler is None else {}):
        if scheduler is None:
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL"
            )
        else:
            cluster = None
        try:
            client = Client(cluster or scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            reason = " ".join(str(error).split())
            raise SettingError("scheduler", scheduler, f"the address of a running Dask scheduler: {reason}") from error
        try:
            if cluster is not None:
                client.register_plugin(Settled(), name="mfbo-settled")
            pool = DaskWorkers(client, timeout)
            yield pool
            pool.shutdown(cancel_futures=True)
        finally:
            client.close()
            if cluster is not None:
                cluster.close()
