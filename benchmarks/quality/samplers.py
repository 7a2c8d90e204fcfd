"""``mfbo_torch.optuna.Sampler`` beside Optuna's own samplers, at equal trials and without fidelities.

A study (:mod:`benchmarks.study`): ``doors-samplers.csv``, where the capital is the number of trials.
"""

import time
from collections.abc import Callable

import optuna
import torch
from botorch.test_functions import (
    Beale,
    Branin,
    DixonPrice,
    Hartmann,
    Levy,
    Shekel,
    SixHumpCamel,
    StyblinskiTang,
    SyntheticTestFunction,
)

from benchmarks.study import Job, Row, Study
from mfbo_torch.optuna import Sampler
from mfbo_torch.strategies import MFGPUCB


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


_CAMEL = SixHumpCamel()
_CAMEL._optimal_value = -1.0316284534898774  # BoTorch's has four digits
FUNCTIONS = {
    "Branin": _of(Branin()),
    "Hartmann-3D": _of(Hartmann(3)),
    "Hartmann-6D": _of(Hartmann(6)),
    "Levy-4D": _of(Levy(4)),
    "mixed": _mixed,
    "Camel": _of(_CAMEL),
    "Beale": _of(Beale()),
    "Shekel-4D": _of(Shekel()),
    "Dixon-Price-5D": _of(DixonPrice(5)),
    "Styblinski-Tang-8D": _of(StyblinskiTang(8)),
}
"""Nothing was chosen on those after *mixed*; Styblinski-Tang's had been seen with five parameters."""

METHODS = {
    "Sampler": lambda seed: Sampler(seed=seed),
    "MFGPUCB": lambda seed: Sampler(strategy=MFGPUCB(seed=seed)),
    "GPSampler": lambda seed: optuna.samplers.GPSampler(seed=seed),
    "TPESampler": lambda seed: optuna.samplers.TPESampler(seed=seed),
}


def execute(job: Job) -> list[Row]:
    """The best value after each number of trials."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=METHODS[job.method](job.seed))
    rows: list[Row] = []
    started = time.process_time()
    for trials in job.capitals:
        study.optimize(FUNCTIONS[job.problem], n_trials=trials - len(study.trials))
        rows.append((*job[:3], trials, study.best_value, round(time.process_time() - started, 3)))
    return rows


def planned(problem: str, method: str, seed: int) -> list[tuple[int, ...]]:
    """One run of each; the default of ``minimize``, which has a decision of a tenth of a second, to 40."""
    return [(20, 40) if method == "MFGPUCB" else (20, 40, 100)]


STUDY = Study(
    "benchmarks.quality.samplers",
    "doors-samplers",
    FUNCTIONS,
    METHODS,
    (20, 40, 100),
    ("regret", "processor_seconds"),
    plan=planned,
    execute=execute,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
