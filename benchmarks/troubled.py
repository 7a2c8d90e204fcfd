"""A problem on which everything goes wrong; what its evaluations need and no more, as each of many workers loads it."""

from __future__ import annotations

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
        return x[0]


def expected(x: float) -> str:
    """What must come of a point."""
    part = 1000 * x % 1
    return "lost" if part < 0.1 else "raised" if part < 0.2 else "timeout" if part < 0.25 else "value"
