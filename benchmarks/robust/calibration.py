"""How often the truth is where a model says: bands of the target after every quarter of a run.

    python -m benchmarks.robust.calibration [--problems NAME ...] [--seeds N] [--workers N] [--results FOLDER]

Runs the default on problems of :mod:`benchmarks.robust.problems` and asks, after each quarter of the capital, at 256
space-filling designs that no run has seen, what two models make of the same observations: the chain with estimated
links (``linked``, what ``MFGPUCB(hedge=False)`` goes by) and the one with its links integrated out and its residuals
averaged (``integrated``, what the default predicts with). Adds the runs that are missing to ``calibration.csv`` and
writes ``calibration.md``: the share of true target values within the 50, 90 and 99 % bands, and the mean logarithm of
the density of the truth in units of the deviation of the true values.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.common import parser
from benchmarks.robust.problems import DEVELOPMENT, PROBLEMS
from benchmarks.runs import measure, read
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import capital_spent, paid_for
from mfbo_torch.problems import Problem
from mfbo_torch.strategies import MFGPUCB

FILE, PAGE = "calibration.csv", "calibration.md"
CAPITALS = (5, 10, 15, 20)
LEVELS = (0.5, 0.9, 0.99)
DESIGNS = 256
COLUMNS = ("problem", "model", "seed", "capital", "within50", "within90", "within99", "log_density")
MODELS = {"linked": False, "integrated": True}
"""By name, whether the strategy whose prediction it is hedges."""
LEAST = 1e-6
"""No deviation is taken to be below this part of that of the true values."""


class Job(NamedTuple):
    """One run, and both models of it."""

    problem: str
    models: tuple[str, ...]
    seed: int
    capitals: tuple[int, ...]


def execute(job: Job) -> list[tuple[object, ...]]:
    """One row for each model and capital."""
    problem = PROBLEMS[job.problem]()
    problem.trial = job.seed
    top = problem.space.costs[-1]
    capital = max(job.capitals) * top
    history = run(problem, MFGPUCB(seed=job.seed), capital, progress=False)
    X, truth = unseen(problem)
    rows = []
    for name in job.models:
        asks = MFGPUCB(seed=job.seed, hedge=MODELS[name]).bind(problem.space, capital)
        parts = paid_for(capital_spent(history) / top, job.capitals).tolist()
        for amount, within in zip(job.capitals, parts, strict=True):
            believed = asks.predict(History(history.records[:within]), X)
            assert believed is not None
            scores = calibration(believed[0][:, -1], believed[1][:, -1], truth)
            rows.append((job.problem, name, job.seed, amount, *(round(score, 4) for score in scores)))
    return rows


def unseen(problem: Problem) -> tuple[Tensor, Tensor]:
    """Space-filling designs in the user's units that do not fail, and the true values of the target."""
    units = torch.quasirandom.SobolEngine(problem.space.dim, scramble=True, seed=7).draw(DESIGNS, dtype=torch.double)
    kept, values = [], []
    for x in problem.space.from_unit(units).tolist():
        try:
            values.append(problem.reward(x, problem.space.target))
        except RuntimeError:
            continue
        kept.append(x)
    return torch.tensor(kept, dtype=torch.double), torch.tensor(values, dtype=torch.double)


def calibration(mean: Tensor, deviation: Tensor, truth: Tensor) -> tuple[float, ...]:
    """Shares within the bands of :data:`LEVELS`, and the mean log density in units of the truth's deviation.

    Args:
        mean: ``n`` predictions.
        deviation: Their deviations.
        truth: The values.
    """
    unit = truth.std()
    deviation = deviation.clamp_min(LEAST * unit)
    z = (truth - mean) / deviation
    normal = torch.distributions.Normal(0.0, 1.0)
    shares = [(z.abs() <= normal.icdf(torch.tensor(0.5 + level / 2))).double().mean().item() for level in LEVELS]
    density = -0.5 * z.square() - (deviation / unit).log() - 0.5 * math.log(2 * math.pi)
    return (*shares, density.mean().item())


def page(path: Path) -> str:
    """The table of the medians over problems and seeds."""
    found = defaultdict(list)
    for row in read(path):
        scores = [float(row[column]) for column in COLUMNS[4:]]
        found[row["model"], int(row["capital"])].append((row["problem"], row["seed"], *scores))
    lines = [
        "# Calibration of the target's bands",
        "",
        f"True target values at {DESIGNS} space-filling designs that the run has not seen, after so much capital in",
        "units of the target's cost: the mean share within the band over problems and seeds (its least over problems),",
        "and the median of the mean log density. Both models are of the same observations, those of the default.",
        "",
        "| capital | model | problems | runs | 50 % | 90 % | 99 % | log density |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for capital in CAPITALS:
        for model in MODELS:
            rows = found.get((model, capital))
            if not rows:
                continue
            cells = []
            for k in (2, 3, 4):
                problems = {row[0] for row in rows}
                each = [median(row[k] for row in rows if row[0] == name) for name in problems]
                cells.append(f"{sum(row[k] for row in rows) / len(rows):.2f} ({min(each):.2f})")
            count = len({row[0] for row in rows})
            density = f"{median(row[5] for row in rows):.2f}"
            lines.append(f"| {capital} | {model} | {count} | {len(rows)} | {' | '.join(cells)} | {density} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write the page; the exit status."""
    made = parser(__doc__, seeds=3, workers=1)
    made.add_argument("--problems", nargs="+", choices=PROBLEMS, metavar="NAME", help="only these")
    given = made.parse_args(arguments)
    names = given.problems or DEVELOPMENT
    jobs = [Job(name, tuple(MODELS), seed, CAPITALS) for seed in range(given.seeds) for name in names]
    status = measure(jobs, execute, given.results / FILE, COLUMNS, key=4, workers=given.workers)
    (given.results / PAGE).write_text(page(given.results / FILE), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
