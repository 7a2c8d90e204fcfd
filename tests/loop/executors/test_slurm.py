"""What a scheduler does to jobs, with a real Slurm of this one machine."""

import os
import time

import pytest
from counted import misbehave
from quiet_runs import until

from mfbo_torch.loop.executors import Attempt, WorkerLost, start

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'mfbo-torch[slurm]'")
pytestmark = [pytest.mark.slow, pytest.mark.slurm]


def double(x):
    return 2 * x


def once_then_value(path):
    """Takes long when it runs for the first time, and not when it is started again."""
    first = not os.path.exists(path)
    open(path, "a").close()
    time.sleep(600 if first else 0)
    return 3


def jobs(slurm, form="%i"):
    return slurm.ask("squeue", "--me", "--noheader", f"--format={form}").split()


@pytest.fixture
def running(slurm, tmp_path):
    def begin(fn, *args, **resources):
        context = start({"kind": "slurm", **resources}, 1, folder=tmp_path / "jobs")
        workers = context.__enter__()
        opened.append(context)
        future = workers.submit(fn, *args, attempt=Attempt("first", 0))
        until(lambda: any((tmp_path / "jobs").rglob("begun")), 120)
        return future

    opened = []
    yield begin
    for context in opened:
        context.__exit__(None, None, None)


def test_a_job_that_somebody_cancels_is_lost(running, slurm):
    future = running(misbehave, "hang")
    slurm.ask("scancel", *jobs(slurm))
    with pytest.raises(WorkerLost, match="ended without a value: CANCELLED"):
        future.result(120)
    assert time.perf_counter() - future.begun < 60


def test_a_job_that_eats_the_memory_of_its_node_is_lost(running):
    future = running(misbehave, "eat", memory=1)
    with pytest.raises(WorkerLost, match=r"(?i)memory"):
        future.result(120)


def test_a_job_over_its_time_limit_is_late(running):
    future = running(misbehave, "hang", time=60)
    with pytest.raises(TimeoutError, match="ended by its time limit"):
        future.result(240)


def test_a_job_that_is_preempted_or_requeued_has_one_value(running, slurm, tmp_path):
    future = running(once_then_value, str(tmp_path / "was here"), partition="usual")
    until(lambda: (tmp_path / "was here").exists(), 60)
    slurm.ask("scontrol", "requeue", *jobs(slurm))
    assert future.result(240) == 3


def test_a_scheduler_that_is_killed_takes_nothing_with_it(running, slurm):
    future = running(time.sleep, 12.0)
    slurm.kill("slurmctld")
    time.sleep(8.0)
    assert not future.done()
    slurm.start("slurmctld")
    slurm.wait_until_idle(120)
    assert future.result(120) is None


def test_a_wrong_partition_is_a_wrong_setting(slurm, tmp_path):
    with start({"kind": "slurm", "partition": "nowhere"}, 1, folder=tmp_path / "jobs") as workers:
        error = workers.submit(double, 1).exception(120)
    assert "executor = 'slurm': must be one that takes jobs" in str(error)
    assert "partition" in str(error)


def test_the_time_in_the_queue_is_no_cost(slurm, tmp_path):
    with start({"kind": "slurm", "cpus": 3}, 2, folder=tmp_path / "jobs") as workers:
        long, queued = (workers.submit(misbehave, "hang", attempt=Attempt(name, 0)) for name in ("long", "queued"))
        until(lambda: (tmp_path / "jobs" / "long" / "begun").exists(), 120)
        slurm.ask("scancel", "--state=PENDING", "--me")
        with pytest.raises(WorkerLost, match="CANCELLED"):
            queued.result(120)
        assert queued.begun is None
        assert long.cancel()
