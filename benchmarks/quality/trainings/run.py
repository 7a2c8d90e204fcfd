"""The best training that has come to its end, after equal epochs, by method.

A study (:mod:`benchmarks.study`): ``trainings.csv`` and ``trainings.md``. The tasks are those of
:mod:`benchmarks.quality.trainings.tasks`, at 1, 4 and 16 workers, which each train an epoch a tick; capital is counted
in whole trainings of 27 epochs. Losses come from the table (:mod:`benchmarks.quality.trainings.table`);
:mod:`benchmarks.quality.trainings.trained` trains.
A method "@4" has four workers. FreezeThaw is told the capital, and makes a run for each; no other method can be told.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from benchmarks.common import markdown
from benchmarks.quality.trainings.methods import Method, Optuna, Ours, Random, Running, SyneTune
from benchmarks.quality.trainings.table import curve
from benchmarks.quality.trainings.tasks import EPOCHS, HELD_OUT, TASKS, WORST
from benchmarks.study import Job, Row, Study, read
from mfbo_torch import FreezeThaw
from mfbo_torch.optuna import Pruner

CAPITALS, WORKERS = (3, 6, 12, 40), (1, 4, 16)
REDUCTION = 3


def _optuna(sampler: type, pruner: Callable[[], Any]) -> Callable[..., Method]:
    return lambda dim, seed, capital: Optuna(sampler(seed=seed), pruner(), dim)


def _halving() -> Any:
    return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION)


def _hyperband() -> Any:
    return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=EPOCHS, reduction_factor=REDUCTION)


TPE, RANDOM = optuna.samplers.TPESampler, optuna.samplers.RandomSampler
METHODS: Mapping[str, Callable[[int, int, float], Method]] = {
    "FreezeThaw": lambda dim, seed, capital: Ours(FreezeThaw(seed=seed), dim, capital),
    "TPE + forecasts": _optuna(TPE, lambda: Pruner(EPOCHS)),
    "random + forecasts": _optuna(RANDOM, lambda: Pruner(EPOCHS)),
    "TPE + halving": _optuna(TPE, _halving),
    "TPE + Hyperband": _optuna(TPE, _hyperband),
    "TPE + median": _optuna(TPE, optuna.pruners.MedianPruner),
    "random + halving": _optuna(RANDOM, _halving),
    "random + Hyperband": _optuna(RANDOM, _hyperband),
    "Syne Tune ASHA": lambda dim, seed, capital: SyneTune("ASHA", dim, seed),
    "Syne Tune BOHB": lambda dim, seed, capital: SyneTune("BOHB", dim, seed),
    "random": lambda dim, seed, capital: Random(dim, seed),
}
"""A method by its name: it is made of the number of hyper-parameters, a seed and the capital in epochs."""


def simulated(method: Method, task: str, epochs: int, workers: int) -> list[float]:
    """The loss of the best training that has come to its end after each of so many epochs in all."""
    best: list[float] = []
    busy: list[Running | None] = [None] * workers
    curves: dict[tuple[float, ...], np.ndarray] = {}
    open_, least = True, math.inf
    while len(best) < epochs and (open_ or any(busy)):
        for worker, running in enumerate(busy):
            if running is None and open_:
                running = method.begin()
                open_ = running is not None
            if running is None or len(best) == epochs:
                continue
            key = tuple(running.u)
            losses = curves[key] if key in curves else curves.setdefault(key, curve(task, key))
            epoch = running.done + 1
            loss = float(losses[epoch - 1])
            if epoch == EPOCHS:
                least = min(least, loss)
            best.append(least)
            busy[worker] = running._replace(done=epoch) if running.told(epoch, loss) else None
    return best + [least] * (epochs - len(best))


def execute(job: Job) -> list[Row]:
    """One run; the best loss after each capital."""
    name, _, workers = job.method.partition(" @")
    started, epochs = time.process_time(), max(job.capitals) * EPOCHS
    method = METHODS[name](len(TASKS[job.problem].ranges), job.seed, float(epochs))
    best = simulated(method, job.problem, epochs, int(workers or 1))
    seconds = round(time.process_time() - started, 1)
    return [(*job[:3], n, round(min(best[n * EPOCHS - 1], WORST), 6), seconds) for n in job.capitals]


def plan(problem: str, method: str, seed: int) -> list[tuple[int, ...]]:
    """Ours plans with the capital, so each is a run of its own; one run of another method has them all."""
    return [(n,) for n in CAPITALS] if method.startswith("FreezeThaw") else [CAPITALS]


def losses_of(path: Path, workers: int) -> dict[tuple[str, str, int], list[float]]:
    """The losses of all seeds by task, method and capital, of the runs with so many workers."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for row in read(path):
        name, _, own = row["method"].partition(" @")
        if int(own or 1) == workers:
            found.setdefault((row["problem"], name, int(row["capital"])), []).append(float(row["loss"]))
    return found


