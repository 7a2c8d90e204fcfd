"""What is sent to an executor, and what comes back."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import TYPE_CHECKING

from mfbo_torch.loop.evaluation import Evaluation, describe
from mfbo_torch.loop.executors.workers import WorkerLost, Workers
from mfbo_torch.utils.errors import SettingError

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem


def check_sendable(problem: Problem, executor: Executor | None) -> None:
    """Refuse a problem that an executor cannot send to its processes, as far as it tells how it would."""
    if isinstance(executor, (Workers, ProcessPoolExecutor)):
        try:
            executor.packed(problem) if isinstance(executor, Workers) else pickle.dumps(problem)
        except Exception as error:  # of whatever kind: how it is pickled is its own code
            wanted = "a function at the top of a module, without open files or locks: it is sent to other processes"
            raise SettingError("objective", problem.name, f"{wanted} ({describe(error)})") from error


def result_of(problem: Problem, future: Future[Evaluation], seconds: float) -> Evaluation:
    """The result of an evaluation in an executor; exceptions of the executor itself are raised."""
    try:
        return future.result()
    except (WorkerLost, TimeoutError) as error:
        return Evaluation(None, describe(error), seconds)
    except (AttributeError, ImportError, pickle.PickleError) as error:  # what the objective raises is in its reason
        wanted = f"a function that the workers can import, with all that it needs ({describe(error)})"
        raise SettingError("objective", problem.name, wanted) from error
