"""Processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any

from pebble import ProcessExpired, ProcessPool

from mfbo_torch.executors.workers import Packed, WorkerLost, Workers, settle, unheard

USELESS = 10
"""So many workers that end one after another before they have begun anything break the pool."""


class Processes(Workers):
    """Fresh processes of this machine with one thread each, ended with this one however it ends.

    Each is ended with all processes that it has started itself, unless they have left its session.
    """

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        super().__init__(timeout)
        self._workers = workers
        self._pool = ProcessPool(workers, initializer=_begin, context=multiprocessing.get_context("spawn"))
        _Watch(self._pool)

    @property
    def capacity(self) -> int:
        return self._workers

    def _send(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        return self._pool.schedule(Packed.of(pickle, fn, args), timeout=self.timeout)

    def _translated(self, error: BaseException) -> BaseException:
        if isinstance(error, ProcessExpired):
            return WorkerLost(f"the process died, exit code {error.exitcode}")
        return error

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, after what they are doing if ``wait``."""
        self._pool.close() if wait and not cancel_futures else self._pool.stop()
        self._pool.join()


class _Watch:
    """What Pebble overlooks of the workers of a pool.

    A worker that leaves with exit code 0 takes its evaluation with it as well as any other; one that dies without an
    evaluation is replaced, which is no reason to end the others; Ctrl-C while a worker starts is none of its business;
    and what a worker has started ends with it.
    """

    def __init__(self, pool: ProcessPool) -> None:
        manager: Any = pool._pool_manager
        workers: Any = manager.worker_manager
        self._manager, self._workers = manager, workers
        self._stop, self._stop_all = self._workers.maybe_stop_worker, self._workers.force_stop_workers
        self._start = self._workers.new_worker
        self._gone: dict[int, int | None] = {}
        self._useless = 0
        manager.find_expired_task = self.task_of
        workers.inspect_workers = self.ended
        workers.new_worker = self.start
        workers.maybe_stop_worker = self.stop
        workers.force_stop_workers = self.stop_all

    def ended(self) -> tuple[tuple[int, int | None], ...]:
        """Workers that have ended, with their exit codes, and those whose evaluation was not known then."""
        alive = self._workers.workers
        now = {pid: worker.exitcode for pid, worker in [*alive.items()] if not worker.is_alive()}
        for pid in now:
            alive.pop(pid, None)
            _end_session(pid)
        self._gone = {pid: code for pid, code in {**self._gone, **now}.items() if pid not in alive}
        busy = {task.worker_id for task in [*self._manager.task_manager.tasks.values()]}
        return tuple((pid, code) for pid, code in self._gone.items() if pid in now or pid in busy)

    def task_of(self, pid: int) -> Any:
        """What a worker that has ended was doing."""
        for task in [*self._manager.task_manager.tasks.values()]:
            if task.worker_id == pid:
                self._useless = 0
                return task
        self._useless += 1
        if self._useless > USELESS * self._workers.workers_number:
            raise BrokenProcessPool("workers end before they have begun anything")
        raise LookupError(pid)

    def start(self) -> None:
        with unheard():
            self._start()

    def stop(self, pid: int) -> bool:
        """End a worker, unless another one is just being given something."""
        stopped: bool = self._stop(pid)
        if stopped:
            _end_session(pid)
        return stopped

    def stop_all(self) -> None:
        pids = [*self._workers.workers]
        self._stop_all()
        for pid in pids:
            _end_session(pid)


def _begin() -> None:
    """Start a session of its own, with which everything in it is ended."""
    if hasattr(os, "setsid"):
        os.setsid()
    settle()


def _end_session(leader: int) -> None:
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


@contextmanager
def in_processes(workers: int, timeout: float | None) -> Iterator[Workers]:
    """Processes for as long as the context lasts."""
    pool = Processes(workers, timeout)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
