"""The workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mfbo_torch.loop.executors.cluster import ClusterWorkers
from mfbo_torch.loop.executors.workers import (
    IMPORT_SECONDS,
    Call,
    WorkerLost,
    Workers,
    exit_process,
    set_up_worker,
    unpacked,
    without_ctrl_c,
)
from mfbo_torch.utils.errors import SettingError

SILENCE = 30.0
"""Seconds without a heartbeat after which a worker with a late evaluation is given up."""
GRACE = 20.0
"""Seconds that a cluster of this machine has to close by itself."""

if TYPE_CHECKING:
    from distributed import Client


class Late(TimeoutError):
    """An evaluation that has outlived its timeout and goes on at its worker."""


class _Placed(NamedTuple):
    """An evaluation at a worker: its address, Dask's future, and when it was sent."""

    address: str
    sent: Future[Any]
    since: float


class DaskWorkers(ClusterWorkers[_Placed]):
    """The workers of a Dask cluster, as many as there are at the time; those with one thread each are best.

    Every evaluation is sent to one worker that is free, and to no other: Dask would queue some behind others,
    to die with them, and move those of a dead worker elsewhere. A worker with an evaluation that outlives the timeout
    ends as soon as it has nothing else to do; its nanny, if it has one, starts it anew.
    """

    def __init__(self, client: Client, timeout: float | None = None) -> None:
        self._client = client
        self._inner = client.get_executor(pure=False, retries=0)
        self._heard: dict[str, tuple[float, float]] = {}
        self._given_up: set[str] = set()
        self._threads = client.nthreads()
        super().__init__(timeout)

    @property
    def capacity(self) -> int:
        return sum(count for address, count in self._threads.items() if address not in self._given_up)

    def _look(self) -> None:
        """Notice workers that join or leave, and send waiting evaluations to free ones."""
        # counted first: a worker that ends and dies in between must not seem alive and free
        load = Counter(address for address, *_ in [*self._placed.values()])
        try:
            self._threads = self._client.nthreads()
        except Exception:  # of whatever kind: Dask's own, its event loop's or the network's
            self._threads = {}
            if self._client.status in ("closed", "closing"):
                self._break(CancelledError())
            return
        self._given_up &= set(self._threads)
        for call, placed in [*self._placed.items()]:
            if placed.address not in self._threads:
                self._end(call, WorkerLost("the worker died"))
                placed.sent.cancel()
        for call, placed in self._stuck():
            self._given_up.add(placed.address)
            self._end(call, TimeoutError())
            placed.sent.cancel()
            threading.Thread(target=self._restart, args=[placed.address], daemon=True).start()
        self._place(load)

    def _stuck(self) -> list[tuple[Call, _Placed]]:
        """Late evaluations at workers that do not answer; a worker that is still importing does."""
        now, timeout = time.monotonic(), math.inf if self.timeout is None else self.timeout
        late = [(call, placed) for call, placed in self._placed.items() if now - placed.since > timeout]
        self._heard = {a: heard for a, heard in self._heard.items() if a in {placed.address for _, placed in late}}
        if not late:
            return []
        beats = self._beats()
        for _, placed in late:
            beat = beats.get(placed.address, 0.0)
            if placed.address not in self._heard or self._heard[placed.address][0] != beat:
                self._heard[placed.address] = beat, now
        longest = timeout + IMPORT_SECONDS + SILENCE
        silent = {address for address, (_, heard) in self._heard.items() if now - heard > SILENCE}
        return [pair for pair in late if pair[1].address in silent or now - pair[1].since > longest]

    def _beats(self) -> dict[str, float]:
        """The time of each worker's last heartbeat, by the scheduler's clock."""
        try:
            try:
                found = self._client.scheduler_info(n_workers=-1)
            except TypeError:  # former versions, which know of all
                found = self._client.scheduler_info()
            return {address: worker["last_seen"] for address, worker in found["workers"].items()}
        except Exception:  # of whatever kind; the scheduler is gone, or will be asked again
            return {}

    def _restart(self, address: str) -> None:
        """Have a worker restarted by its nanny, if it has one."""
        with suppress(Exception):  # of whatever kind; it is given up already
            self._client.restart_workers([address], timeout=30, raise_for_error=False)

    def packed(self, *content: Any) -> bytes:
        from distributed.protocol import pickle

        packed: bytes = pickle.dumps(content)
        return packed

    def _place(self, load: Counter[str]) -> None:
        spare = {a: count - load[a] for a, count in self._threads.items() if a not in self._given_up}
        for address in [address for address, count in spare.items() for _ in range(count)]:
            if (call := self._next()) is None:
                return
            with self._lock:
                here = {"workers": [address], "allow_other_workers": False}
                sent = self._inner.submit(_within, self.timeout, call.content, **here)
                call.begun = time.perf_counter()
                self._placed_at(call, _Placed(address, sent, time.monotonic()))
            sent.add_done_callback(partial(self._landed, call, address))

    def _landed(self, call: Call, address: str, sent: Future[Any]) -> None:
        """Pass on what came of an evaluation."""
        error: BaseException | None
        if sent.cancelled():  # with the scheduler, or by someone who restarts the workers
            error = WorkerLost("the worker died") if self._client.status == "running" else CancelledError()
        else:
            error = sent.exception()
        if isinstance(error, Late):
            self._given_up.add(address)
        self._end(call, error, sent.result() if error is None else None)
        self._wake.set()

    def _translated(self, error: BaseException) -> BaseException:
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return WorkerLost("the worker died")
        return BrokenExecutor("the Dask scheduler is gone") if isinstance(error, CancelledError) else error

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._inner.shutdown(wait and not cancel_futures)


