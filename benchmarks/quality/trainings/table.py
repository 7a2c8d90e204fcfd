"""The curves of every task at designs that fill its space, and what lies between them: a training without its time.

``python -m benchmarks.quality.trainings.table`` trains what is missing and writes ``curves.npz`` beside this file. Four
hundred designs a task take two processor hours in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch.quasirandom import SobolEngine

from benchmarks.common import parser, quiet
from benchmarks.quality.trainings.tasks import EPOCHS, TASKS
from mfbo_torch.loop import executors

PATH = Path(__file__).with_name("curves.npz")
DESIGNS, NEIGHBOURS, POWER = 400, 8, 3


@cache
def designs(dim: int) -> np.ndarray:
    """The designs of the table in the unit cube."""
    return SobolEngine(dim, scramble=True, seed=0).draw(DESIGNS, dtype=torch.double).numpy()


@cache
def table(name: str) -> np.ndarray:
    """``designs x epochs`` logarithms of the losses of a task."""
    with np.load(PATH) as stored:
        return stored[name].astype(float)


def curve(name: str, u: Sequence[float]) -> np.ndarray:
    """The losses of a task at a design of the unit cube: means of the logarithms of the nearest designs' losses.

    The weights are the inverse cubes of the distances (Shepard 1968).
    """
    far = np.linalg.norm(designs(len(u)) - np.asarray(u), axis=1)
    near = np.argpartition(far, NEIGHBOURS)[:NEIGHBOURS]
    weights = 1 / (far[near] + 1e-9) ** POWER
    return np.exp(weights @ table(name)[near] / weights.sum())


def row(name: str, at: int) -> np.ndarray:
    """Train at one of the designs; the logarithms of the losses."""
    quiet()
    task = TASKS[name]
    losses = task.curve(designs(len(task.ranges))[at].tolist())
    return np.log(np.maximum(losses, 1e-6)).astype(np.float16)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is missing; the exit status."""
    options = parser(__doc__, problems=list(TASKS), workers=2)
    options.set_defaults(results=PATH.parent)
    given = options.parse_args(arguments)
    path = given.results / PATH.name
    stored = dict(np.load(path)) if path.exists() else {}
    with executors.start("processes", given.workers) as pool:
        for name in given.problems:
            if name not in stored:
                futures = [pool.submit(row, name, at) for at in range(DESIGNS)]
                stored[name] = np.stack([future.result() for future in futures])
                assert stored[name].shape == (DESIGNS, EPOCHS)
                np.savez_compressed(path, **stored)
                print(name, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
