"""Tables and the picture of ``real.csv``.

    python -m benchmarks.real.report [--results FOLDER]

Writes ``real.md`` (means with standard errors over the seeds) and ``real.png`` beside the results: the best value at
the target against nominal capital, and against seconds as in the MF-GP-UCB paper's Figs. 4 and 5. Those are wall clock,
worth comparing only as far as the machine was equally busy.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from benchmarks.common import mean_and_error, parser, tidy
from benchmarks.real.run import CAPITALS, FILE, MINUTES, OWN, PROBLEMS, SALSA_SIZES, STRATEGIES
from benchmarks.runs import read

Runs = dict[tuple[str, str, int], list[dict[str, float]]]
COLORS = {"MFGPUCB": "#d55e00", "MF-GP-UCB (published)": "#0072b2"}


def collect(path: Path) -> Runs:
    """The numbers of every row by problem, strategy and capital."""
    runs: Runs = defaultdict(list)
    for row in read(path):
        key = (row.pop("problem"), row.pop("strategy"), int(row["capital"]))
        runs[key].append({name: float(value or "nan") for name, value in row.items()})
    return runs


def table(runs: Runs) -> str:
    """Means and standard errors of the best value, the time it took, and what it comes to on unseen pictures."""
    parts = [
        "# Real problems at equal capital",
        "",
        "Mean of the best value at the target over the seeds, ± its standard error; larger is better. Worst seed:",
        "the least of them at the end. Capital in units of the target's nominal cost, the initial design included.",
        "Seconds: deciding and evaluating, median of whole runs, wall clock on two cores that many other processes",
        f"used as well: not to be compared. †: some runs were cut after {MINUTES} minutes of processor time. -: some",
        "runs had no value of the target yet. SALSA on",
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
        parts += ["| strategy | seeds | " + " | ".join(columns) + " |"]
        parts += ["| --- | ---: |" + " ---: |" * len(columns)]
        for label in labels:
            last = runs[name, label, CAPITALS[-1]]
            cells = [
                _mean([row["best"] for row in runs[name, label, c]]) + _cut(runs[name, label, c]) for c in CAPITALS
            ]
            cells.append(f"{min(row['best'] for row in last):.5g}")
            cells.append(f"{median(row['decision_seconds'] + row['evaluation_seconds'] for row in last):.1f}")
            cells += [_mean([row["held_out"] for row in last])] * unseen
            parts.append(f"| {label} | {len(last)} | " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


def _mean(values: Sequence[float]) -> str:
    if not all(map(math.isfinite, values)):
        return "-"
    return mean_and_error(values, ".5g", ".2g")


def _cut(rows: Sequence[dict[str, float]]) -> str:
    return "†" * any(row["spent"] < row["capital"] - 1 for row in rows)


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
            color = COLORS.get(label, f"C{2 + list(STRATEGIES).index(label)}")
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables and the picture beside the results."""
    path = parser(__doc__).parse_args(arguments).results / FILE
    runs = collect(path)
    text = table(runs)
    path.with_suffix(".md").write_text(text)
    picture(runs).savefig(path.with_suffix(".png"), dpi=110)
    print(text)


if __name__ == "__main__":
    main()
