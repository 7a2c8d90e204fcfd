"""Batches and delays: the experiments of ``configs/batch``.

    python -m benchmarks.batch.run CONFIG [--workers N] [--strategies LABEL ...] [--trials N]

Adds the runs of ``NAME.yaml`` that are missing to ``batch/NAME.csv`` (see :mod:`benchmarks.runs`); ``python -m
benchmarks.batch.report`` makes the tables and the pictures.

A row is the state of a run after ``queries`` evaluations, in the order in which they ended: the capital
and the simulated time they took, average and minimum regret (without noise; the minimum at the target),
and the processor time of all decisions. There is one after every ``every`` evaluations, or where that is 0
whenever the minimum falls, and one at the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.batch.simulate import simulate, varying
from benchmarks.common import parser
from benchmarks.runs import measure
from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.problems.synthetic.finite import FiniteProblem

FOLDER = "batch"
COLUMNS = ("problem", "strategy", "trial", "queries", "spent", "time", "average", "minimum", "seconds")


class Job(NamedTuple):
    """One run.

    Attributes:
        problem: Its label.
        strategy: Its label.
        trial: Its number: seed of the strategy, of the noise and, where each has its own, of the problem.
        settings: What the file says of it.
    """

    problem: str
    strategy: str
    trial: int
    settings: Mapping[str, Any]


def jobs(config: Mapping[str, Any], labels: list[str] | None = None, trials: int | None = None) -> list[Job]:
    """Every run of an experiment, the first trials of all strategies before the next ones."""
    found = []
    for trial in range(config["trials"] if trials is None else trials):
        for name, problem in config["problems"].items():
            for label, strategy in config["strategies"].items():
                if trial >= strategy.get("trials", config["trials"]) or (labels and label not in labels):
                    continue
                found.append(Job(name, label, trial, {**config, "problem": problem, "strategy": strategy}))
    return found


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job; its rows."""
    given, config = dict(job.settings["strategy"]), job.settings
    workers = given.pop("workers")
    given.pop("trials", None)
    where = dict(config["problem"])
    capital = where.pop("capital")
    if config.get("draw"):
        where["init_args"] = {**where.get("init_args", {}), "seed": job.trial}
    run = {"problem": where, "strategy": given, "capital": capital, "seed": job.trial, "out": "nowhere"}
    problem, strategy = build(resolve_run(run))
    duration = varying(job.trial, config.get("spread", 0.0))
    history, ended = simulate(problem, strategy, capital, workers, duration, config.get("asynchronous", False))
    rows: list[tuple[object, ...]] = []
    total, least, spent = 0.0, float("inf"), 0.0
    every = config["every"]
    for count, (number, time, seconds) in enumerate(ended, 1):
        record = history.records[number]
        spent += record.cost
        at_target = record.query.fidelity == problem.space.target
        value = problem.value(record.query.x) if isinstance(problem, FiniteProblem) else record.value
        regret = problem.signed(problem.optimum) - value if at_target else float("inf")
        total, fell, least = total + regret, regret < least, min(least, regret)
        if count == len(ended) or (count % every == 0 if every else fell):
            numbers = (f"{number:.5g}" for number in (spent, time, total / count, least, seconds))
            rows.append((job.problem, job.strategy, job.trial, count, *numbers))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    options = parser(__doc__, workers=os.cpu_count())
    options.add_argument("config", type=Path)
    options.add_argument("--strategies", nargs="+", metavar="LABEL")
    options.add_argument("--trials", type=int)
    given = options.parse_args(arguments)
    wanted = jobs(yaml.safe_load(given.config.read_text()), given.strategies, given.trials)
    path = given.results / FOLDER / f"{given.config.stem}.csv"
    return measure(wanted, execute, path, COLUMNS, workers=given.workers)


if __name__ == "__main__":
    sys.exit(main())
