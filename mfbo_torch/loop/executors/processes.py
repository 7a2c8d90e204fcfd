"""Processes of this machine."""

from __future__ import annotations

import atexit
import math
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from queue import Empty, SimpleQueue
from typing import Any

from mfbo_torch.loop.executors.workers import (
    IMPORT_SECONDS,
    Call,
    WorkerLost,
    Workers,
    answer,
    answered,
    fail,
    set_up_worker,
    unpacked,
    without_ctrl_c,
)

FAILED_STARTS = 5
"""Number of processes in a row that may end before their evaluation begins; then the pool is broken."""
TICK = 0.5
"""Seconds between two checks that a process is alive, as another one may hold its end of the pipe open."""
GRACE = 5.0
"""Seconds that a process without an evaluation has to exit by itself."""
STARTED = b"begun"


class Processes(Workers):
    """Fresh processes of this machine with one thread each, which end with this process however it ends.

    Each has its own pipe and shares no lock: one that is killed loses its own evaluation and no other. All processes
    that it has started end with it, unless they have left its session.
    """

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        super().__init__(timeout)
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._slots = [_Slot(self._calls, timeout) for _ in range(workers)]
        self._lock, self._started, self._over = threading.Lock(), False, False

    @property
    def capacity(self) -> int:
        return len(self._slots)

    def _send(self, call: Call) -> None:
        with self._lock:
            if self._over:
                raise RuntimeError("the workers have been shut down")
            if broken := next((slot.broken for slot in self._slots if slot.broken), None):
                raise broken
            self._calls.put(call)
            if not self._started:
                self._started = True
                atexit.register(self.shutdown, cancel_futures=True)  # before multiprocessing's own, which would wait
                for slot in self._slots:
                    slot.start()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; if ``wait``, after their present evaluations."""
        with self._lock:
            self._over = True
        atexit.unregister(self.shutdown)
        if cancel_futures or not wait:
            with suppress(Empty):
                while True:
                    if call := self._calls.get_nowait():
                        call.cancel()
            for slot in self._slots:
                slot.end_now()
        for _ in self._slots:
            self._calls.put(None)
        for slot in self._slots:
            if slot.ident is not None and slot is not threading.current_thread():
                slot.join()


class _Slot(threading.Thread):
    """The thread that sends evaluations to one process, and replaces the process when it has died."""

    def __init__(self, calls: SimpleQueue[Call | None], timeout: float | None) -> None:
        super().__init__(daemon=True)
        self.broken: BrokenProcessPool | None = None
        self.process: Any = None
        self._line: Connection
        self._calls, self._timeout = calls, timeout
        self._lock, self._call, self._leaving = threading.RLock(), Call(), False

    def run(self) -> None:
        while True:
            with suppress(Exception):  # tried again, and told, once there is something to do
                self._ready()
            if (call := self._calls.get()) is None:
                break
            with self._lock:
                self._call = call
            call.add_done_callback(self._cancelled)
            value, error = self._evaluated(call)
            with self._lock:
                self._call = Call()
            call.end(value, error)
        if self.process is not None and not self._leaving:
            self._line.close()
            self.process.join(GRACE)
        self._end()

    def end_now(self) -> None:
        """End the present evaluation and the process at once."""
        with self._lock:
            self._leaving = True
            self._call.cancel()
            self._kill()

    def _cancelled(self, call: Future[Any]) -> None:
        if call.cancelled():
            with self._lock:
                if self._call is call:
                    self._kill()

    def _evaluated(self, call: Call) -> tuple[Any, BaseException | None]:
        """The value or the error; a process that ends before it has begun is replaced, as nothing is lost with it."""
        why = ""
        for _ in range(FAILED_STARTS):
            if self._leaving or call.cancelled():
                return None, CancelledError()
            if self.broken:
                break
            try:
                if self._begun(call.content):
                    break
            except TimeoutError as late:
                self._end()
                return None, late
            except (EOFError, OSError):
                why = ""
            except Exception as refused:  # what multiprocessing says where no process can be started
                why = f": {type(refused).__name__}: {refused}"
            self._end()
        else:
            self.broken = BrokenProcessPool(f"workers end before they have begun anything{why}")
        if self.broken:
            return None, self.broken
        try:
            call.begun = time.perf_counter()
            return answered(self._heard(self._timeout))
        except TimeoutError as late:
            self._end()
            return None, late
        except (EOFError, OSError):
            return None, WorkerLost(f"the process died, exit code {self._end()}")

    def _begun(self, content: bytes) -> bool:
        """Send an evaluation; whether the process has begun it. Errors as of :meth:`_heard`, also for slow imports."""
        self._ready()
        late = threading.Event()

        def end() -> None:
            late.set()
            self._kill()

        watch = None if self._timeout is None else threading.Timer(IMPORT_SECONDS, end)
        try:
            if watch is not None:
                watch.start()
            self._line.send_bytes(content)
            return self._heard(None) == STARTED
        except (EOFError, OSError):
            if late.is_set():
                raise TimeoutError(f"not begun within {IMPORT_SECONDS:g} seconds") from None
            raise
        finally:
            if watch is not None:
                watch.cancel()

    def _heard(self, timeout: float | None) -> bytes:
        """The next message; :class:`TimeoutError` if it is late, :class:`EOFError` or :class:`OSError` at the end."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while not self._line.poll(0):
            if time.monotonic() >= until:
                raise TimeoutError
            wait([self._line, self.process.sentinel], min(TICK, max(0.0, until - time.monotonic())))
            if not self.process.is_alive() and not self._line.poll(0):
                raise EOFError
        return self._line.recv_bytes()

    def _ready(self) -> None:
        """Start a process if there is none; :class:`EOFError` if none may start any more."""
        if self.process is not None and self.process.is_alive():
            return
        self._end()
        context = multiprocessing.get_context("spawn")
        with self._lock:
            if self._leaving or self.broken:
                raise EOFError
            self._line, theirs = context.Pipe()
            self.process = context.Process(target=_work, args=[theirs, _begin])
            with without_ctrl_c():
                self.process.start()
            theirs.close()

    def _kill(self) -> None:
        """End the process and all that it has started."""
        if (process := self.process) is None or process.pid is None:
            return
        process.kill()
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def _end(self) -> int | None:
        """End the process and all that it has started; its exit code."""
        if (process := self.process) is None or process.pid is None:
            return None
        self._kill()
        self.process = None
        process.join()
        self._line.close()
        until = time.monotonic() + TICK
        while process.exitcode is None and time.monotonic() < until:  # another thread is just taking it down
            time.sleep(TICK / 100)
        code: int | None = process.exitcode
        return code


def _work(line: Connection, begin: Callable[[], None]) -> None:
    """The main function of a process: evaluate what comes through its pipe, until that is closed."""
    begin()
    this = os.getpid()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=line.close)  # or it would be open as long as what an evaluation has forked
    with suppress(EOFError, OSError):
        while True:
            content = line.recv_bytes()
            try:
                call = unpacked(content, pickle.loads)
            except BaseException as error:
                call = partial(fail, error)
            line.send_bytes(STARTED)
            found = answer(call)
            if os.getpid() != this:  # a copy that the evaluation has made and that has come back from it
                os._exit(0)
            line.send_bytes(found)


def _begin() -> None:
    """Start a new session, so that all processes in it can be ended together."""
    if hasattr(os, "setsid"):
        os.setsid()
    set_up_worker()


@contextmanager
def in_processes(workers: int, timeout: float | None) -> Iterator[Workers]:
    """Processes for as long as the context lasts."""
    pool = Processes(workers, timeout)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
