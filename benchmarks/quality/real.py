"""The best value found on the real problems of the MF-GP-UCB paper, at equal nominal capital and by the clock.

A study (:mod:`benchmarks.study`): ``real.csv``; ``real.md`` has means with standard errors, ``real.png`` the best value
at the target against nominal capital, the initial design included, and against seconds as in the paper's Figs. 4 and 5:
wall clock, comparable only as far as the machine was equally busy. ``MFBO_DATA_DIR`` names the folder with the data
(:mod:`mfbo_torch.problems.real.data`).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, median

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from benchmarks.common import markdown, mean_and_error, tidy
from benchmarks.study import Job, Look, Row, Study, cut, grouped
from mfbo_torch import strategies
from mfbo_torch.history import History, Query
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import best_values
from mfbo_torch.problems import SALSA, SVM, Problem, Supernova, ViolaJones
from mfbo_torch.strategies import Strategy

CAPITALS = (5, 10, 15, 20, 30)
"""In units of the target's cost; each is read off one run to the largest."""
MINUTES = 2
"""A run that takes more processor time is cut and keeps what it had; its ``spent`` is below ``capital - 1``."""
SALSA_SIZES = (500, 1000, 2000)
"""A quarter of the paper's (2000, 4000, 8000): one evaluation on 8,000 points takes fifteen seconds on one core."""

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "SVM": lambda: SVM(data="magic"),
    "SALSA": lambda: SALSA(sizes=SALSA_SIZES),
    "Supernova": Supernova,
    "ViolaJones": ViolaJones,
}
STRATEGIES: dict[str, Callable[[int], Strategy]] = {
    "MFGPUCB": lambda seed: strategies.MFGPUCB(seed=seed),
    "MF-GP-UCB (published)": lambda seed: strategies.MFGPUCB(link="independent", strict=True, seed=seed),
    "MF-GP-UCB (tabulated)": lambda seed: strategies.MFGPUCB(link="independent", seed=seed),
    "GP-UCB": lambda seed: strategies.GPUCB(seed=seed),
    "EI": lambda seed: strategies.ExpectedImprovement(seed=seed),
    "PI": lambda seed: strategies.ProbabilityOfImprovement(seed=seed),
    "DiRect": lambda seed: strategies.Direct(seed=seed),
    "MF-NAIVE": lambda seed: strategies.MFNaive(seed=seed),
    "MF-SKO": lambda seed: strategies.MFSKO(seed=seed),
}
ONE_SEED = ("DiRect",)
"""What draws nothing."""
OWN = "OpenCV"
"""The thresholds that the face detector comes with, a run of one query."""


def plan(problem: str, method: str, seed: int) -> Iterable[tuple[int, ...]]:
    """One run, where there is something to draw."""
    if method == OWN:
        return [(1,)] if problem == "ViolaJones" and seed == 0 else []
    return [] if seed and method in ONE_SEED else [CAPITALS]


def play(job: Job, problem: Problem, capital: float) -> History:
    """A run of a strategy, or the one query with OpenCV's thresholds."""
    if job.method != OWN:
        return run(problem, STRATEGIES[job.method](job.seed), capital, progress=False)
    target = problem.space.target
    asked = History().asked(Query(tuple(problem.thresholds), target), problem.space.costs[target])
    return asked.updated(asked.records[0].done(problem.reward(problem.thresholds, target)))


def measured(look: Look) -> Row:
    """The best value so far and what it took; ``held_out``: the same on data that no query has seen."""
    records, target = look.history.records, look.problem.space.target
    best = look.problem.signed(best_values(look.history, target)[-1].item())
    queries = len(records), sum(record.query.fidelity == target for record in records)
    evaluating = round(sum(record.evaluation_seconds for record in records), 3)
    held_out = _held_out(look.problem, look.history)
    return best, held_out, look.spent, *queries, look.decision_seconds, evaluating


def _held_out(problem: Problem, history: History) -> object:
    """What the best design of the target comes to on data that no query has seen, where the problem has such."""
    if not hasattr(problem, "held_out"):
        return ""
    best = history.best(problem.space.target)
    return "" if best is None else problem.held_out(best.query.x)


Runs = dict[tuple[str, str, float], list[dict[str, float]]]
COLORS = {"MFGPUCB": "#d55e00", "MF-GP-UCB (published)": "#0072b2", "MF-GP-UCB (tabulated)": "#56b4e9"}


def collect(path: Path) -> Runs:
    """The numbers of every row by problem, method and capital."""
    return {
        key: [{name: float(row[name] or "nan") for name in ("capital", *STUDY.columns)} for row in rows]
        for key, rows in grouped(path).items()
    }