def _within(timeout: float | None, content: bytes) -> Any:
    """Run a pickled call in a Dask worker, up to a timeout; the time of its imports does not count."""
    from distributed import get_worker
    from distributed.protocol import pickle

    if timeout is None:
        return unpacked(content, pickle.loads)()
    result: Future[Any] = Future()
    begun = threading.Event()

    def work() -> None:
        try:
            call = unpacked(content, pickle.loads)
            begun.set()
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)
        begun.set()

    threading.Thread(target=work, daemon=True).start()
    if not begun.wait(IMPORT_SECONDS):
        late = Late(f"not begun within {IMPORT_SECONDS:g} seconds")
    elif wait_for([result], timeout).done:
        return result.result()
    else:
        late = Late()
    worker = get_worker()
    worker.loop.add_callback(_retire, worker)
    raise late


async def _retire(worker: Any) -> None:
    """Take no more work, let the failure arrive and other evaluations end, start anew."""
    from distributed.core import Status

    worker.status = Status.paused
    await asyncio.sleep(1.0)
    while worker.state.executing_count:
        await asyncio.sleep(0.1)
    if worker.nanny is None:  # nobody would start it again, and the process may be that of others too
        await worker.close(reason="an evaluation outlived its timeout")
    else:  # a worker that closes may take leave of its nanny too, and then nobody starts it again
        exit_process()


@contextmanager
def on_dask(workers: int | None, scheduler: str | None, timeout: float | None) -> Iterator[Workers]:
    """The workers of a scheduler, or of a cluster on this machine that lasts as long as the context."""
    try:
        import dask
        from distributed import Client, LocalCluster, WorkerPlugin
    except ImportError:
        raise SettingError("executor", "dask", "installed: pip install 'mfbo-torch[dask]'") from None

    class Settled(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            if hasattr(os, "setpgid"):
                os.setpgid(0, 0)
            set_up_worker()

    quiet = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.worker.daemon": False,
        "distributed.worker.preload": ["mfbo_torch.loop.evaluation", __name__],  # before it joins and is sent anything
        "distributed.deploy.lost-worker-timeout": "1 day",  # on a busy machine they take long to start anew
    }
    before, client, cluster = multiprocessing.active_children(), None, None
    with dask.config.set(quiet if scheduler is None else {}):
        try:
            if scheduler is None:
                with without_ctrl_c():  # Ctrl-C comes at its end
                    cluster = LocalCluster(
                        n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL"
                    )
            try:
                client = Client(cluster or scheduler, timeout=10, set_as_default=False)
            except (OSError, ValueError, TimeoutError) as error:
                reason = " ".join(str(error).split())
                wanted = f"the address of a running Dask scheduler: {reason}"
                raise SettingError("scheduler", scheduler, wanted) from error
            if cluster is not None:
                client.register_plugin(Settled(), name="mfbo-settled")
            pool = DaskWorkers(client, timeout)
            yield pool
            pool.shutdown(cancel_futures=True)
        finally:
            if client is not None:
                client.close()
            if cluster is not None:
                with suppress(Exception):  # of whatever kind; its workers are ended anyway
                    cluster.close(timeout=GRACE)
                for process in multiprocessing.active_children():  # or this one would wait for them at its end
                    if process not in before and process.name.startswith("Dask Worker"):
                        process.kill()