def summary(losses: Mapping[tuple[str, str, int], list[float]], tasks: Sequence[str]) -> list[list[str]]:
    """A row a method: at each capital its mean rank, and in how many tasks its median is within 1.05 of the best."""
    body = []
    for method in METHODS:
        cells = [method]
        for capital in CAPITALS:
            ranks, near, count = [], 0, 0
            for task in tasks:
                medians = {
                    m: statistics.median(losses[task, m, capital]) for m in METHODS if (task, m, capital) in losses
                }
                if method in medians:
                    count += 1
                    least, own = min(medians.values()), medians[method]
                    below, level = (
                        sum(test)
                        for test in ([v < own for v in medians.values()], [v == own for v in medians.values()])
                    )
                    ranks.append(below + (level + 1) / 2)
                    near += own <= 1.05 * least
            cells.append(f"{statistics.mean(ranks):.2f}, {near} of {count}" if count else "")
        if any(cells[1:]):
            body.append(cells)
    return body


def details(losses: Mapping[tuple[str, str, int], list[float]], task: str) -> list[list[str]]:
    """Median and worst loss of each method at each capital at which it was measured."""
    body = []
    for method in METHODS:
        some = [losses.get((task, method, n), []) for n in CAPITALS]
        if any(some):
            body.append([method, *(f"{statistics.median(each):.3g}, {max(each):.3g}" if each else "" for each in some)])
    return body


def report(path: Path) -> None:
    """The tables."""
    lines = [
        "# Trainings of which every epoch is observed",
        "",
        "Loss of the best training that has come to its 27th epoch, after the epochs of 3, 6, 12 and 40 whole",
        f"trainings. Losses of tables of real trainings. Measured by `python -m {STUDY.module}`.",
        "FreezeThaw is told the capital and makes a run for each; the other methods cannot be told.",
    ]
    head = ["", *(f"{n} trainings" for n in CAPITALS)]
    for workers in WORKERS:
        losses = losses_of(path, workers)
        for name, tasks in {
            "developed on": [task for task in TASKS if task not in HELD_OUT],
            "held out": list(HELD_OUT),
        }.items():
            own = [task for task in tasks if any(task == there for there, *_ in losses)]
            if own:
                title = f"{workers} worker{'s' if workers > 1 else ''}, {len(own)} tasks {name}"
                counts = sorted({len(losses[key]) for key in losses if key[0] in own})
                seeds = " or ".join(map(str, counts))
                note = f"Mean rank of the median of {seeds} seeds, and tasks on which it is within 1.05 of the best:"
                lines += ["", f"## {title}", "", note, "", *markdown(head, summary(losses, own))]
                for task in own if workers == 1 else ():
                    lines += ["", f"{task}: median, worst seed", "", *markdown(head, details(losses, task))]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


STUDY = Study(
    "benchmarks.quality.trainings.run",
    "trainings",
    dict.fromkeys(TASKS),
    {f"{method} @{n}" if n > 1 else method: None for n in WORKERS for method in METHODS},
    CAPITALS,
    ("loss", "processor_seconds"),
    plan=plan,
    execute=execute,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