def table(runs: Runs) -> str:
    """Means and standard errors of the best value, the time it took, and what it comes to on unseen pictures."""
    parts = [
        "# Real problems at equal capital",
        "",
        "Mean over the seeds of the best value at the target, ± its standard error; larger is better. The worst seed",
        "is the one with the smallest value at the end. The capital is in units of the target's nominal cost, and",
        "includes the initial design. Seconds are the median wall-clock time of a run, for decisions and evaluations.",
        "The two cores were shared with many other processes, so these times should not be compared. †: some runs were",
        f"cut after {MINUTES} minutes of processor time. -: some runs had no value at the target yet. SALSA uses",
        f"{', '.join(map(str, SALSA_SIZES))} points, a quarter of the paper's.",
        "",
    ]
    for name in PROBLEMS:
        labels = [label for label in STRATEGIES if (name, label, CAPITALS[-1]) in runs]
        shipped = runs.get((name, OWN, 1), [])
        if labels or shipped:
            parts += [f"## {name}", ""]
        for row in shipped:
            parts += [f"OpenCV's own thresholds: {row['best']:.4g}, held out {row['held_out']:.4g}.", ""]
        if not labels:
            continue
        unseen = any(not math.isnan(row["held_out"]) for label in labels for row in runs[name, label, CAPITALS[-1]])
        columns = [*map(str, CAPITALS), "worst seed", "seconds", *["held out"] * unseen]
        body = []
        for label in labels:
            found = [runs[name, label, c] for c in CAPITALS]
            last = found[-1]
            some = [any(map(cut, rows)) for rows in found]
            cells = [_mean(rows, "best") + "†" * was for rows, was in zip(found, some, strict=True)]
            cells.append(f"{min(row['best'] for row in last):.5g}")
            cells.append(f"{median(row['decision_seconds'] + row['evaluation_seconds'] for row in last):.1f}")
            cells += [_mean(last, "held_out")] * unseen
            body.append([label, str(len(last)), *cells])
        parts += [*markdown(["strategy", "seeds", *columns], body), ""]
    return "\n".join(parts)


def _mean(rows: Sequence[dict[str, float]], name: str) -> str:
    values = [row[name] for row in rows]
    return mean_and_error(values, ".5g", ".2g") if all(map(math.isfinite, values)) else "-"


def picture(runs: Runs) -> Figure:
    """How far the mean of the best value is from the best of all runs, against capital and against seconds."""
    names = [name for name in PROBLEMS if any((name, label, CAPITALS[-1]) in runs for label in STRATEGIES)]
    figure = Figure(figsize=(4.5 * len(names), 8), layout="constrained")
    above, below = figure.subplots(2, len(names), squeeze=False)
    handles = {}
    for name, by_capital, by_clock in zip(names, above, below, strict=True):
        most = max(row["best"] for key, rows in runs.items() if key[0] == name for row in rows)
        for label in STRATEGIES:
            curve = _curve(runs, name, label)
            if not curve:
                continue
            capital, seconds, best = zip(*curve, strict=True)
            gap = [most - value for value in best]
            style = {"linewidth": 2.5, "zorder": 3} if label in COLORS else {"linewidth": 1.2, "zorder": 2}
            color = COLORS.get(label, f"C{list(STRATEGIES).index(label)}")
            for axis, x in ((by_capital, capital), (by_clock, seconds)):
                (handles[label],) = axis.plot(x, gap, marker="o", markersize=4, color=color, **style)
        by_capital.set(title=name, xlabel="nominal capital, in queries at the target", yscale="log")
        by_clock.set(xlabel="seconds of deciding and evaluating", xscale="log", yscale="log")
        by_clock.xaxis.set_minor_formatter(NullFormatter())
        tidy(by_capital)
        tidy(by_clock)
    figure.supylabel("best value of all runs less the mean best value so far")
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def _curve(runs: Runs, name: str, label: str) -> list[tuple[float, float, float]]:
    """Capital, median seconds until then, and mean best value, where every run has one."""
    found = []
    for capital in CAPITALS:
        rows = runs.get((name, label, capital), [])
        if rows and all(math.isfinite(row["best"]) for row in rows):
            seconds = median(row["decision_seconds"] + row["evaluation_seconds"] for row in rows)
            found.append((float(capital), seconds, fmean(row["best"] for row in rows)))
    return found


def report(path: Path) -> None:
    """Write the tables and the picture beside the results."""
    runs = collect(path)
    path.with_suffix(".md").write_text(text := table(runs))
    picture(runs).savefig(path.with_suffix(".png"), dpi=110)
    print(text)


STUDY = Study(
    "benchmarks.quality.real",
    "real",
    PROBLEMS,
    {**STRATEGIES, OWN: None},
    CAPITALS,
    ("best", "held_out", "spent", "queries", "target_queries", "decision_seconds", "evaluation_seconds"),
    measured,
    minutes=MINUTES,
    plan=plan,
    play=play,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
