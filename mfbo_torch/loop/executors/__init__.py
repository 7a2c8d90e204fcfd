"""Where evaluations run: processes of this machine, a Dask or a Ray cluster, or jobs of Slurm.

All are executors of :mod:`concurrent.futures`. Beyond the standard library's own, a worker that dies takes no other
evaluation with it and is replaced, a late evaluation is ended, and workers that come or go are counted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from mfbo_torch.loop.executors.dask_workers import DaskWorkers, on_dask
from mfbo_torch.loop.executors.processes import Processes, in_processes
from mfbo_torch.loop.executors.ray_workers import RayWorkers, on_ray
from mfbo_torch.loop.executors.resources import KINDS, Placement
from mfbo_torch.loop.executors.submitit_jobs import LOG, SubmititJobs, in_jobs, unfinished
from mfbo_torch.loop.executors.workers import POLL_SECONDS, Attempt, WorkerLost, Workers
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, whole

__all__ = [
    "KINDS",
    "POLL_SECONDS",
    "Attempt",
    "DaskWorkers",
    "Placement",
    "Processes",
    "RayWorkers",
    "SubmititJobs",
    "WorkerLost",
    "Workers",
    "capacity",
    "start",
]

MOST_WORKERS = 10_000
"""More than any machine or cluster takes from one driver: a slip of the keyboard."""


def capacity(executor: Executor) -> int:
    """Number of evaluations that an executor can have in flight."""
    for name in ("capacity", "_max_workers"):  # ours change it while they run; the standard library keeps it for itself
        if (found := getattr(executor, name, None)) is not None:
            return int(found)
    kind = type(executor).__name__
    raise SettingError("max_pending", None, f"a number here: {kind} does not tell how many workers it has")


def start(
    kind: str | Mapping[str, Any] = "processes",
    workers: int | None = None,
    scheduler: str | None = None,
    timeout: float | None = None,
    folder: Path | None = None,
) -> AbstractContextManager[Workers]:
    """Workers for as long as the context lasts.

    Args:
        kind: ``"processes"``, ``"dask"``, ``"ray"``, ``"slurm"`` or ``"submitit"``; or a mapping of ``kind`` and the
            resources of an evaluation, see :class:`~mfbo_torch.loop.executors.resources.Placement`.
        workers: How many evaluate at once; one a core if not given.
        scheduler: The address of a Dask or a Ray cluster, which then has its own workers. Without one Ray takes the
            cluster that runs on this machine, and both start one where there is none.
        timeout: Seconds that an evaluation may take; the time in a queue does not count.
        folder: Where the jobs of Slurm and submitit are kept, and found again by a driver that comes back.

    Raises:
        SettingError: A setting cannot work, no scheduler is at the address, or a library is not installed.
    """
    placement = Placement.read(kind)
    if scheduler is not None and placement.kind not in ("dask", "ray"):
        raise SettingError("scheduler", scheduler, "left out, or given with executor dask or ray")
    if timeout is not None:
        timeout = number("timeout", timeout, above=0, wanted="a number of seconds above 0")
    if workers is not None:
        workers = whole("workers", workers)
        if workers > MOST_WORKERS:
            raise SettingError("workers", workers, f"at most {MOST_WORKERS:,}")
    in_folder = placement.kind in ("slurm", "submitit")
    if folder is not None and not in_folder and (left := unfinished(folder)):
        says = "jobs without a result in %s: %d; the executors slurm and submitit wait for them, this one repeats them"
        LOG.warning(says, folder, left)
    if placement.kind == "dask":
        return on_dask(workers, scheduler, timeout)
    if placement.kind == "ray":
        return on_ray(placement, workers, scheduler, timeout)
    workers = workers or os.cpu_count() or 1
    if placement.kind == "processes":
        return in_processes(workers, timeout)
    return in_jobs(placement, workers, folder, timeout)
