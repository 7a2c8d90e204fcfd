"""Jobs of submitit: on Slurm, or on this machine. They go on without their driver, which finds them again."""

from __future__ import annotations

import errno
import math
import os
import pickle
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from shutil import which
from typing import Any, NamedTuple

from mfbo_torch.loop.executors.cluster import ClusterWorkers, loaded, opened, parcel
from mfbo_torch.loop.executors.processes import GRACE, in_processes
from mfbo_torch.loop.executors.resources import Placement
from mfbo_torch.loop.executors.workers import (
    POLL_SECONDS,
    Call,
    WorkerLost,
    Workers,
    answer,
    answered,
    exit_process,
    without_ctrl_c,
)
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import temporary_folder
from mfbo_torch.utils.output_streams import logger

LOG = logger(__name__)

QUEUE_SECONDS = 5.0
"""Seconds between two looks at Slurm's queue; whether there is a result is looked at once a second."""
ANSWER_SECONDS = 60.0
"""Seconds after which a scheduler that does not answer is asked again."""
REFUSALS = 12
"""How often in a row a scheduler that has taken jobs may refuse one while none goes on, before the run ends."""
REQUEUES = 5
"""How often a job that the cluster has ended, and not the evaluation, is sent again."""
LOOKS = 3
"""Looks at the states after which a job that has ended without a result is lost; other machines see files late."""
OF_CLUSTER = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL")
"""States of Slurm's jobs that the cluster has ended."""
ALIVE = ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "REQUEUE", "RESIZING", "SIGNALING")
NO_LIMIT = 5_256_000
"""Minutes that a job on this machine may take where no time is given: ten years."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk that is full."""
SPARE = 2**16
"""Bytes that the disk has to have beside a result, for what submitit writes with it."""
SUBMITTED, RESULT, BEGUN = "_submitted.pkl", "_0_result.pkl", "begun"


class _Submitted(NamedTuple):
    """A job: its folder and its number."""

    folder: Path
    id: str

    @property
    def result(self) -> Path:
        return self.folder / f"{self.id}{RESULT}"

    def forget(self) -> None:
        """Let the next driver send the evaluation again."""
        (self.folder / f"{self.id}{SUBMITTED}").unlink(missing_ok=True)


