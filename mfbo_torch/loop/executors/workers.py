"""The contract of all kinds of workers, and how a worker is set up."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from mfbo_torch.utils import output_streams

POLL_SECONDS = 1.0
"""Seconds between two checks for workers that have joined or left."""
IMPORT_SECONDS = 120.0
"""Seconds that a worker may take to import what an evaluation needs, where evaluations have a timeout."""


class WorkerLost(RuntimeError):
    """The worker that was evaluating has died."""


class Attempt(NamedTuple):
    """What a cluster may know of an evaluation.

    Attributes:
        name: Its name in its run, another one for each attempt. A driver that comes back gives it again.
        fidelity: Its fidelity, on which its resources may depend; ``None`` for that of a run as a whole.
    """

    name: str
    fidelity: int | None


class Call(Future[Any]):
    """An evaluation on its way; it stays pending until it has ended, so that it can be cancelled until then."""

    content = b""
    """The pickled function and its arguments."""
    attempt: Attempt | None = None
    begun: float | None = None
    """When a worker began, by :func:`time.perf_counter`; ``None`` where that is not known, or not yet."""

    def end(self, value: Any = None, error: BaseException | None = None) -> None:
        """End with a value or an error, unless it was cancelled."""
        if self.set_running_or_notify_cancel():
            self.set_result(value) if error is None else self.set_exception(error)


class Workers(Executor):
    """An executor whose futures end with a value, with :class:`TimeoutError` or with :class:`WorkerLost`.

    An evaluation may take ``timeout`` seconds, ``None`` for as long as it likes.
    """

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Number of evaluations that can run at once now."""

    @abstractmethod
    def _send(self, call: Call) -> None:
        """Have a call evaluated, and ended."""

    def packed(self, *content: Any) -> bytes:
        """What is sent to a worker; whatever pickling raises where that cannot be."""
        return pickle.dumps(content)

    def _translated(self, error: BaseException) -> BaseException:
        return error

    def submit(self, fn: Callable[..., Any], /, *args: Any, attempt: Attempt | None = None) -> Call:  # type: ignore[override]
        """Evaluate ``fn(*args)`` on a worker."""
        outer, inner = Call(), Call()
        inner.attempt = attempt
        try:
            inner.content = self.packed(fn, args)
        except Exception as error:
            inner.end(error=error)
        else:
            self._send(inner)
        outer.add_done_callback(lambda future: inner.cancel() if future.cancelled() else None)
        inner.add_done_callback(partial(self._pass_on, outer))
        return outer

    def _pass_on(self, outer: Call, inner: Future[Any]) -> None:
        if not outer.set_running_or_notify_cancel():
            return
        outer.begun = getattr(inner, "begun", None)
        try:
            outer.set_result(inner.result())
        except TimeoutError as late:
            own = late.args or self.timeout is None  # the function's, not that of the pool
            outer.set_exception(late if own else TimeoutError(f"no value within {self.timeout:g} seconds"))
        except BaseException as error:
            outer.set_exception(self._translated(error))


def unpacked(content: bytes, loads: Callable[[bytes], Any]) -> Callable[[], Any]:
    """A pickled call; it raises :class:`WorkerLost` where a module that it imports calls ``sys.exit``."""
    try:
        fn, args = loads(content)
    except SystemExit as error:
        return partial(fail, WorkerLost(f"a module that it imports calls sys.exit({error.code!r})"))
    return partial(fn, *args)


def fail(error: BaseException) -> None:
    """Raise an error."""
    raise error


def answer(call: Callable[[], Any]) -> bytes:
    """The value or the error of a call, pickled; read by :func:`answered`."""
    try:
        found: tuple[Any, BaseException | None] = call(), None
    except KeyboardInterrupt:  # the objective's own: a worker hears none
        found = None, WorkerLost("KeyboardInterrupt")
    except BaseException as error:
        error.add_note(traceback.format_exc())
        found = None, error
    try:
        return pickle.dumps(found)
    except Exception as error:
        unsendable = found[1] or error
        return pickle.dumps((None, RuntimeError(f"{type(unsendable).__name__}: {unsendable}")))


def answered(content: bytes) -> tuple[Any, BaseException | None]:
    """The value or the error in an answer."""
    try:
        value, error = pickle.loads(content)
    except BaseException as unreadable:  # whatever unpickling it comes to
        return None, unreadable
    return value, error


@contextmanager
def without_ctrl_c() -> Iterator[None]:
    """A context whose new processes and threads ignore Ctrl-C; in the main thread it takes effect at the end."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would be started with the first process, and let SIGINT through again
    with _delayed_ctrl_c():
        former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)


@contextmanager
def _delayed_ctrl_c() -> Iterator[None]:
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


def set_up_worker() -> None:
    """Make a worker ignore Ctrl-C, end with its parent, and use one thread."""
    import torch  # which those who only read settings go without

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see without_ctrl_c
    torch.set_num_threads(1)
    output_streams.tolerate_broken_output()
    if parent := multiprocessing.parent_process():
        threading.Thread(target=_outlive, args=[parent.sentinel], daemon=True).start()


def _outlive(parent: int) -> None:
    wait([parent])
    exit_process()


def exit_process() -> None:
    """End this process, and all that it has started if it leads its session."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
