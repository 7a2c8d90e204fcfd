"""``mfbo_torch.optuna.Sampler`` beside Optuna's own samplers, at equal trials and without fidelities.

    python -m benchmarks.doors.samplers [--workers N] [--methods NAME ...] [--functions NAME ...] [--seeds N]

Adds the runs that are missing to ``doors-samplers.csv``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import optuna
import torch
from botorch.test_functions import Branin, Hartmann, Levy, SyntheticTestFunction

from benchmarks.common import parser, quiet
from benchmarks.runs import measure
from mfbo_torch.optuna import Sampler

FILE = "doors-samplers.csv"
COLUMNS = ("function", "method", "seed", "trials", "regret", "processor_seconds")
TRIALS = (20, 40)


def _of(function: SyntheticTestFunction) -> Callable[[optuna.Trial], float]:
    """What is above a function's minimum, as an objective."""
    bounds, least = function.bounds.T.tolist(), function.optimal_value

    def objective(trial: optuna.Trial) -> float:
        x = [trial.suggest_float(f"x{i}", lower, upper) for i, (lower, upper) in enumerate(bounds)]
        return function(torch.tensor(x, dtype=torch.double)).item() - least

    return objective


def _mixed(trial: optuna.Trial) -> float:
    """Numbers on two scales, whole numbers and categories; 0 at rate 0.01, width 12, "b", share 0.3."""
    rate, width = trial.suggest_float("rate", 1e-5, 1, log=True), trial.suggest_int("width", 2, 32)
    kind, share = trial.suggest_categorical("kind", ["a", "b", "c", "d"]), trial.suggest_float("share", 0, 1)
    shift = {"a": 0.5, "b": 0.0, "c": 1.0, "d": 1.5}[kind]
    rates = torch.tensor(rate).log10().item() + 2
    return (rates - shift) ** 2 + ((width - 12) / 8) ** 2 + 4 * (share - 0.3) ** 2 + shift


FUNCTIONS = {
    "Branin": _of(Branin()),
    "Hartmann-3D": _of(Hartmann(3)),
    "Hartmann-6D": _of(Hartmann(6)),
    "Levy-4D": _of(Levy(4)),
    "mixed": _mixed,
}

METHODS = {
    "Sampler": lambda seed: Sampler(seed=seed),
    "GPSampler": lambda seed: optuna.samplers.GPSampler(seed=seed),
    "TPESampler": lambda seed: optuna.samplers.TPESampler(seed=seed),
}


class Job(NamedTuple):
    """One study."""

    function: str
    method: str
    seed: int
    trials: tuple[int, ...]


def execute(job: Job) -> list[tuple[object, ...]]:
    """The best value after so many trials; one row each."""
    quiet()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=METHODS[job.method](job.seed))
    rows: list[tuple[object, ...]] = []
    started = time.process_time()
    for trials in job.trials:
        study.optimize(FUNCTIONS[job.function], n_trials=trials - len(study.trials))
        rows.append((*job[:3], trials, study.best_value, round(time.process_time() - started, 3)))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    grid = {"methods": list(METHODS), "functions": list(FUNCTIONS), "seeds": 10}
    given = parser(__doc__, workers=os.cpu_count(), **grid).parse_args(arguments)
    seeds = range(given.seeds)
    wanted = [Job(name, method, seed, TRIALS) for seed in seeds for name in given.functions for method in given.methods]
    return measure(wanted, execute, given.results / FILE, COLUMNS, key=4, workers=given.workers)


if __name__ == "__main__":
    sys.exit(main())
