"""The workers of a Ray cluster."""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mfbo_torch.loop.executors.cluster import ClusterWorkers, loaded, parcel
from mfbo_torch.loop.executors.resources import Placement, Resources
from mfbo_torch.loop.executors.workers import Call, WorkerLost, Workers, answer, answered, without_ctrl_c
from mfbo_torch.utils.errors import SettingError

if TYPE_CHECKING:
    from ray import ObjectRefGenerator

BEGUN = b"begun"
KNOCK_SECONDS = 10.0
"""How long the address of a cluster has to answer."""


class RayWorkers(ClusterWorkers["ObjectRefGenerator"]):
    """Tasks of a Ray cluster, at most ``most`` at a time and as many as it has room for.

    Ray queues those whose resources are busy; the timeout counts from their beginning. A task is never repeated by Ray
    itself, and a late one is ended with its process.
    """

    def __init__(self, placement: Placement, most: int | None, timeout: float | None = None) -> None:
        self._placement, self._most, self._room = placement, most, 0
        self._count()
        super().__init__(timeout)

    @property
    def capacity(self) -> int:
        return self._room if self._most is None else min(self._most, self._room)

    def packed(self, *content: Any) -> bytes:
        from ray import cloudpickle

        return parcel(cloudpickle.dumps(content))

    def _count(self) -> None:
        """Count the tasks that the cluster has room for, of the kind that fits most often."""
        import ray

        have = ray.cluster_resources()
        self._room = max(_times(have, needs) for needs in self._placement.all)

    def _look(self) -> None:
        import ray

        while len(self._placed) < self.capacity and (call := self._next()):
            needs = self._placement.of(call.attempt and call.attempt.fidelity)
            memory = {} if needs.memory is None else {"memory": int(needs.memory * 1e9)}
            task = ray.remote(answer_in_steps).options(
                num_cpus=needs.cpus, num_gpus=needs.gpus, num_returns="streaming", max_retries=0, **memory
            )
            running = task.remote(call.content)
            self._placed_at(call, running)
            running.completed().future().add_done_callback(partial(self._landed, call, running))
        self._count()
        for call, running in [*self._placed.items()]:
            if call.begun is None and running.next_ready():
                call.begun = time.perf_counter()
            elif self.timeout is not None and call.begun and time.perf_counter() - call.begun > self.timeout:
                self._end(call, TimeoutError())
                self._withdraw(running)

    def _withdraw(self, place: ObjectRefGenerator) -> None:
        import ray

        with suppress(Exception):  # of whatever kind; it has ended already, or the cluster has
            ray.cancel(place, force=True)

    def _landed(self, call: Call, running: ObjectRefGenerator, completed: Future[Any]) -> None:
        """Pass on what came of a task."""
        import ray

        try:
            content = [ray.get(part) for part in running][-1]
        except ray.exceptions.RaySystemError as error:
            self._end(call, error)
        except ray.exceptions.OutOfMemoryError:
            self._end(call, WorkerLost("the node was out of memory"))
        except Exception as error:  # Ray's own, of many kinds; what the objective raises is in the answer
            self._end(call, WorkerLost(f"the worker died: {' '.join(str(error).split())[:200]}"))
        else:
            value, raised = answered(content)
            self._end(call, raised, value)
        self._wake.set()


def answer_in_steps(parcel: bytes) -> Iterator[bytes]:
    """The answer to a parcel, after a sign that it has begun; what it imports is there by then."""
    call = loaded(parcel)
    yield BEGUN
    yield answer(call)


def _times(have: dict[str, float], needs: Resources) -> int:
    wanted = {"CPU": needs.cpus, "GPU": needs.gpus, "memory": (needs.memory or 0) * 1e9}
    return min(int(have.get(name, 0) / amount) for name, amount in wanted.items() if amount)


@contextmanager
def on_ray(placement: Placement, workers: int | None, address: str | None, timeout: float | None) -> Iterator[Workers]:
    """The workers of a running Ray cluster, or of one on this machine that lasts as long as the context."""
    try:
        import ray
    except ImportError:
        raise SettingError("executor", "ray", "installed: pip install 'mfbo-torch[ray]'") from None
    ours = not ray.is_initialized()
    try:
        if ours:
            with without_ctrl_c():
                _connect(ray, placement, address, workers)
        pool = RayWorkers(placement, workers, timeout)
        if address is None and not pool.capacity:
            raise SettingError("executor", "ray", "resources that the cluster has; no evaluation fits")
        yield pool
        pool.shutdown(cancel_futures=True)
    finally:
        if ours:
            ray.shutdown()


def _connect(ray: Any, placement: Placement, address: str | None, workers: int | None) -> None:
    """Connect to the cluster at an address, to one that runs, or to a new one with room for all ``workers``."""
    address = address or os.environ.get("RAY_ADDRESS") or None
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        try:
            _knock(address or "auto")
            ray.init(address or "auto", **quiet)
        except ConnectionError:
            if address is not None:
                raise
            cpus = None if workers is None else math.ceil(workers * max(needs.cpus for needs in placement.all))
            ray.init("local", num_cpus=cpus, include_dashboard=False, **quiet)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SettingError("scheduler", address, f"the address of a running Ray cluster: {reason}") from error


def _knock(address: str) -> None:
    """An ``OSError`` where nobody listens at ``host:port``: Ray itself would try for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), KNOCK_SECONDS).close()
