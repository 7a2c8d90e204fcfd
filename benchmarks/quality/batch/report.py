"""Tables and pictures of the runs in ``batch``: ``NAME.md`` and ``NAME.png`` beside ``NAME.csv``.

Experiments in batches get the panels of Fig. 2 of Desautels et al. (ICML 2012): average regret, minimum regret and run
time. Experiments with asynchronous workers get the minimum regret against evaluations (or capital) and against
simulated time, and how much sooner a regret is reached with several workers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from statistics import mean, median, stdev

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.common import tidy
from benchmarks.study import read

Run = dict[str, np.ndarray]
Runs = dict[tuple[str, str], dict[int, Run]]
FOLDER = "batch"
COLUMNS = ("spent", "time", "average", "minimum", "seconds")
NUMBERS = ("capital", "spent", "time", "average", "minimum", "seconds")
COLORS = ("#222222", "#D55E00", "#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#8A8A8A", "#7B5EA7")
REGRETS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
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


def told(values: list[float]) -> str:
    """Mean and standard error."""
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{mean(values):.4f} ± {error:.4f}"


def batch_table(runs: Runs) -> list[str]:
    """Average regret after the first batch, its ratio to the first strategy's, minimum regret and run time."""
    last = int(next(iter(next(iter(runs.values())).values()))["capital"][-1])
    lines = [f"| strategy | trials | regret over queries {FIRST + 1} to {last} | ratio | minimum regret | seconds |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: |"]
    reference: dict[int, float] = {}
    for (_, label), trials in runs.items():
        averages = {trial: later_average(run) for trial, run in trials.items()}
        reference = reference or averages
        shared = sorted(averages.keys() & reference.keys())
        ratio = mean(averages[t] for t in shared) / mean(reference[t] for t in shared) if shared else math.nan
        least = told([float(run["minimum"][-1]) for run in trials.values()])
        seconds = median(float(run["seconds"][-1]) for run in trials.values())
        average = told(list(averages.values()))
        lines.append(f"| {label} | {len(trials)} | {average} | {ratio:.2f} | {least} | {seconds:.2f} |")
    notes = "Means and standard errors; ratio to the first strategy over the trials that both have; seconds of"
    return [*lines, "", f"{notes} processor time for all decisions of a trial, median."]


