"""Whatever an objective raises is a failure like any other."""

import asyncio
import threading

import pytest
from quiet_runs import quiet
from toy import Hill, Walk

from mfbo_torch.history import Status
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.utils import validation
from mfbo_torch.utils.errors import EvaluationError
from mfbo_torch.utils.validation import describe


class Mute(Exception):
    def __str__(self):
        raise self.args[0]


class Quit(BaseException):
    pass


class Surrogate(Exception):
    def __str__(self):
        return "half of a pair: \ud800, nothing: \0"


ERRORS = [
    (Mute(SystemExit(3)), "Mute: what it says cannot be read, SystemExit"),
    (Mute(KeyboardInterrupt()), "Mute: what it says cannot be read, KeyboardInterrupt"),
    (Mute(RuntimeError()), "Mute: what it says cannot be read, RuntimeError"),
    (Quit("now"), "Quit: now"),
    (GeneratorExit(), "GeneratorExit"),
    (asyncio.CancelledError("gone"), "CancelledError: gone"),
    (SystemExit(0), "SystemExit: 0"),
    (Surrogate(), r"Surrogate: half of a pair: \ud800, nothing: \x00"),
    (ValueError("x" * 10**6), f"ValueError: {'x' * 3900}"),
]


class Raising(Hill):
    def __init__(self, error):
        super().__init__()
        self.raised = error

    def evaluate(self, x, fidelity):
        if x[0] > 5:
            raise self.raised
        return super().evaluate(x, fidelity)


@pytest.mark.parametrize(("error", "said"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_any_exception_is_a_failure_with_a_reason_that_can_be_stored(tmp_path, error, said):
    with Journal(tmp_path / "a.sqlite") as journal:
        history = quiet(Raising(error), Walk(), 60.0, journal=journal)
        assert journal.history() == history
    with Journal(tmp_path / "a.sqlite") as journal:
        assert quiet(Raising(error), Walk(), 80.0, journal=journal).done
    failed = history.select(Status.FAILED)
    assert failed
    assert all(r.reason.startswith(said) and len(r.reason) <= validation.LONGEST for r in failed)


def test_an_error_that_says_nothing_is_named():
    assert evaluate(Raising(EvaluationError(" ")), (6.0,), 0).reason == "EvaluationError"


def test_ctrl_c_of_an_objective_in_a_thread_is_a_failure_too():
    outcomes = []
    problem = Raising(KeyboardInterrupt())
    thread = threading.Thread(target=lambda: outcomes.append(evaluate(problem, (6.0,), 0)))
    thread.start()
    thread.join()
    assert outcomes[0].reason.startswith("KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        evaluate(problem, (6.0,), 0)


def test_reasons_are_cut_before_they_are_stored(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        optimizer = Optimizer(Walk(), journal, problem=Hill())
        optimizer.ask(2)
        assert len(optimizer.retry(0, "y" * 10**6).reason) == validation.LONGEST
        assert len(optimizer.fail(0, "y" * 10**6).reason) == validation.LONGEST
        assert optimizer.fail(1, "\ud800").reason == r"\ud800"
        assert journal.history() == optimizer.history
    assert len(describe(ValueError("z" * 10**6))) <= validation.LONGEST
