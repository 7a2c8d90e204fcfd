"""Jobs whose numbers are others' now, schedulers that fail for a moment, and what goes on after its job."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from quiet_runs import until
from refusals import refused

from mfbo_torch.loop.executors import Attempt, Placement, SubmititJobs, cluster, start, submitit_jobs
from mfbo_torch.loop.executors.submitit_jobs import _processes, _Submitted, _with_room

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'mfbo-torch[slurm]'")
SAYS = {"sbatch": "echo Submitted batch job 7", "squeue": "echo '7|RUNNING'", "scancel": "true", "srun": "true"}


def program(path):
    return ["sh", "-c", f"while sleep 0.1; do echo >> '{path}'; done"]


def tick(path):
    """Start a program that adds to a file, and wait for it."""
    subprocess.run(program(path), check=True)


def leave_a_thread(path):
    """Leave a thread behind that adds to a file."""

    def add():
        while True:
            with open(path, "a") as file:
                file.write("x")
            time.sleep(0.1)

    threading.Thread(target=add).start()
    return 3


def grows(path):
    before = path.stat().st_size
    time.sleep(2.0)
    return path.stat().st_size > before


def answer(job, value):
    """Leave a job's result."""
    draft = job.with_name("draft")
    draft.write_bytes(pickle.dumps(("success", pickle.dumps((value, None)))))
    draft.rename(job)


@pytest.fixture
def scheduler(tmp_path, monkeypatch):
    """A function that says what a command of Slurm does from now on."""

    def says(command, what):
        draft = tmp_path / "draft"
        draft.write_text(f"#!/bin/sh\n{what}\n")
        draft.chmod(0o755)
        draft.rename(tmp_path / "bin" / command)

    (tmp_path / "bin").mkdir()
    for command, what in SAYS.items():
        says(command, what)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(submitit_jobs, "QUEUE_SECONDS", 0.05)
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.1)
    return says


@pytest.fixture
def process(tmp_path):
    """A process that looks like a job, and the job."""
    job = tmp_path / ("long" * 40) / "00000-0-ab"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", job]) as process:
        yield _Submitted(job, str(process.pid))
        process.kill()


