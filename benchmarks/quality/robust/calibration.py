"""How often the truth is where a model says: bands of the target after every quarter of a run.

A study (:mod:`benchmarks.study`): ``calibration.csv`` and ``.md``, the share of true target values within the 50, 90
and 99 % bands at 256 space-filling designs that no run has seen, and the mean logarithm of their density in units of
their deviation. Two models are made of the observations of the default: the chain with estimated links (``linked``,
what ``MFGPUCB(hedge=False)`` goes by), and the one with its links integrated out and its residuals averaged
(``integrated``, what the default predicts with).
"""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from benchmarks.common import markdown
from benchmarks.quality.robust.problems import DEVELOPMENT, PROBLEMS
from benchmarks.study import Job, Row, Study, read
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import capital_spent, paid_for
from mfbo_torch.problems import Problem
from mfbo_torch.strategies import MFGPUCB

LEVELS = (0.5, 0.9, 0.99)
DESIGNS = 256
MODELS = {"linked": False, "integrated": True}
"""By name, whether the strategy whose prediction it is hedges."""
LEAST = 1e-6
"""No deviation is taken to be below this part of that of the true values."""


def execute(job: Job) -> list[Row]:
    """One row for each model and capital."""
    problem = PROBLEMS[job.problem]()
    problem.trial = job.seed
    top = problem.space.costs[-1]
    capital = max(job.capitals) * top
    history = run(problem, MFGPUCB(seed=job.seed), capital, progress=False)
    X, truth = unseen(problem)
    rows: list[Row] = []
    for name in job.method:
        asks = MFGPUCB(seed=job.seed, hedge=MODELS[name]).bind(problem.space, capital)
        parts = paid_for(capital_spent(history) / top, job.capitals).tolist()
        for amount, within in zip(job.capitals, parts, strict=True):
            predicted = asks.predict(History(history.records[:within]), X)
            assert predicted is not None
            scores = calibration(predicted[0][:, -1], predicted[1][:, -1], truth)
            rows.append((job.problem, name, job.seed, amount, *(round(score, 4) for score in scores)))
    return rows


def unseen(problem: Problem) -> tuple[Tensor, Tensor]:
    """Space-filling designs in the user's units that do not fail, and the true values of the target."""
    units = torch.quasirandom.SobolEngine(problem.space.dim, scramble=True, seed=7).draw(DESIGNS, dtype=torch.double)
    kept, values = [], []
    for x in problem.space.from_unit(units).tolist():
        value = problem.reward(x, problem.space.target)
        if math.isfinite(value):
            values.append(value)
            kept.append(x)
    return torch.tensor(kept, dtype=torch.double), torch.tensor(values, dtype=torch.double)


def calibration(mean: Tensor, deviation: Tensor, truth: Tensor) -> tuple[float, ...]:
    """Shares of ``n`` values within the bands of :data:`LEVELS`, and mean log density in units of their deviation."""
    unit = truth.std()
    deviation = deviation.clamp_min(LEAST * unit)
    z = (truth - mean) / deviation
    normal = torch.distributions.Normal(0.0, 1.0)
    shares = [(z.abs() <= normal.icdf(torch.tensor(0.5 + level / 2))).double().mean().item() for level in LEVELS]
    density = -0.5 * z.square() - (deviation / unit).log() - 0.5 * math.log(2 * math.pi)
    return (*shares, density.mean().item())


def report(path: Path) -> None:
    """The table of the medians over problems and seeds."""
    lines = [
        "# Calibration of the model's intervals at the target",
        "",
        f"The true values at the target are compared with the model's intervals, at {DESIGNS} space-filling designs",
        "that the run has not evaluated. The capital is in units of the target's cost. Columns in %: the share of the",
        "true values inside the interval, mean over problems and seeds (smallest problem). Log density: the median",
        "over runs of the mean log density. Both models have the same observations, those of the default strategy.",
        "",
    ]
    body, whole = [], read(path)
    for capital in sorted({int(row["capital"]) for row in whole}):
        for model in MODELS:
            rows = [row for row in whole if (row["method"], row["capital"]) == (model, str(capital))]
            if not rows:
                continue
            cells, names = [], {row["problem"] for row in rows}
            for column in STUDY.columns[:3]:
                each = [median(float(row[column]) for row in rows if row["problem"] == name) for name in names]
                cells.append(f"{sum(float(row[column]) for row in rows) / len(rows):.2f} ({min(each):.2f})")
            density = f"{median(float(row['log_density']) for row in rows):.2f}"
            body.append([str(capital), model, str(len(names)), str(len(rows)), *cells, density])
    table = markdown(["capital", "model", "problems", "runs", "50 %", "90 %", "99 %", "log density"], body, left=0)
    table[1] = table[1].replace("| ---: | ---: |", "| ---: | --- |", 1)
    path.with_suffix(".md").write_text("\n".join([*lines, *table]) + "\n", encoding="utf-8")


STUDY = Study(
    "benchmarks.quality.robust.calibration",
    "calibration",
    PROBLEMS,
    dict.fromkeys(MODELS),
    (5, 10, 15, 20),
    ("within50", "within90", "within99", "log_density"),
    seeds=3,
    execute=execute,
    report=report,
    together=True,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write the table; the exit status."""
    made = STUDY.parser(__doc__)
    made.set_defaults(problems=list(DEVELOPMENT))
    return STUDY.finish(made.parse_args(arguments))


if __name__ == "__main__":
    raise SystemExit(main())
