"""Processes of this machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from pebble import ProcessExpired, ProcessPool

from mfbo_torch.executors.workers import WorkerLost, Workers, settle


class Processes(Workers):
    """Fresh processes of this machine with one thread each, ended with this one however it ends."""

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        super().__init__(timeout)
        self._workers = workers
        self._pool = ProcessPool(workers, initializer=settle, context=multiprocessing.get_context("spawn"))

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


@contextmanager
def in_processes(workers: int, timeout: float | None) -> Iterator[Workers]:
    """Processes for as long as the context lasts."""
    pool = Processes(workers, timeout)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
