"""Where evaluations run: processes of this machine, or the workers of a Dask cluster.

Both are executors of :mod:`concurrent.futures`. Beyond the standard library's own, a worker that dies takes no other
evaluation with it and is replaced, a late evaluation is ended, and workers that come or go are counted.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor
from contextlib import AbstractContextManager

from mfbo_torch.loop.executors.dask_workers import DaskWorkers, on_dask
from mfbo_torch.loop.executors.processes import Processes, in_processes
from mfbo_torch.loop.executors.workers import POLL_SECONDS, WorkerLost, Workers
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, one_of, whole

__all__ = ["KINDS", "POLL_SECONDS", "DaskWorkers", "Processes", "WorkerLost", "Workers", "capacity", "start"]

KINDS = ("processes", "dask")


def capacity(executor: Executor) -> int:
    """Number of evaluations that an executor can have in flight."""
    for name in ("capacity", "_max_workers"):  # ours change it while they run; the standard library keeps it for itself
        if (found := getattr(executor, name, None)) is not None:
            return int(found)
    kind = type(executor).__name__
    raise SettingError("max_pending", None, f"a number here: {kind} does not tell how many workers it has")


def start(
    kind: str = "processes", workers: int | None = None, scheduler: str | None = None, timeout: float | None = None
) -> AbstractContextManager[Workers]:
    """Workers, ``"processes"`` or those of ``"dask"``, for as long as the context lasts.

    One a core if their number is not given; where a scheduler's address is given they are its own, else Dask makes a
    cluster on this machine. An evaluation may take ``timeout`` seconds.

    Raises:
        SettingError: A setting cannot work, no scheduler is at the address, or Dask is not installed.
    """
    one_of("executor", kind, KINDS)
    if scheduler is not None and kind != "dask":
        raise SettingError("scheduler", scheduler, "left out, or given with executor dask")
    if timeout is not None:
        timeout = number("timeout", timeout, above=0, wanted="a number of seconds above 0")
    if workers is not None:
        workers = whole("workers", workers)
    if kind == "dask":
        return on_dask(workers, scheduler, timeout)
    return in_processes(workers or os.cpu_count() or 1, timeout)
