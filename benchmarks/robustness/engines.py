"""The engines of :mod:`benchmarks.robustness.kills`: how each is started, and how its scheduler is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
PAUSE = 3.0
"""Seconds until a scheduler that was killed is started again."""


def ended(process: int) -> bool:
    """Whether a process is there no more, or waits for nothing but its parent."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(process).status() == psutil.STATUS_ZOMBIE)
    return True


class Engine(AbstractContextManager["Engine"]):
    """Processes of the driver's own."""

    settings: dict[str, Any] = {"executor": "processes", "workers": 2, "timeout": 10.0}  # noqa: RUF012
    without: tuple[str, ...] = ("scheduler", "memory")
    """What cannot happen to it."""
    survives: tuple[str, ...] = ("disk",)
    """After which strikes nothing may be repeated."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __exit__(self, *_: object) -> None:
        pass

    def environment(self) -> dict[str, str]:
        """What drivers and daemons find in their environment."""
        return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def worker(self, process: int) -> None:
        """Kill the process of an evaluation."""
        os.kill(process, signal.SIGKILL)

    def scheduler(self, process: int) -> None:
        """Kill the scheduler of an evaluation, and have another one take its place."""
        raise NotImplementedError

    def cancel(self, process: int) -> None:
        """End an evaluation as somebody does by hand."""
        os.kill(process, signal.SIGTERM)


class Submitit(Engine):
    """Jobs of submitit on this machine, each with a process that watches it."""

    settings = {"executor": {"kind": "submitit", "time": 60}, "workers": 2}  # noqa: RUF012
    without = ("memory",)
    survives = ("driver",)

    def scheduler(self, process: int) -> None:
        psutil.Process(process).parent().kill()

    def cancel(self, process: int) -> None:
        psutil.Process(process).parent().terminate()


class Slurm(Engine):
    """Slurm on this machine, see ``tests/helpers/slurm_cluster.py``, with somebody who looks after it.

    A ``slurmctld`` that is killed forgets the jobs of the last seconds, gives their numbers again, and then takes the
    node out of use, as a job with that number runs there.
    """

    OPERATOR = (
        "while sleep 5; do scontrol update NodeName=ALL State=RESUME; squeue --me --noheader --format='%i %r' "
        "| awk '/held/ {print $1}' | xargs -r scontrol release; done >/dev/null 2>&1"
    )

    settings = {"executor": {"kind": "slurm", "time": 60, "memory": 1}, "workers": 2}  # noqa: RUF012
    without = ()
    survives = ("driver",)

    def __enter__(self) -> Slurm:
        sys.path.append(str(ROOT / "tests" / "helpers"))
        from slurm_cluster import slurm_cluster

        self._stack = ExitStack()
        self._cluster = self._stack.enter_context(slurm_cluster())
        self._stack.callback(subprocess.Popen(self.OPERATOR, shell=True, env=self._cluster.environment).kill)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def scheduler(self, process: int) -> None:
        self._cluster.kill("slurmctld")
        time.sleep(PAUSE)
        self._cluster.start("slurmctld")

    def cancel(self, process: int) -> None:
        self._cluster.ask("scancel", psutil.Process(process).environ()["SLURM_JOB_ID"])


class Daemons(Engine):
    """A cluster of daemons that are started by commands, all of which end when the scheduler is killed."""

    without = ()

    def __enter__(self) -> Daemons:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.settings = {**self.settings, "scheduler": self.address()}
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            self._end(process)

    def address(self) -> str:
        """Where drivers find it."""
        raise NotImplementedError

    def commands(self) -> list[list[str]]:
        """What starts its daemons, the scheduler's first."""
        raise NotImplementedError

    def _start(self) -> None:
        with (self.folder / "daemons.log").open("ab") as said:
            how: Any = {"env": self.environment(), "stdout": said, "stderr": said, "start_new_session": True}
            self.running = [subprocess.Popen(command, **how) for command in self.commands()]
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
                return
            time.sleep(0.1)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(psutil.NoSuchProcess):
            for child in [*psutil.Process(process.pid).children(recursive=True), process]:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        process.wait()

    def scheduler(self, process: int) -> None:
        self.kill()
        time.sleep(PAUSE)
        for daemon in self.running:
            self._end(daemon)
        self._start()

    def kill(self) -> None:
        """Kill the scheduler alone."""
        self.running[0].kill()


class Dask(Daemons):
    """``dask scheduler`` and ``dask worker``, whose nannies end workers that use too much memory."""

    settings = {"executor": "dask", "timeout": 10.0}  # noqa: RUF012

    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def commands(self) -> list[list[str]]:
        dask = [sys.executable, "-m", "dask"]
        where = ["--local-directory", str(self.folder / "dask")]
        limits = ["--nworkers", "2", "--nthreads", "1", "--memory-limit", "1.5GB", "--no-dashboard"]
        scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        return [scheduler, [*dask, "worker", self.address(), *limits, *where]]


class Ray(Daemons):
    """``ray start``, whose monitor of memory ends tasks."""

    settings = {"executor": "ray", "timeout": 10.0}  # noqa: RUF012

    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        memory = psutil.virtual_memory()
        threshold = (memory.total - memory.available + 4e9) / memory.total
        own = {"RAY_memory_usage_threshold": f"{threshold:.3f}", "RAY_AUTH_MODE": "disabled"}
        return {**super().environment(), **own}

    def commands(self) -> list[list[str]]:
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--include-dashboard=false"]
        return [[*ray, "--num-cpus=2", f"--port={self.port}"]]

    def kill(self) -> None:
        for child in psutil.Process(self.running[0].pid).children(recursive=True):
            if child.name() == "gcs_server":
                child.kill()


ENGINES: dict[str, type[Engine]] = {
    "processes": Engine,
    "dask": Dask,
    "ray": Ray,
    "submitit": Submitit,
    "slurm": Slurm,
}
