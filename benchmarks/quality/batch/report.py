"""Tables of the runs in ``batch``: ``NAME.md`` beside ``NAME.csv``.

Experiments in batches have average regret, minimum regret and run time, as Fig. 2 of Desautels et al. (ICML 2012),
those with asynchronous workers the minimum regret against evaluations and simulated time.
"""

import math
from collections import defaultdict
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.common import markdown, mean_and_error
from benchmarks.study import read

Run = dict[str, np.ndarray]
Runs = dict[tuple[str, str], dict[int, Run]]
FOLDER = "batch"
COLUMNS = ("spent", "time", "average", "minimum", "seconds")
NUMBERS = ("capital", "spent", "time", "average", "minimum", "seconds")
REGRETS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
FOUND = 1e-9
"""Regret of the optimum, up to rounding."""
FIRST = 10
"""Queries of the first batch, which nobody has any information for."""


def collect(path: Path) -> Runs:
    """The runs by problem and strategy, and then by trial; each a column a number."""
    rows: dict[tuple[str, str], dict[int, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for row in read(path):
        values = [float(row[name]) for name in NUMBERS]
        rows[row["problem"], row["method"]][int(row["seed"])].append(values)
    ordered = sorted(rows.items(), key=lambda item: _workers(item[0][1]))  # stable
    return {
        key: {trial: dict(zip(NUMBERS, np.array(lines).T, strict=True)) for trial, lines in sorted(runs.items())}
        for key, runs in ordered
    }


def _workers(label: str) -> int:
    """How many workers a label names; 0 for one that names none."""
    number, _, unit = label.partition(" ")
    return int(number) if unit.startswith("worker") else 0


def later_average(run: Run) -> float:
    """Regret averaged over the queries after the first batch."""
    first = int(np.flatnonzero(run["capital"] == FIRST)[0])
    total = run["capital"][-1] * run["average"][-1] - FIRST * run["average"][first]
    return float(total / (run["capital"][-1] - FIRST))


def batch_table(runs: Runs) -> list[str]:
    """Average regret, after the first batch too with its ratio to the first strategy's, minimum regret and run time."""
    last = int(next(iter(next(iter(runs.values())).values()))["capital"][-1])
    averages_of = f"queries 1 to {last}", f"queries {FIRST + 1} to {last}", "ratio"
    head = ["strategy", "trials", *averages_of, "minimum regret", "optimum found", "seconds"]
    body = []
    reference: dict[int, float] = {}
    for (_, label), trials in runs.items():
        averages = {trial: later_average(run) for trial, run in trials.items()}
        reference = reference or averages
        shared = sorted(averages.keys() & reference.keys())
        ratio = mean(averages[t] for t in shared) / mean(reference[t] for t in shared) if shared else math.nan
        least = mean_and_error([float(run["minimum"][-1]) for run in trials.values()], ".4f", ".4f")
        seconds = median(float(run["seconds"][-1]) for run in trials.values())
        average = mean_and_error(list(averages.values()), ".4f", ".4f")
        whole = mean_and_error([float(run["average"][-1]) for run in trials.values()], ".4f", ".4f")
        found = sum(float(run["minimum"][-1]) < FOUND for run in trials.values())
        numbers = [whole, average, f"{ratio:.2f}", least, str(found), f"{seconds:.2f}"]
        body.append([label, str(len(trials)), *numbers])
    notes = [
        "Means and standard errors of the regret, averaged over these queries, and of the smallest one; ratio to the"
    ]
    notes += ["first strategy over the trials that both have; in how many trials the optimum was queried; seconds of"]
    notes += ["processor time for all decisions of a trial, median."]
    return [*markdown(head, body), "", *notes]


def reached(run: Run, regret: float, name: str) -> float:
    """How much had been used when a regret was first reached; infinite if it never was."""
    found = np.flatnonzero(run["minimum"] <= regret)
    return float(run[name][found[0]]) if len(found) else math.inf


def worker_table(runs: Runs) -> list[str]:
    """For each problem: median and worst regret at the end, simulated time, and when regrets were reached."""
    lines: list[str] = []
    for problem in dict.fromkeys(problem for problem, _ in runs):
        own = {label: trials for (name, label), trials in runs.items() if name == problem}
        alone = next(iter(own.values()))
        body = []
        for label, trials in own.items():
            ends = [float(run["minimum"][-1]) for run in trials.values()]
            base = median(float(run["minimum"][-1]) for run in alone.values())
            time = median(float(run["time"][-1]) for run in trials.values())
            usual = median(float(run["time"][-1]) for run in alone.values())
            quicker = [f"{median(ends) / base:.2f}", f"{time:.4g}", f"{usual / time:.1f}"]
            body.append([label, str(len(trials)), f"{median(ends):.3g}", f"{max(ends):.3g}", *quicker])
        head = ["workers", "trials", "median regret", "worst", "ratio", "simulated time", "times quicker"]
        lines += [f"## {problem}", "", *markdown(head, body)]
        lines += ["", "Median simulated time (and evaluations) until a regret is reached, and times quicker than the"]
        lines += ["first; a dash where fewer than half of the trials reached it.", ""]
        body = []
        for label, trials in own.items():
            cells = []
            for regret in REGRETS:
                time, count, usual = (
                    median(reached(run, regret, name) for run in some.values())
                    for some, name in ((trials, "time"), (trials, "capital"), (alone, "time"))
                )
                quicker = f", {usual / time:.1f}x" if math.isfinite(usual) else ""
                cells.append(f"{time:.3g} ({count:g}){quicker}" if math.isfinite(time) else "-")
            body.append([label, *cells])
        lines += [*markdown(["workers", *(f"{r:g}" for r in REGRETS)], body), ""]
    return lines


def write(path: Path) -> None:
    """Write the table of an experiment beside its rows."""
    runs = collect(path)
    workers = all("worker" in label for _, label in runs)
    table = worker_table(runs) if workers else batch_table(runs)
    text = "\n".join([f"# {path.stem}", "", *table]).rstrip() + "\n"
    path.with_suffix(".md").write_text(text)
    print(text)