class SubmititJobs(ClusterWorkers[_Submitted]):
    """Jobs of Slurm, or processes of this machine where ``placement.kind`` is ``"submitit"``, ``most`` at a time.

    Each has a folder of its attempt's name in ``folder``, which all nodes see. submitit moves the result there once it
    is whole, so a driver that comes back takes what ended meanwhile, and waits for what still runs.
    """

    def __init__(self, placement: Placement, most: int, folder: Path, timeout: float | None = None) -> None:
        self._placement, self._most, self._folder = placement, most, folder
        self._looked = self._again = -math.inf
        self._refusals, self._told = REFUSALS, ""  # until it takes a job, its first refusal counts
        self._gone: dict[Call, int] = {}
        self._sent: dict[Call, int] = {}
        super().__init__(timeout)

    @property
    def capacity(self) -> int:
        return self._most

    def packed(self, *content: Any) -> bytes:
        import cloudpickle

        return parcel(cloudpickle.dumps(content))

    def _look(self) -> None:
        while len(self._placed) < self._most and time.monotonic() >= self._again and (call := self._next()):
            folder = self._folder / (call.attempt.name if call.attempt else token_hex(8))
            try:
                self._placed_at(call, self._found(folder) or self._submitted(call, folder))
                self._refusals = 0
            except Exception as error:  # of whatever kind: submitit's own, the disk's, what sbatch says
                said = " ".join(str(error).split())[-300:]
                if not self._passes(error):
                    call.end(error=SettingError("executor", self._placement.kind, f"one that takes jobs: {said}"))
                    continue
                if said != self._told:
                    LOG.warning("no job could be sent, trying again: %s", said)
                self._told, self._again = said, time.monotonic() + QUEUE_SECONDS
                self._waiting.appendleft(call)
        states = self._states(self._placed.values())
        for call, job in [*self._placed.items()]:
            if call.begun is None and (job.folder / BEGUN).exists():
                call.begun = time.perf_counter()
            if job.result.exists():
                self._collect(call, job)
            elif states is not None and not states.get(job.id, "").startswith(ALIVE):
                self._gone[call] = self._gone.get(call, 0) + 1
                if self._gone[call] >= LOOKS:
                    self._lose(call, job, states.get(job.id, ""))
            elif states is not None:
                self._gone.pop(call, None)

    def _passes(self, error: Exception) -> bool:
        """Whether a job that could not be sent is sent again: the disk is full, the scheduler does not answer, or it
        refuses one after it has taken others, as where it takes only so many of a user."""
        if getattr(error, "errno", 0) in FULL or self._states([], force=True) is None:
            return True
        if not self._placed:
            self._refusals += 1
        return self._refusals <= REFUSALS

    def _collect(self, call: Call, job: _Submitted) -> None:
        from mfbo_torch.loop.executors import results  # loads torch, which settings do not need

        try:
            state, content = results.unpickled(results.content_of(job.result))
            if state == "success":
                value, error = answered(content) if call.attempt is None else results.answered(content)
            else:  # of submitit's own: what the objective raises is in the answer
                value, error = None, WorkerLost(f"job {job.id} failed: {content.strip().splitlines()[-1]}")
        except Exception as wrong:  # of whatever kind: the file may be another's
            value, error = None, pickle.UnpicklingError(" ".join(str(wrong).split()))
        if call.attempt is not None and isinstance(error, pickle.UnpicklingError):
            error = WorkerLost(f"job {job.id} left no result of an evaluation: {error}")
        if error is not None or getattr(value, "raised", True):
            job.forget()  # a whole run has its own journal, and an evaluation may be repaired before the next driver
        self._end(call, error, value)

    def _lose(self, call: Call, job: _Submitted, state: str) -> None:
        """Send a job again that the cluster has ended; else its evaluation is lost with it."""
        job.forget()
        del self._gone[call]
        self._sent[call] = self._sent.get(call, 0) + 1
        if state.startswith(OF_CLUSTER) and self._sent[call] <= REQUEUES and not call.cancelled():
            call.begun = None
            self._waiting.appendleft(call)
            del self._placed[call]
            return
        if state.startswith("TIMEOUT"):
            self._end(call, TimeoutError(f"job {job.id} was ended by its time limit"))
            return
        with suppress(OSError):
            said = (job.folder / f"{job.id}_0_log.err").read_text("utf-8", "replace").strip().splitlines()
            state = "; ".join(filter(None, [state, *said[-3:]]))
        self._end(call, WorkerLost(f"job {job.id} ended without a value{f': {state}' if state else ''}"))

    def _found(self, folder: Path) -> _Submitted | None:
        """The job of an earlier driver, if it has a result or goes on."""
        for path in folder.glob(f"*{SUBMITTED}"):
            job = _Submitted(folder, path.name.removesuffix(SUBMITTED))
            if not job.id.isdecimal():  # no job's number, and an option of the scheduler's commands perhaps
                continue
            while (states := self._states([job], force=True)) is None and not job.result.exists():
                if self._over:
                    raise CancelledError
                time.sleep(QUEUE_SECONDS)  # the scheduler does not answer, and may know it
            if job.result.exists() or (states or {}).get(job.id, "").startswith(ALIVE):
                return job
            job.forget()
        return None

    def _submitted(self, call: Call, folder: Path) -> _Submitted:
        from submitit import AutoExecutor

        needs, local = self._placement.of(call.attempt and call.attempt.fidelity), self._placement.kind == "submitit"
        minutes = None if needs.time is None else math.ceil(needs.time / 60)
        executor = AutoExecutor(folder, cluster="local" if local else "slurm")
        of_slurm = {"slurm_partition": needs.partition, "slurm_additional_parameters": dict(needs.sbatch)}
        executor.update_parameters(
            name=f"mfbo-{folder.name}",
            timeout_min=NO_LIMIT if local and minutes is None else minutes,
            cpus_per_task=needs.cpus,
            gpus_per_node=int(needs.gpus),
            mem_gb=needs.memory,
            **of_slurm,
        )
        if not local and minutes is None:
            executor.parameters["time"] = None  # the partition's own; submitit's would be five minutes
        for left in [folder / BEGUN, *folder.glob("*.pkl"), *folder.glob(".*.sh")]:
            left.unlink(missing_ok=True)  # the new job may have the number of an earlier one
        with without_ctrl_c():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # a terminal that closes ends the driver only
            job = executor.submit(run_job, call.content, self.timeout, needs.cpus)
        return _Submitted(folder, job.job_id)

    def _withdraw(self, place: _Submitted) -> None:
        place.forget()
        with suppress(OSError):
            if self._placement.kind == "slurm":
                _said(["scancel", place.id])
            elif place.id in (_processes([place]) or {}):
                os.kill(int(place.id), signal.SIGKILL)  # submitit passes over SIGTERM until run_job has begun

    def _states(self, jobs: Iterable[_Submitted], force: bool = False) -> dict[str, str] | None:
        """The states of jobs by their numbers; ``None`` while nobody says them, or when last asked a moment ago."""
        if self._placement.kind == "submitit":
            return _processes(jobs)
        if not force and time.monotonic() - self._looked < QUEUE_SECONDS:
            return None
        self._looked = time.monotonic()
        found = _said(["squeue", "--me", "--noheader", "--states=all", "--format=%i|%T"])
        lines = (line.strip().partition("|") for line in (found or "").splitlines())
        return None if found is None else {id: state for id, _, state in lines}


