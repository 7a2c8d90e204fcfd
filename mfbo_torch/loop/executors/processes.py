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
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from queue import Empty, SimpleQueue
from typing import Any

from mfbo_torch.loop.executors.workers import BEGINNING, WorkerLost, Workers, settle, unheard, unpacked

USELESS = 5
"""So many processes that end one after another before they have begun an evaluation break the pool."""
TICK = 0.5
"""Seconds between two looks at whether a process is alive whose end of the line another one may hold open."""
GRACE = 5.0
"""Seconds that a process without an evaluation has to leave by itself."""
BEGUN = b"begun"


class Processes(Workers):
    """Fresh processes of this machine with one thread each, ended with this one however it ends.

    Each has a line of its own to this process and shares no lock with another, so that one that is killed, whatever
    it was doing, takes nothing but its own evaluation along. Each is ended with all processes that it has started
    itself, unless they have left its session.
    """

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        super().__init__(timeout)
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._seats = [_Seat(self._calls, timeout) for _ in range(workers)]
        self._lock, self._started, self._over = threading.Lock(), False, False

    @property
    def capacity(self) -> int:
        return len(self._seats)

    def _send(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        call: _Call = _Call()
        try:
            call.content = pickle.dumps((fn, args))
        except Exception as error:
            call.set_exception(error)
            return call
        with self._lock:
            if self._over:
                raise RuntimeError("the workers have been shut down")
            if broken := next((seat.broken for seat in self._seats if seat.broken), None):
                raise broken
            self._calls.put(call)
            if not self._started:
                self._started = True
                atexit.register(self.shutdown, cancel_futures=True)  # before multiprocessing's own, which would wait
                for seat in self._seats:
                    seat.start()
        return call

    def _translated(self, error: BaseException) -> BaseException:
        return error

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, after what they are doing if ``wait``."""
        with self._lock:
            self._over = True
        atexit.unregister(self.shutdown)
        if cancel_futures or not wait:
            with suppress(Empty):
                while True:
                    if call := self._calls.get_nowait():
                        call.cancel()
            for seat in self._seats:
                seat.leave()
        for _ in self._seats:
            self._calls.put(None)
        for seat in self._seats:
            if seat.ident is not None and seat is not threading.current_thread():
                seat.join()


class _Call(Future[Any]):
    """An evaluation; it stays pending until it is over, as it can be cancelled until then."""

    content = b""
    """What to call, pickled."""

    def end(self, value: Any = None, error: BaseException | None = None) -> None:
        if self.set_running_or_notify_cancel():
            self.set_result(value) if error is None else self.set_exception(error)


class _Seat(threading.Thread):
    """A place for one process at a time, replaced when it ends, and the thread here that gives it evaluations."""

    def __init__(self, calls: SimpleQueue[_Call | None], timeout: float | None) -> None:
        super().__init__(daemon=True)
        self.broken: BrokenProcessPool | None = None
        self.process: Any = None
        self._line: Connection
        self._calls, self._timeout = calls, timeout
        self._lock, self._call, self._leaving = threading.RLock(), _Call(), False

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
                self._call = _Call()
            call.end(value, error)
        if self.process is not None and not self._leaving:
            self._line.close()
            self.process.join(GRACE)
        self._end()

    def leave(self) -> None:
        """End whatever is going on here, at once."""
        with self._lock:
            self._leaving = True
            self._call.cancel()
            self._kill()

    def _cancelled(self, call: Future[Any]) -> None:
        if call.cancelled():
            with self._lock:
                if self._call is call:
                    self._kill()

    def _evaluated(self, call: _Call) -> tuple[Any, BaseException | None]:
        """The value or the error; a process that ends before it has begun is replaced, as nothing is lost with it."""
        why = ""
        for _ in range(USELESS):
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
            value, error = pickle.loads(self._heard(self._timeout))
            return value, error
        except TimeoutError as late:
            self._end()
            return None, late
        except (EOFError, OSError):
            return None, WorkerLost(f"the process died, exit code {self._end()}")
        except BaseException as unreadable:  # whatever unpickling it comes to, this thread goes on
            return None, unreadable

    def _begun(self, content: bytes) -> bool:
        """Whether a process has begun what it was sent.

        Raises:
            TimeoutError: It takes too long to import what it needs.
            EOFError: It has ended.
            OSError: It has ended.
        """
        self._ready()
        late = threading.Event()

        def end() -> None:
            late.set()
            self._kill()

        watch = None if self._timeout is None else threading.Timer(BEGINNING, end)
        try:
            if watch is not None:
                watch.start()
            self._line.send_bytes(content)
            return self._heard(None) == BEGUN
        except (EOFError, OSError):
            if late.is_set():
                raise TimeoutError(f"not begun within {BEGINNING:g} seconds") from None
            raise
        finally:
            if watch is not None:
                watch.cancel()

    def _heard(self, timeout: float | None) -> bytes:
        """What the process says next.

        Raises:
            TimeoutError: Nothing in time.
            EOFError: It has ended.
            OSError: It has ended.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        while not self._line.poll(0):
            if time.monotonic() >= until:
                raise TimeoutError
            wait([self._line, self.process.sentinel], min(TICK, max(0.0, until - time.monotonic())))
            if not self.process.is_alive() and not self._line.poll(0):
                raise EOFError
        return self._line.recv_bytes()

    def _ready(self) -> None:
        """See to it that there is a process.

        Raises:
            EOFError: There is to be none any more.
        """
        if self.process is not None and self.process.is_alive():
            return
        self._end()
        context = multiprocessing.get_context("spawn")
        with self._lock:
            if self._leaving or self.broken:
                raise EOFError
            self._line, theirs = context.Pipe()
            self.process = context.Process(target=_work, args=[theirs, _begin])
            with unheard():
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
        process = self.process
        if process is None or process.pid is None:
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
    """What a process does: it evaluates what comes over its line, until that is closed."""
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
                call = partial(_raise, error)
            line.send_bytes(BEGUN)
            answer = _answer(call)
            if os.getpid() != this:  # a copy that the evaluation has made and that has come back from it
                os._exit(0)
            line.send_bytes(answer)


def _answer(call: Callable[[], Any]) -> bytes:
    try:
        answer: tuple[Any, BaseException | None] = call(), None
    except BaseException as error:
        error.add_note(traceback.format_exc())
        answer = None, error
    try:
        return pickle.dumps(answer)
    except Exception as error:
        unsendable = answer[1] or error
        return pickle.dumps((None, RuntimeError(f"{type(unsendable).__name__}: {unsendable}")))


def _raise(error: BaseException) -> None:
    raise error


def _begin() -> None:
    """Start a session of its own, with which everything in it is ended."""
    if hasattr(os, "setsid"):
        os.setsid()
    settle()


@contextmanager
def in_processes(workers: int, timeout: float | None) -> Iterator[Workers]:
    """Processes for as long as the context lasts."""
    pool = Processes(workers, timeout)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
