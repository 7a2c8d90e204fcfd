"""A problem on which everything goes wrong; what its evaluations need and no more, as each of many workers loads it."""

import ctypes
import os
import signal
import time
from collections.abc import Sequence

from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Parameter, Space

CENTS = 37
"""What a query costs, in hundredths."""


class Troubled(Problem):
    """A line on which a point's place says what becomes of its evaluation."""

    def __init__(self) -> None:
        self.space = Space((Parameter("x", 0.0, 1.0),), (CENTS / 100,))

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        time.sleep(0.05)
        match expected(x[0]):
            case "lost":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raised":
                raise RuntimeError("as it must")
            case "timeout":
                time.sleep(600)
            case "exit 0":
                os._exit(0)
            case "import exit":
                import benchmarks.robustness.quitting  # noqa: F401
            case "lock held":
                ctypes.PyDLL(None).sleep(600)  # no other thread of the process gets a turn
        return x[0]


OUTCOMES = {
    "lost": (0.1, "WorkerLost"),
    "raised": (0.2, "RuntimeError"),
    "timeout": (0.25, "TimeoutError"),
    "exit 0": (0.3, "WorkerLost"),
    "import exit": (0.35, "SystemExit"),
    "lock held": (0.37, "TimeoutError"),
    "value": (1.0, ""),
}
"""Up to which part of a point something becomes of it, and how the reason of its failure begins."""


def expected(x: float) -> str:
    """What must come of a point."""
    part = 1000 * x % 1
    return next(what for what, (below, _) in OUTCOMES.items() if part < below)
