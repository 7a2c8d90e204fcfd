"""A hill that writes down every evaluation, one line each, so that what was repeated or lost can be counted."""

import os
import time
from collections import Counter
from pathlib import Path

from toy import Hill


class Counted(Hill):
    def __init__(self, file: str, seconds: float = 0.0) -> None:
        super().__init__(seconds=seconds)
        self.file = file

    def evaluate(self, x, fidelity):
        line = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(line, f"{x[0]!r} {fidelity}\n".encode())
        os.close(line)
        return super().evaluate(x, fidelity)


def evaluations(file: Path) -> Counter:
    """How often each design was evaluated at each fidelity."""
    lines = file.read_text().splitlines() if file.exists() else []
    return Counter((float(x), int(m)) for x, m in map(str.split, lines))


def misbehave(how: str, seconds: float = 600.0) -> None:
    """End badly, or not at all."""
    if how == "hang":
        time.sleep(seconds)
    elif how == "die":
        os.kill(os.getpid(), 9)
    elif how == "eat":
        eaten = []
        while True:
            eaten.append(bytearray(os.urandom(1 << 20) * 64))
            time.sleep(0.05)
