"""What holds for every executor: values, failures, deaths, timeouts, cancelled calls, and a driver that is killed.

A driver is killed twice; ``MFBO_KILLS=12`` kills it more often.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from counted import evaluations, misbehave
from quiet_runs import quiet, timeless, until
from refusals import refused
from toy import Hill, Walk

from benchmarks.robustness.kills import torment
from mfbo_torch.history import Status
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.executors import WorkerLost
from mfbo_torch.loop.runner import run

KILLS = int(os.environ.get("MFBO_KILLS", "2"))


def double(x):
    return 2 * x


class Locked(Hill):
    """Holds what nothing can pickle."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_values_errors_and_an_objective_that_cannot_be_sent(workers_of):
    with workers_of() as workers:
        assert workers.capacity == 2
        futures = [workers.submit(double, i) for i in range(3)]
        failing = workers.submit(double, None)
        assert [future.result(600) for future in futures] == [0, 2, 4]
        with pytest.raises(TypeError):
            failing.result(600)
        with pytest.raises(TypeError, match="pickle"):
            workers.submit(double, threading.Lock()).result(600)
        said = "^objective = 'Locked': must be a function at the top of a module"
        refused(said, run, Locked(), Walk(), 20.0, progress=False, executor=workers)


@pytest.mark.slow
def test_a_worker_that_dies_is_late_or_is_cancelled_takes_nothing_else_with_it(workers_of):
    with workers_of(timeout=5.0) as workers:
        late, dying = workers.submit(misbehave, "hang"), workers.submit(misbehave, "die")
        with pytest.raises(TimeoutError, match="no value within 5 seconds"):
            late.result(600)
        with pytest.raises(WorkerLost, match="died"):
            dying.result(600)
        assert workers.submit(double, 4).result(600) == 8


@pytest.mark.slow
def test_what_is_cancelled_ends(workers_of, kind):
    if kind == "dask":
        pytest.skip("Dask does not end a task that runs")
    with workers_of() as workers:
        started = time.monotonic()
        for seconds in (0.5, 1.0, 2.0):  # a job may be starting, or be at it
            sleeping = [workers.submit(misbehave, "hang") for _ in range(2)]
            waiting, after = workers.submit(double, 1), workers.submit(double, 2)
            time.sleep(seconds)
            assert all(future.cancel() for future in [*sleeping, waiting])
            assert after.result(600) == 4
        assert time.monotonic() - started < 500


@pytest.mark.slow
def test_one_worker_decides_as_this_process_does(workers_of):
    here = timeless(quiet(Hill(error=0.5), Walk(), 14.0))
    with workers_of() as workers:
        assert timeless(quiet(Hill(error=0.5), Walk(), 14.0, executor=workers)) == here


@pytest.mark.slow
def test_a_driver_that_is_killed_loses_nothing_and_does_nothing_twice(kind, tmp_path):
    """Jobs of a scheduler go on without it; other evaluations in flight are repeated, and no others."""
    file, out = tmp_path / "evaluations", tmp_path / "out"
    problem = {"class_path": "counted.Counted", "init_args": {"file": str(file), "seconds": 0.5}}
    capital = 14 + 5 * KILLS
    settings = {"problem": problem, "strategy": {"class_path": "toy.Walk", "init_args": {"every": 1000}}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**settings, "capital": capital}))
    command = [sys.executable, "-m", "mfbo_torch", "run", str(tmp_path / "a.yaml"), "--out", str(out)]
    command += ["--executor", kind, "--workers", "2"]
    paths = os.pathsep.join([str(Path(__file__).parents[2] / "helpers"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    for _ in range(KILLS):
        before = len(evaluations(file))
        driver = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda before=before: len(evaluations(file)) >= before + 3)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    with Journal(out / "history.sqlite", read_only=True) as journal:
        history = journal.history()
    assert {record.status for record in history} == {Status.DONE}
    assert [record.id for record in history] == list(range(capital))
    found = evaluations(file)
    assert set(found) == {(record.query.x[0], record.query.fidelity) for record in history}
    repeated = found.total() - len(found)
    print(f"{kind}: {KILLS} kills, {len(history)} evaluations, {repeated} repeated")
    assert repeated <= (0 if kind in ("slurm", "submitit") else 2 * KILLS)


@pytest.mark.slow
def test_workers_drivers_and_schedulers_that_are_killed_lose_nothing_and_repeat_what_was_in_flight(kind):
    """``python -m benchmarks.robustness.kills`` does more of it."""
    row = torment(kind, 1, ("cancel",))
    assert (row["kills"], row["lost"], row["twice"], row["beyond"]) == (3, 0, 0, 0)
