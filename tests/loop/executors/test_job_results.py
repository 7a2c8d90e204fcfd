"""What somebody else has put into the folder of a run's jobs, in the place of a result."""

import io
import os
import pickle
from pathlib import Path

import pytest
from installed import installed
from quiet_runs import quiet
from refusals import refused
from toy import Hill, Walk

from mfbo_torch.history import History
from mfbo_torch.history.observation import Observation, Outcome
from mfbo_torch.loop.early_failures import Hopeless
from mfbo_torch.loop.evaluation import Evaluation, evaluate
from mfbo_torch.loop.executors import WorkerLost, results, start, submitit_jobs
from mfbo_torch.loop.executors.sending import attempt_of
from mfbo_torch.tracking import Callback


class Evil:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Built:
    """Calls something by a name that is read from the pickle."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self):
        return getattr(__import__("builtins"), self.name), ("1",)


GOOD = Evaluation(
    Observation(0.5, 0.1, {"memory": Outcome(3.0, None, True)}), "", 1.5, False, None, ((1.0, 2.0),), "said"
)
WRONG = [
    GOOD._replace(observation=3.0),
    GOOD._replace(reason=b"text"),
    GOOD._replace(seconds="long"),
    GOOD._replace(seconds=float("nan")),
    GOOD._replace(raised=1),
    GOOD._replace(stopped="yes"),
    GOOD._replace(curve=[("a", 1.0)]),
    GOOD._replace(curve=5),
    GOOD._replace(output=None),
    GOOD._replace(refused=None),
    GOOD._replace(observation=None),
    GOOD._replace(reason="failed"),
    GOOD._replace(observation=Observation(0.5, None, {"memory": "much"})),
    GOOD._replace(observation=Observation.__new__(Observation)),
]


def plainly(content) -> bytes:
    """Pickled as in a job: where Dask is imported, as in other tests, errors are pickled by a library of its own."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer)
    pickler.dispatch_table = {}
    pickler.dump(content)
    return buffer.getvalue()


def test_evaluations_and_built_in_errors_are_read():
    for value in (GOOD, evaluate(Hill(), (4.0,), 1), evaluate(Hill(trouble="raise"), (6.0,), 1), 3, "x", None):
        assert results.answered(pickle.dumps((value, None))) == (value, None)
    for error in (WorkerLost("gone"), ModuleNotFoundError("no module", name="a"), TimeoutError("late")):
        value, found = results.answered(plainly((None, error)))
        assert value is None
        assert (type(found), found.args) == (type(error), error.args)


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_an_evaluation_of_other_types_is_none(wrong):
    value, error = results.answered(pickle.dumps((wrong, None)))
    assert value is None
    assert isinstance(error, pickle.UnpicklingError)


def test_nothing_of_a_pickle_is_run(tmp_path):
    ran = tmp_path / "ran"
    whole = pickle.dumps((GOOD, None))
    for content in (
        pickle.dumps(Evil(ran)),
        pickle.dumps((GOOD, Evil(ran))),
        pickle.dumps((GOOD._replace(output=Evil(ran)), None)),
        *(pickle.dumps((Built(name), None)) for name in ("eval", "exec", "open", "getattr", "type", "bytearray")),
        *(whole[:n] for n in range(0, len(whole), 7)),
        b"",
        b"cos\nsystem\n(S'touch ran'\ntR.",
        pickle.dumps(5),
    ):
        value, error = results.answered(content)
        assert value is None
        assert isinstance(error, pickle.UnpicklingError)
    assert not ran.exists()


@pytest.mark.skipif(not installed("submitit"), reason="submitit is not installed")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system with pipes that have names")
def test_a_forged_result_is_a_failure(tmp_path):
    """The results of the first three queries are there before the run: one that runs code, one that never ends, one
    that is a link; a file beside them has an option in the place of a job's number."""
    ran, folder, walk = tmp_path / "ran", tmp_path / "jobs", Walk()
    problem, history = Hill(), History()
    strategy = walk.bind(problem.space, 100.0)
    for query in strategy.ask(history, 3):
        history = history.asked(query, strategy.cost(query, history))
    evil = pickle.dumps(("success", pickle.dumps((Evil(ran), None))))
    for k, record in enumerate(history):
        place = folder / attempt_of(record).name
        place.mkdir(parents=True)
        (place / f"7{k}_submitted.pkl").write_bytes(pickle.dumps(Evil(ran)))
        result = place / f"7{k}_0_result.pkl"
        if k == 0:
            result.write_bytes(evil)
            (place / "--me_submitted.pkl").write_bytes(evil)
            (place / "--me_0_result.pkl").write_bytes(evil)
        elif k == 1:
            os.mkfifo(result)
        else:
            result.symlink_to(os.devnull)
    ends, told = [], Callback(on_result=lambda event: ends.append(event.reason))
    with start("submitit", 1, folder=folder) as workers, pytest.raises(Hopeless, match="all 3 evaluations failed"):
        quiet(problem, walk, history.spent, executor=workers, callbacks=[told])
    assert not ran.exists()
    assert all("left no result of an evaluation" in reason for reason in ends)
    assert len(ends) == 3