def test_a_narrow_terminal_hides_no_job(process, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert _processes([process]) == {process.id: "RUNNING"}
    assert _processes([]) == {}


def test_another_job_that_has_the_number_of_one_is_not_that(process, tmp_path):
    other = process._replace(folder=process.folder.with_name("00001-0-ab"))
    assert _processes([other]) == {}
    jobs = SubmititJobs(Placement("submitit"), 1, tmp_path)
    jobs._withdraw(other)
    assert _processes([process])
    jobs.shutdown()


def test_a_command_that_cannot_be_run_says_nothing(process, scheduler, monkeypatch):
    scheduler("ps", "exit 1")
    assert _processes([process]) is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert _processes([process]) is None


def test_the_result_of_an_earlier_job_of_the_same_number_is_not_taken(scheduler, tmp_path):
    folder = tmp_path / "jobs" / "first"
    folder.mkdir(parents=True)
    answer(folder / "7_0_result.pkl", "old")
    with start("slurm", 1, folder=tmp_path / "jobs") as workers:
        future = workers.submit(len, "abc", attempt=Attempt("first", 0))
        until((folder / "7_submitted.pkl").exists, 60)
        answer(folder / "7_0_result.pkl", "new")
        assert future.result(60) == "new"


def test_a_job_that_is_not_seen_now_and_then_is_not_lost(scheduler, tmp_path):
    looks = tmp_path / "looks"
    scheduler("squeue", f"echo >> {looks}; [ $(($(wc -l < {looks}) % 3)) = 0 ] || echo '7|RUNNING'")
    with start("slurm", 1, folder=tmp_path / "jobs") as workers:
        future = workers.submit(len, "abc", attempt=Attempt("first", 0))
        until(lambda: looks.exists() and looks.stat().st_size > 15, 60)
        assert not future.done()


def test_a_preempted_job_that_cannot_be_sent_again_at_once_is_sent_later(scheduler, tmp_path):
    folder, tries = tmp_path / "jobs" / "first", tmp_path / "tries"
    with start("slurm", 1, folder=tmp_path / "jobs") as workers:
        future = workers.submit(len, "abc", attempt=Attempt("first", 0))
        until((folder / "7_submitted.pkl").exists, 60)
        scheduler("sbatch", f"echo >> {tries}; exit 1")
        scheduler("squeue", f"[ -e {tries} ] && exit 1; echo '7|PREEMPTED'")
        until(lambda: tries.exists() and tries.stat().st_size > 4, 60)
        assert not future.done()
        assert len([*folder.glob("*.pkl")]) <= 2  # what was not sent is no longer there
        scheduler("sbatch", "echo Submitted batch job 8")
        until((folder / "8_submitted.pkl").exists, 60)
        answer(folder / "8_0_result.pkl", 3)
        assert future.result(60) == 3


def test_a_scheduler_that_takes_only_so_many_jobs_gets_the_others_later(scheduler, tmp_path, caplog):
    folder, tries = tmp_path / "jobs", tmp_path / "tries"
    scheduler(
        "sbatch", f"[ -e {folder}/b ] || exec echo Submitted batch job 7; echo >> {tries}; echo Limit >&2; exit 1"
    )
    with start("slurm", 2, folder=folder) as workers:
        one = workers.submit(len, "a", attempt=Attempt("a", 0))
        until((folder / "a" / "7_submitted.pkl").exists, 60)
        two = workers.submit(len, "b", attempt=Attempt("b", 0))
        until(lambda: tries.exists() and tries.stat().st_size > submitit_jobs.REFUSALS + 3, 60)
        assert not two.done()
        answer(folder / "a" / "7_0_result.pkl", 1)
        assert one.result(60) == 1
        assert "must be one that takes jobs" in str(two.exception(60))  # as none goes on that it could be too many for
    assert sum("Limit" in record.message for record in caplog.records) == 1


def test_a_job_waits_while_there_is_no_room_for_its_result(tmp_path, monkeypatch):
    full, written = iter([errno.ENOSPC, errno.EDQUOT]), []

    def write(path, content):
        if error := next(full, None):
            raise OSError(error, os.strerror(error))
        written.append(path)

    monkeypatch.setattr(Path, "write_bytes", write)
    monkeypatch.setattr(submitit_jobs, "QUEUE_SECONDS", 0.0)
    assert _with_room(tmp_path, b"value") == b"value"
    assert len(written) == 1
    assert not [*tmp_path.iterdir()]


def test_a_job_that_is_being_sent_at_the_end_is_cancelled(scheduler, tmp_path):
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    scheduler("sbatch", f"touch {begun}; sleep 2; echo Submitted batch job 7")
    scheduler("scancel", f"echo $1 > {ended}")
    with start("slurm", 1, folder=tmp_path / "jobs") as workers:
        workers.submit(len, "abc")
        until(begun.exists, 60)
    assert ended.read_text() == "7\n"


@pytest.mark.parametrize("kind", ["slurm", "submitit"])
def test_a_folder_in_which_a_scheduler_would_put_numbers_is_refused(scheduler, tmp_path, kind):
    refused("folder = .*without %", start(kind, 1, folder=tmp_path / "50%test").__enter__)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cancelled", "killed", "left alone"])
def test_what_a_job_has_started_ends_with_it(tmp_path, how):
    """Its processes where it is cancelled or the process that watches it is killed, and its threads after its end."""
    path = tmp_path / "ticks"
    with start("submitit", 1, folder=tmp_path / "jobs") as workers:
        future = workers.submit(leave_a_thread if how == "left alone" else tick, str(path))
        until(path.exists, 240)
        if how == "cancelled":
            future.cancel()
        elif how == "killed":
            (submitted,) = (tmp_path / "jobs").glob("*/*_submitted.pkl")
            os.kill(int(submitted.name.partition("_")[0]), signal.SIGKILL)
            assert "ended without a value" in str(future.exception(60))
        else:
            assert future.result(60) == 3
        until(lambda: not grows(path), 30)


@pytest.mark.slow
def test_a_terminal_that_closes_ends_no_job(tmp_path):
    path = tmp_path / "ticks"
    code = "import pathlib, signal, subprocess\nfrom mfbo_torch.loop.executors import start\n"
    code += "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # nohup, if the tests run under it, ignores it
    code += f"with start('submitit', 1, folder=pathlib.Path({str(tmp_path / 'jobs')!r})) as workers:\n"
    code += f"    workers.submit(subprocess.run, {program(path)!r}).result()\n"
    driver = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    until(path.exists, 240)
    (submitted,) = (tmp_path / "jobs").glob("*/*_submitted.pkl")
    os.killpg(driver.pid, signal.SIGHUP)
    driver.wait()
    try:
        time.sleep(3.0)
        assert grows(path)
    finally:
        os.kill(int(submitted.name.partition("_")[0]), signal.SIGKILL)
    until(lambda: not grows(path), 30)