def _processes(jobs: Iterable[_Submitted]) -> dict[str, str] | None:
    """Those among some jobs that go on as processes of this machine; others may have their numbers now.

    This process is asked for too, as ``ps`` that finds none looks like one that has failed.
    """
    names = {job.id: job.folder.name for job in jobs}
    said = _said(["ps", "-ww", "-o", "pid=,stat=,args=", "-p", ",".join([str(os.getpid()), *names])])
    found = [line.split(None, 2) for line in (said or "").splitlines()]
    alive = (id for id, state, args in found if id in names and args.endswith(names[id]) and not state.startswith("Z"))
    return None if said is None else dict.fromkeys(alive, "RUNNING")


def _said(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, check=False, capture_output=True, timeout=ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.decode("utf-8", "replace")


def run_job(content: bytes, timeout: float | None, cpus: int) -> bytes:
    """The answer to a parcel, in a job; in a process of its own where it has a timeout."""
    local = os.environ["SUBMITIT_EXECUTOR"] == "local"
    if local:
        os.setsid()
    watcher = int(os.environ["SUBMITIT_LOCAL_JOB_ID"]) if local else os.getppid()
    threading.Thread(target=_end_with, args=[watcher], daemon=True).start()
    import torch

    for signal_of_end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_of_end, signal.SIG_DFL)  # submitit would go on
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # submitit would give up before the limit
    torch.set_num_threads(cpus)
    folder = Path(os.environ["SUBMITIT_FOLDER"])
    with suppress(OSError):
        (folder / BEGUN).touch()
    if timeout is None:
        found = answer(partial(_with_known_errors, loaded(content)))
    else:
        with in_processes(1, timeout) as process:
            found = answer(lambda: _with_known_errors(process.submit(_apply, _Pickled(opened(content))).result))
    return _with_room(folder, found)


def _with_room(folder: Path, content: bytes) -> bytes:
    """The content, once the disk has room for it: submitit, which writes it, would lose it."""
    draft, full = folder / "room", True
    while full:
        try:
            draft.write_bytes(content + bytes(SPARE))
            full = False
        except OSError as error:
            full = error.errno in FULL
        with suppress(OSError):
            draft.unlink(missing_ok=True)  # while it waits too: others may need what there is
        if full:
            time.sleep(QUEUE_SECONDS)
    return content


def _end_with(watcher: int) -> None:
    """End this process with the one that watches it, or once nothing goes on but what the objective has left."""
    while os.getppid() == watcher and threading.main_thread().is_alive():
        threading.main_thread().join(POLL_SECONDS)
    if os.getppid() == watcher:
        time.sleep(GRACE)
    exit_process()


def _with_known_errors(call: Callable[[], Any]) -> Any:
    """What a call returns; what it raises as an exception that :mod:`~mfbo_torch.loop.executors.results` reads."""
    try:
        return call()
    except Exception as error:
        if type(error).__module__ == "builtins" or type(error) is WorkerLost:
            raise
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


class _Pickled:
    """A pickled call that is read where this is, by cloudpickle."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __reduce__(self) -> Any:
        import cloudpickle

        return cloudpickle.loads, (self.content,)


def _apply(call: tuple[Any, tuple[Any, ...]]) -> Any:
    fn, args = call
    return fn(*args)


def unfinished(folder: Path) -> int:
    """How many jobs of an earlier driver there are in a folder that have left no result."""
    submitted = (path.parent / path.name.replace(SUBMITTED, RESULT) for path in folder.glob(f"*/*{SUBMITTED}"))
    return sum(not result.exists() for result in submitted)


@contextmanager
def in_jobs(placement: Placement, workers: int, folder: Path | None, timeout: float | None) -> Iterator[Workers]:
    """Jobs for as long as the context lasts; without a folder, in one that does not outlast it."""
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise SettingError("executor", placement.kind, "installed: pip install 'mfbo-torch[slurm]'") from None
    if placement.kind == "slurm" and not which("sbatch"):
        raise SettingError("executor", "slurm", "used where Slurm's sbatch is found")
    if placement.kind == "submitit" and not which("ps"):
        raise SettingError("executor", "submitit", "used where the command ps is found, as in Debian's procps")
    if placement.kind == "slurm" and folder is None:
        raise SettingError("folder", None, "a folder that all nodes of the cluster see")
    if folder is not None and re.search("%[jtAa]" if placement.kind == "submitit" else "%", str(folder.absolute())):
        raise SettingError("folder", str(folder), "a path without %: schedulers put numbers in its place")
    with temporary_folder() if folder is None else nullcontext(folder.absolute()) as place:
        jobs = SubmititJobs(placement, workers, place, timeout)
        try:
            yield jobs
        finally:
            jobs.shutdown(cancel_futures=True)
