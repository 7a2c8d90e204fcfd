"""The trainings of :mod:`benchmarks.quality.trainings.run` done, not looked up in its table, with one worker.

A study (:mod:`benchmarks.study`): ``trainings-trained.csv`` and ``trainings-trained.md``. Between the designs of the
table losses are means of its neighbours', which are smoother than what trainings give.
"""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.common import markdown
from benchmarks.quality.trainings.methods import Method
from benchmarks.quality.trainings.run import METHODS, details, losses_of, summary
from benchmarks.quality.trainings.tasks import EPOCHS, HELD_OUT, TASKS, WORST
from benchmarks.study import Job, Row, Study

CAPITALS = (3, 6, 12)
RIVALS = ("TPE + halving", "TPE + Hyperband", "TPE + median", "random + halving", "Syne Tune ASHA", "random")


def trained(method: Method, task: str, epochs: int) -> list[float]:
    """The loss of the best training that has come to its end after each of so many epochs in all."""
    best, least = list[float](), math.inf
    curves: dict[tuple[float, ...], list[float]] = {}
    while len(best) < epochs and (running := method.begin()) is not None:
        key = tuple(running.u)
        losses = curves[key] if key in curves else curves.setdefault(key, TASKS[task].curve(running.u))
        for epoch in range(running.done + 1, EPOCHS + 1):
            if epoch == EPOCHS:
                least = min(least, losses[-1])
            best.append(least)
            if not running.told(epoch, losses[epoch - 1]) or len(best) == epochs:
                break
    return best + [least] * (epochs - len(best))


def execute(job: Job) -> list[Row]:
    """One run; the best loss after each capital."""
    epochs = max(job.capitals) * EPOCHS
    method = METHODS[job.method](len(TASKS[job.problem].ranges), job.seed, float(epochs))
    best = trained(method, job.problem, epochs)
    return [(*job[:3], n, round(min(best[n * EPOCHS - 1], WORST), 6)) for n in job.capitals]


def plan(problem: str, method: str, seed: int) -> list[tuple[int, ...]]:
    """FreezeThaw plans with the capital, so each is a run of its own; one run of another method has them all."""
    return [(n,) for n in CAPITALS] if method == "FreezeThaw" else [CAPITALS]


def report(path: Path) -> None:
    """The tables."""
    losses, head = losses_of(path, 1), ["", *(f"{n} trainings" for n in CAPITALS)]
    lines = [
        "# Trainings done, not looked up",
        "",
        "Loss of the best training that has come to its 27th epoch, after the epochs of 3, 6 and 12 whole trainings.",
        f"Measured by `python -m {STUDY.module}`.",
    ]
    for title, held_out in (("developed on", False), ("held out", True)):
        own = [task for task in TASKS if (task in HELD_OUT) == held_out and any(task == there for there, *_ in losses)]
        if own:
            seeds = " or ".join(map(str, sorted({len(losses[key]) for key in losses if key[0] in own})))
            note = f"Mean rank of the median of {seeds} seeds, and tasks on which it is within 1.05 of the best:"
            body = [row[: len(head)] for row in summary(losses, own)]
            lines += ["", f"## {len(own)} tasks {title}", "", note, "", *markdown(head, body)]
            for task in own:
                body = [row[: len(head)] for row in details(losses, task)]
                lines += ["", f"{task}: median, worst seed", "", *markdown(head, body)]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


STUDY = Study(
    "benchmarks.quality.trainings.trained",
    "trainings-trained",
    dict.fromkeys(TASKS),
    dict.fromkeys(("FreezeThaw", *RIVALS)),
    CAPITALS,
    ("loss",),
    plan=plan,
    execute=execute,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