def batch_picture(runs: Runs, title: str) -> Figure:
    """Average regret, minimum regret and run time against the queries."""
    figure = Figure(figsize=(13.5, 4.6), layout="constrained")
    panels = figure.subplots(1, 3)
    names = {"average": "average regret", "minimum": "minimum regret", "seconds": "processor seconds of the decisions"}
    for axes, (name, ylabel) in zip(panels, names.items(), strict=True):
        for ((_, label), trials), color in zip(runs.items(), COLORS, strict=False):
            x = next(iter(trials.values()))["capital"]
            if label.endswith("not lazy") and name != "seconds":
                continue  # the same queries
            values = np.array([run[name] for run in trials.values()])
            middle = values.mean(0)
            error = values.std(0, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else np.zeros_like(middle)
            floor = 1e-4 if name == "minimum" else 1e-6
            axes.plot(x, middle.clip(floor), color=color, linewidth=1.8, label=f"{label} ({len(values)})")
            axes.fill_between(x, (middle - error).clip(floor), (middle + error).clip(floor), color=color, alpha=0.15)
        _dress(axes, "queries", ylabel)
    figure.suptitle(f"{title} (trials), one standard error; 1e-4 and below as 1e-4", x=0.01, ha="left", fontsize=11)
    handles, labels = panels[2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return figure


def reached(run: Run, regret: float, name: str) -> float:
    """How much had been used when a regret was first reached; infinite if it never was."""
    found = np.flatnonzero(run["minimum"] <= regret)
    return float(run[name][found[0]]) if len(found) else math.inf


def worker_table(runs: Runs) -> list[str]:
    """For each problem: median regret at the end, simulated time, and when regrets were reached."""
    lines: list[str] = []
    for problem in dict.fromkeys(problem for problem, _ in runs):
        own = {label: trials for (name, label), trials in runs.items() if name == problem}
        alone = next(iter(own.values()))
        lines += [f"## {problem}", "", "| workers | trials | median regret | ratio | simulated time | times quicker |"]
        lines += ["| --- | ---: | ---: | ---: | ---: | ---: |"]
        for label, trials in own.items():
            least = median(float(run["minimum"][-1]) for run in trials.values())
            base = median(float(run["minimum"][-1]) for run in alone.values())
            time = median(float(run["time"][-1]) for run in trials.values())
            usual = median(float(run["time"][-1]) for run in alone.values())
            quicker = f"{least:.3g} | {least / base:.2f} | {time:.4g} | {usual / time:.1f}"
            lines.append(f"| {label} | {len(trials)} | {quicker} |")
        lines += ["", "Median simulated time (and evaluations) until a regret is reached, and times quicker than the"]
        lines += ["first; a dash where fewer than half of the trials reached it.", ""]
        lines += ["| workers | " + " | ".join(f"{r:g}" for r in REGRETS) + " |"]
        lines += ["| --- |" + " ---: |" * len(REGRETS)]
        for label, trials in own.items():
            cells = []
            for regret in REGRETS:
                time, count, usual = (
                    median(reached(run, regret, name) for run in some.values())
                    for some, name in ((trials, "time"), (trials, "capital"), (alone, "time"))
                )
                quicker = f", {usual / time:.1f}x" if math.isfinite(usual) else ""
                cells.append(f"{time:.3g} ({count:g}){quicker}" if math.isfinite(time) else "-")
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def worker_picture(runs: Runs, title: str) -> Figure:
    """Median minimum regret against capital and against simulated time, a row for each problem."""
    problems = list(dict.fromkeys(problem for problem, _ in runs))
    figure = Figure(figsize=(11, 0.8 + 3.8 * len(problems)), layout="constrained")
    grid = figure.subplots(len(problems), 2, squeeze=False)
    for row, problem in zip(grid, problems, strict=True):
        own = {label: trials for (name, label), trials in runs.items() if name == problem}
        for axes, name in zip(row, ("spent", "time"), strict=True):
            for (label, trials), color in zip(own.items(), ("#222222", *COLORS[3:6], COLORS[1]), strict=False):
                end = median(float(run[name][-1]) for run in trials.values())
                x = np.linspace(0.0, end, 400)[1:]
                curves = np.array([_steps(run, x, name) for run in trials.values()])
                axes.plot(x, np.median(curves, 0), color=color, linewidth=1.8, label=f"{label} ({len(trials)} trials)")
                low, high = np.quantile(curves, [0.25, 0.75], axis=0)
                axes.fill_between(x, low, high, color=color, alpha=0.13)
            _dress(axes, "capital spent" if name == "spent" else "simulated time", f"{problem}: minimum regret")
            axes.set_xscale("log")
            axes.set_xlim(left=x[-1] / 100 if name == "spent" else x[-1] / 300)
    figure.suptitle(f"{title}, medians and quartiles; 1e-9 and below as 1e-9", x=0.01, ha="left", fontsize=11)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return figure


def _steps(run: Run, x: np.ndarray, name: str) -> np.ndarray:
    """The minimum regret at some amounts; that of the first value before there is one."""
    found = np.searchsorted(run[name], x, side="right") - 1
    finite = run["minimum"][np.isfinite(run["minimum"])]
    return np.where(np.isfinite(run["minimum"]), run["minimum"], finite[0])[found.clip(0)].clip(1e-9)


def _dress(axes: Axes, xlabel: str, ylabel: str) -> None:
    axes.set_yscale("log")
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    tidy(axes)


def write(path: Path) -> None:
    """Write the table and the picture of an experiment beside its rows."""
    runs = collect(path)
    workers = all("worker" in label for _, label in runs)
    table = worker_table(runs) if workers else batch_table(runs)
    text = "\n".join([f"# {path.stem}", "", *table]).rstrip() + "\n"
    path.with_suffix(".md").write_text(text)
    (worker_picture if workers else batch_picture)(runs, path.stem).savefig(path.with_suffix(".png"), dpi=120)
    print(text)
