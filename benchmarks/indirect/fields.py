"""Queries of several resolutions where the windows do not fill the cells, and where the wide ones say little.

    python -m benchmarks.indirect.fields [--settings NAME ...] [--strategies LABEL ...] [--seeds N] [--workers N]

Adds the runs that are missing to ``indirect-fields.csv`` (see :mod:`benchmarks.runs`) and writes
``indirect-fields.md``.

``satellite``: another field for every seed; the footprints are 0.32, 0.16, 0.08 and 0.04 of the side, the cells of
CMETS 1, 1/2, 1/4, 1/8 of it by default and 1, 1/3, 1/9, 1/27 with nine children. Capital 100, 12 of the finest.
``shifted peak``: windows of 0.6 to 0.15, a narrow peak that the wide ones all but remove. Capital 60, which is 15 of
the finest.
``even queries``: no strategy: averages of the shifted peak at evenly spaced places, by windows of one width, and what
is recommended then; the number of queries stands for the capital.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median

import torch

from benchmarks.common import parser
from benchmarks.indirect import run as papers
from benchmarks.indirect.run import COLUMNS, Job, explored
from benchmarks.runs import measure, read
from mfbo_torch import strategies
from mfbo_torch.models import DeconditionalGP, GaussianConditional
from mfbo_torch.problems import IndirectProblem, Satellite, ShiftedPeak
from mfbo_torch.strategies import Strategy

FILE = "indirect-fields.csv"
WIDTHS = (0.6, 0.42, 0.3, 0.21, 0.15)
CAPITALS = {"satellite": (25, 50, 100), "shifted peak": (15, 30, 60)}
COUNTS = (15, 30, 60)
EVEN = "even queries"
MAKERS: dict[str, Callable[[int], Strategy]] = {
    "CMETS": lambda seed: strategies.CMETS(seed=seed),
    "CMETS, 9 children": lambda seed: strategies.CMETS(children=9, seed=seed),
    "CMES": lambda seed: strategies.CMES(seed=seed),
    "UCB": lambda seed: strategies.QueryUCB(seed=seed),
    "shrinking window": lambda seed: strategies.ShrinkingWindow(seed=seed),
}
ELSEWHERE = {"satellite": "shrinking window", "shifted peak": "CMETS, 9 children"}
"""What does not run where: windows that are no squares, nine parts of one side."""


def problem_of(job: Job) -> IndirectProblem:
    """The problem of a run."""
    return Satellite(seed=job.seed) if job.setting == "satellite" else ShiftedPeak(WIDTHS)


def jobs(settings: Sequence[str], labels: Sequence[str], seeds: int) -> list[Job]:
    """Every run, the first seeds of all strategies before the next ones."""
    found = []
    for seed in range(seeds):
        found += [Job(s, label, seed) for s in settings if s != EVEN for label in labels if ELSEWHERE[s] != label]
        found += [Job(EVEN, f"windows of {width:g}", seed) for width in WIDTHS if EVEN in settings]
    return found


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job."""
    if job.setting == EVEN:
        return even(job)
    return explored(job, problem_of(job), CAPITALS[job.setting], {**papers.MAKERS, **MAKERS})


def even(job: Job) -> list[tuple[object, ...]]:
    """What evenly spaced averages by windows of one width let the model recommend."""
    problem, level = ShiftedPeak(WIDTHS), [f"windows of {width:g}" for width in WIDTHS].index(job.strategy)
    generator = torch.Generator().manual_seed(job.seed)
    X, rows = problem.space.inputs, []
    for count in COUNTS:
        shift = (torch.rand(1, generator=generator, dtype=torch.double) - 0.5) * 6 / count
        A = (torch.linspace(-3, 3, count, dtype=torch.double) + shift).clamp(-3, 3).unsqueeze(-1)
        noise = torch.randn(count, generator=generator, dtype=torch.double) * problem.noise[level]
        Z = (problem.averages(A, level).reshape(-1) + noise).unsqueeze(-1)
        model = DeconditionalGP(A, Z, GaussianConditional(WIDTHS[level])).fit()
        with torch.no_grad():
            best = X[model.latent_mean_variance(X)[0].argmax()].unsqueeze(0)
        simple = problem.latent_optimum - problem.latent(best).item()
        instant = problem.latent_optimum - problem.averages(A, level).max().item()
        rows.append((*job, count, round(simple, 6), round(instant, 6), count, 0.0))
    return rows


def table(path: Path) -> str:
    """Mean and median of the simple regret."""
    regrets = defaultdict(list)
    for row in read(path):
        regrets[row["setting"], row["strategy"], int(row["capital"])].append(float(row["simple"]))
    parts = ["# Several resolutions on other fields", "", "Simple regret of what is recommended best so far, mean and"]
    parts += ["(median) over the seeds. On the shifted peak 0.2 is the lower, broad peak.", ""]
    for setting in (*CAPITALS, EVEN):
        columns = CAPITALS.get(setting, COUNTS)
        labels = list(dict.fromkeys(label for name, label, _ in regrets if name == setting))
        if not labels:
            continue
        parts += [f"## {setting}", "", "| strategy | seeds | " + " | ".join(map(str, columns)) + " |"]
        parts += ["| --- | ---: |" + " ---: |" * len(columns)]
        for label in labels:
            found = [regrets[setting, label, c] for c in columns]
            cells = [f"{fmean(some):.3f} ({median(some):.3f})" if some else "-" for some in found]
            parts.append(f"| {label} | {max(map(len, found))} | " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, write the table; the exit status."""
    grid = {"settings": [*CAPITALS, EVEN], "strategies": list(MAKERS), "seeds": 10}
    given = parser(__doc__, workers=1, **grid).parse_args(arguments)
    wanted = jobs(given.settings, given.strategies, given.seeds)
    path = given.results / FILE
    status = measure(wanted, execute, path, COLUMNS, workers=given.workers)
    path.with_suffix(".md").write_text(table(path))
    return status


if __name__ == "__main__":
    sys.exit(main())