@pytest.mark.skipif(not installed("submitit"), reason="submitit is not installed")
def test_a_mistake_is_collected_once(tmp_path):
    """The next driver evaluates again what the objective's own exception ended: that may have been repaired."""
    folder, walk, history, problem = tmp_path / "jobs", Walk(), History(), Hill()
    strategy = walk.bind(problem.space, 100.0)
    for query in strategy.ask(history, 3):
        history = history.asked(query, strategy.cost(query, history))
    for k, record in enumerate(history):
        place = folder / attempt_of(record).name
        place.mkdir(parents=True)
        (place / f"7{k}_submitted.pkl").touch()
        failed = evaluate(Hill(trouble="raise"), (6.0,), 1)
        (place / f"7{k}_0_result.pkl").write_bytes(pickle.dumps(("success", pickle.dumps((failed, None)))))
    with start("submitit", 1, folder=folder) as workers, pytest.raises(Hopeless, match="no convergence"):
        quiet(problem, walk, history.spent, executor=workers)
    assert not [*folder.rglob("*_submitted.pkl")]


def test_a_queue_that_says_anything(monkeypatch, tmp_path):
    """Lines that are none, bytes that are no text, and no answer at all."""
    program = tmp_path / "squeue"
    program.write_text("#!/bin/sh\nprintf 'slurm_load_jobs error\\n12|RUNNING\\n|\\n\\377\\376|\\n13|A|B\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    placement = submitit_jobs.Placement.read({"kind": "slurm"})
    jobs = submitit_jobs.SubmititJobs(placement, 1, tmp_path)
    try:
        found = jobs._states([], force=True)
        assert (found["12"], found["13"]) == ("RUNNING", "A|B")
        program.write_text("#!/bin/sh\nexec sleep 600\n")
        monkeypatch.setattr(submitit_jobs, "ANSWER_SECONDS", 0.2)
        assert jobs._states([], force=True) is None
    finally:
        jobs.shutdown()


def test_a_fidelity_has_what_is_said_for_all():
    said = {"kind": "slurm", "sbatch": {"account": "physics", "qos": "long"}, "gpus": 1}
    said["fidelities"] = {1: {"sbatch": {"qos": "short"}}}
    found = submitit_jobs.Placement.read(said)
    assert (found.of(1).sbatch, found.of(1).gpus) == ({"account": "physics", "qos": "short"}, 1)
    assert found.of(0).sbatch == said["sbatch"]


@pytest.mark.parametrize("kind", ["slurm", "submitit"])
def test_a_part_of_a_gpu_is_refused(kind):
    refused("executor.gpus = 0.5: must be a whole number", submitit_jobs.Placement.read, {"kind": kind, "gpus": 0.5})
    assert submitit_jobs.Placement.read({"kind": "ray", "gpus": 0.5}).resources.gpus == 0.5


def test_a_fidelity_of_many_digits_is_refused():
    refused("executor.fidelities", submitit_jobs.Placement.read, {"kind": "ray", "fidelities": {"9" * 5000: {}}})


def test_a_mapping_without_a_kind_is_told_of_it():
    refused("a mapping with kind, one of processes", submitit_jobs.Placement.read, {"kid": "dask"})


def test_jobs_of_another_executor_are_told(tmp_path, caplog):
    """A run that goes on elsewhere repeats what its jobs still do."""
    for number, ended in ((7, True), (8, False)):
        job = tmp_path / f"{number}-0"
        job.mkdir()
        (job / f"{number}_submitted.pkl").touch()
        if ended:
            (job / f"{number}_0_result.pkl").touch()
    with start("processes", workers=1, folder=tmp_path):
        pass
    assert f"jobs without a result in {tmp_path}: 1" in caplog.text
