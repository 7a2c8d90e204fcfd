"""Evaluations through an executor: sent, and what came of them."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

from mfbo_torch.history import Record
from mfbo_torch.loop.evaluation import Evaluation, evaluate
from mfbo_torch.loop.executors.workers import Attempt, WorkerLost, Workers
from mfbo_torch.utils.checksum import chained
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import describe

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem


def check_sendable(problem: Problem, executor: Executor | None) -> None:
    """Refuse a problem that an executor cannot send to its processes, as far as it tells how it would."""
    if executor is not None and (isinstance(executor, type) or not hasattr(executor, "submit")):
        wanted = "an executor, as concurrent.futures.ProcessPoolExecutor(4) is; names of kinds are for mfbo run"
        raise SettingError("executor", executor, wanted)
    if isinstance(executor, (Workers, ProcessPoolExecutor)):
        try:
            executor.packed(problem) if isinstance(executor, Workers) else pickle.dumps(problem)
        except Exception as error:  # of whatever kind: how it is pickled is its own code
            raise _unsendable(problem, error) from error


def _unsendable(problem: Problem, error: Exception) -> SettingError:
    wanted = "a function at the top of a module, without open files or locks: it is sent to other processes"
    return SettingError("objective", problem.name, f"{wanted} ({describe(error)})")


def attempt_of(record: Record) -> Attempt:
    """A query's next attempt. Its name has the checksum of the design, lest another query's value be taken."""
    query = record.query
    (mark,) = chained([{"x": query.x, "fidelity": query.fidelity}])
    return Attempt(f"{record.id:05d}-{record.retries}-{mark.hex()}", query.fidelity)


def outcome(problem: Problem, future: Future[Evaluation], sent: float) -> Evaluation:
    """The result of an evaluation in an executor; exceptions of the executor itself are raised.

    One that was lost has taken its time since it began, or since it was ``sent`` where an executor does not tell.
    """
    began = getattr(future, "begun", sent)  # None: never, it was in a queue
    seconds = 0.0 if began is None else time.perf_counter() - began
    try:
        return future.result()
    except (WorkerLost, TimeoutError) as error:
        return Evaluation(None, describe(error), seconds)
    except (AttributeError, ImportError, pickle.PickleError) as error:  # what the objective raises is in its reason
        wanted = f"a function that the workers can import, with all that it needs ({describe(error)})"
        raise SettingError("objective", problem.name, wanted) from error


def send(executor: Executor, record: Record, attempt: tuple[Any, ...]) -> Future[Evaluation]:
    """Have a query evaluated; ``attempt`` are the arguments of :func:`~mfbo_torch.loop.evaluation.evaluate`."""
    if isinstance(executor, Workers):
        return executor.submit(evaluate, *attempt, attempt=attempt_of(record))
    try:
        return executor.submit(evaluate, *attempt)
    except (TypeError, AttributeError, pickle.PickleError) as error:  # as of Dask's own, which pickles at once
        raise _unsendable(attempt[0], error) from error
