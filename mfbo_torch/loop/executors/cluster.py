"""What the workers of every cluster share: one thread that sends evaluations there and sees how they end."""

from __future__ import annotations

import pickle
import sys
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from concurrent.futures import wait as wait_for
from functools import partial
from typing import Any, Generic, TypeVar

from mfbo_torch.loop.executors.workers import POLL_SECONDS, Call, Workers, fail, unpacked

Place = TypeVar("Place")
"""Where an evaluation is, as the cluster's library says it."""
PLACING_SECONDS = 60.0
"""Seconds that the end waits for an evaluation that is just being placed, to end it too."""


class ClusterWorkers(Workers, Generic[Place]):
    """The workers of a cluster.

    Calls wait here until :meth:`_look`, which a thread of its own repeats, takes them with :meth:`_next`, notes with
    :meth:`_placed_at` where they are, and ends them with :meth:`_end`.
    """

    def __init__(self, timeout: float | None) -> None:
        super().__init__(timeout)
        self._lock, self._wake, self._over = threading.RLock(), threading.Event(), False
        self._waiting: deque[Call] = deque()
        self._placed: dict[Call, Place] = {}
        self._thread = threading.Thread(target=self._watch, name=f"mfbo-{type(self).__name__}", daemon=True)
        self._thread.start()

    @abstractmethod
    def _look(self) -> None:
        """See what has become of the calls that are placed, and place those that wait."""

    def _withdraw(self, place: Place) -> None:  # a cluster may have to let it go on
        """End what was cancelled."""

    def _send(self, call: Call) -> None:
        if self._over:
            raise RuntimeError("the workers have been shut down")
        self._waiting.append(call)
        self._wake.set()

    def _watch(self) -> None:
        while not self._over:
            self._wake.wait(POLL_SECONDS)
            self._wake.clear()
            try:
                self._look()
            except Exception as error:  # of whatever kind: nobody else would end these calls
                self._break(error)

    def _next(self) -> Call | None:
        """The next call that waits, if it was not cancelled meanwhile."""
        while self._waiting and not self._over:
            if not (call := self._waiting.popleft()).cancelled():
                return call
            call.end()
        return None

    def _placed_at(self, call: Call, place: Place) -> None:
        self._placed[call] = place
        call.add_done_callback(self._cancelled)

    def _cancelled(self, call: Future[Any]) -> None:
        with self._lock:
            place = self._placed.get(call) if isinstance(call, Call) else None
        if call.cancelled() and place is not None:
            self._withdraw(place)

    def _end(self, call: Call, error: BaseException | None = None, value: Any = None) -> None:
        """End a call, unless it has ended already."""
        with self._lock:
            if self._placed.pop(call, None) is None:
                return
        call.end(value, error)

    def _break(self, error: BaseException) -> None:
        """End everything: there is no cluster any more."""
        broken = error if isinstance(error, CancelledError) else BrokenExecutor(f"{type(error).__name__}: {error}")
        while call := self._next():
            call.end(error=broken)
        for call in [*self._placed]:
            self._end(call, broken)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; end the present ones, or wait for them."""
        if wait and not cancel_futures:
            wait_for([call for call in [*self._waiting, *self._placed] if not call.cancelled()])
        self._over = True
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join(PLACING_SECONDS if wait else 0)
        for call in [*self._waiting, *self._placed] if cancel_futures else ():
            call.cancel()


def parcel(content: bytes) -> bytes:
    """A pickled call with the folders where this process finds modules, for :func:`opened`."""
    return pickle.dumps((sys.path, content))


def opened(parcel: bytes) -> bytes:
    """The pickled call in a parcel, in a worker, which then finds the same modules."""
    folders, content = pickle.loads(parcel)
    sys.path += [folder for folder in folders if folder not in sys.path]
    return bytes(content)


def loaded(parcel: bytes) -> Callable[[], Any]:
    """The call in a parcel; what it raises may come of reading it."""
    import cloudpickle

    try:
        return unpacked(opened(parcel), cloudpickle.loads)
    except BaseException as error:
        return partial(fail, error)
