"""A problem whose evaluations are written down; what they need and no more, as each of many workers loads it."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Parameter, Space

PIECE, MOST = 1 << 26, 120
"""Bytes that are eaten at once, and how often."""


class Noted(Problem):
    """A line; one evaluation does what a file ``order`` in the folder says, ``hang`` or ``eat``, and takes it away.

    The file ``notes`` has a line for the beginning and one for the end of each evaluation: the point and the process.
    """

    def __init__(self, folder: str, seconds: float = 1.0) -> None:
        self.space = Space((Parameter("x", 0.0, 1.0),), (1.0,))
        self.folder, self.seconds = Path(folder), seconds

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        self._note("begun", x[0])
        with suppress(FileNotFoundError):
            mine = (self.folder / "order").rename(self.folder / f"order of {os.getpid()}")
            eaten = []
            for _ in range(MOST if mine.read_text() == "eat" else 0):
                eaten.append(os.urandom(1 << 16) * (PIECE >> 16))
                time.sleep(0.05)
            time.sleep(600)
        time.sleep(self.seconds)
        self._note("ended", x[0])
        return x[0]

    def _note(self, what: str, x: float) -> None:
        file = os.open(self.folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{what} {x!r} {os.getpid()}\n".encode())
        os.close(file)
