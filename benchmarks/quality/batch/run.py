"""Batches and delays: the experiments of ``configs/batch``.

    python -m benchmarks.quality.batch.run CONFIG [--workers N] [--methods LABEL ...] [--seeds N]
        [--report | --anew | --again]

Adds the runs of ``NAME.yaml`` that are missing to ``batch/NAME.csv`` (:mod:`benchmarks.study`) and writes the tables of
:mod:`benchmarks.quality.batch.report`. A row is the state of a run after ``capital`` evaluations, in the order in which
they ended: what they cost, simulated time, average and minimum regret (without noise; the minimum at the target), and
processor time of all decisions. There is one after every ``every`` evaluations, or where that is 0 whenever the minimum
falls, and one at the end. The seed is that of the strategy, of the noise and, where each run has its own, of the
problem.
"""

import ast
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks import dependencies
from benchmarks.common import parser
from benchmarks.quality.batch import report
from benchmarks.quality.batch.report import COLUMNS, FOLDER
from benchmarks.quality.batch.simulate import simulate, varying
from benchmarks.study import KEY, Job, Row, done, reported, with_ways
from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.problems.synthetic.finite import FiniteProblem


def jobs(config: Mapping[str, Any], labels: list[str] | None = None, seeds: int | None = None) -> list[Job]:
    """Every run of an experiment, the first seeds of all strategies before the next ones."""
    return [
        Job(problem, label, seed)
        for seed in range(config["trials"] if seeds is None else seeds)
        for problem in config["problems"]
        for label, strategy in config["strategies"].items()
        if seed < strategy.get("trials", config["trials"]) and (not labels or label in labels)
    ]


def execute(config: Mapping[str, Any], job: Job) -> list[Row]:
    """Run a job of an experiment; its rows."""
    strategy_settings, where = dict(config["strategies"][job.method]), dict(config["problems"][job.problem])
    workers, capital = strategy_settings.pop("workers"), where.pop("capital")
    strategy_settings.pop("trials", None)
    if config.get("draw"):
        where["init_args"] = {**where.get("init_args", {}), "seed": job.seed}
    run = {"problem": where, "strategy": strategy_settings, "capital": capital, "seed": job.seed, "out": "nowhere"}
    problem, strategy = build(resolve_run(run))
    duration = varying(job.seed, config.get("spread", 0.0))
    history, ended = simulate(problem, strategy, capital, workers, duration, config.get("asynchronous", False))
    rows: list[Row] = []
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
            rows.append((*job[:3], count, *numbers))
    return rows


def code_of(config: Mapping[str, Any], problem: str, method: str) -> str:
    """A hash of what the rows of a group depend on, settings included."""
    settings = [{**config["problems"][problem]}, {**config["strategies"].get(method, {})}]
    others = {name: config.get(name) for name in ("draw", "spread", "asynchronous", "every")}
    named = (str(part.get("class_path", "")).rpartition(".") for part in settings)
    roots = [(__spec__.name, "execute"), *((module, name) for module, _, name in named if module)]
    return dependencies.digest(roots, extra=[ast.Constant(repr((settings, others)))])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the table; the exit status."""
    options: ArgumentParser = with_ways(parser(__doc__, workers=1))
    options.add_argument("config", type=Path)
    options.add_argument("--methods", nargs="+", metavar="LABEL")
    options.add_argument("--seeds", type=int)
    given = options.parse_args(arguments)
    config, status = yaml.safe_load(given.config.read_text()), 0
    path = given.results / FOLDER / f"{given.config.stem}.csv"
    if not given.report:
        wanted = jobs(config, given.methods, given.seeds)
        status = done(given, wanted, partial(execute, config), path, (*KEY, *COLUMNS), partial(code_of, config))
    reported(path, report.write)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
