"""What every kind of worker promises."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from multiprocessing.connection import wait
from typing import Any

import torch

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


def settle() -> None:
    """Make a worker leave Ctrl-C to its parent, end with it, and keep to one thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    if parent := multiprocessing.parent_process():
        threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()
