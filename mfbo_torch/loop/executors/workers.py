"""What every kind of worker promises."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any

import torch

from mfbo_torch.utils import output_streams

LOOK_AROUND = 1.0
"""Seconds after which workers that have joined or left are noticed."""
BEGINNING = 120.0
"""Seconds that a worker may take to import what an evaluation needs, where evaluations have a timeout."""


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
        except TimeoutError as late:
            outer.set_exception(late if late.args else TimeoutError(f"no value within {self.timeout:g} seconds"))
        except BaseException as error:
            outer.set_exception(self._translated(error))


def unpacked(content: bytes, loads: Callable[[bytes], Any]) -> Callable[[], Any]:
    """A call that was pickled; one that says so where a module that it imports ends the process politely."""
    try:
        fn, args = loads(content)
    except SystemExit as error:
        return partial(_lost, f"a module that it imports calls sys.exit({error.code!r})")
    return partial(fn, *args)


def _lost(reason: str) -> None:
    raise WorkerLost(reason)


@contextmanager
def unheard() -> Iterator[None]:
    """Where processes and threads are started that do not hear Ctrl-C, from the first moment on.

    In the main thread it is heard at the end: threads that were there before may be the ones to get it meanwhile.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would be started with the first process, and let SIGINT through again
    with _heard_later():
        former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)


@contextmanager
def _heard_later() -> Iterator[None]:
    handler, heard = signal.getsignal(signal.SIGINT), threading.Event()
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: heard.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if heard.is_set():
            signal.raise_signal(signal.SIGINT)


def settle() -> None:
    """Make a worker leave Ctrl-C to its parent, end with it, and keep to one thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see unheard
    torch.set_num_threads(1)
    output_streams.endure()
    if parent := multiprocessing.parent_process():
        threading.Thread(target=_outlive, args=[parent.sentinel], daemon=True).start()


def _outlive(parent: int) -> None:
    wait([parent])
    leave()


def leave() -> None:
    """End this process, and what it has started where it is alone in its session."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
