"""Tables and the picture of ``real.csv``.

    python -m benchmarks.real.report [--results FOLDER]

Writes ``real.md`` (means with standard errors over the seeds) and ``real.png`` beside the results: the best value at
the target against nominal capital. The MF-GP-UCB paper's Figs. 4 and 5 have seconds there; those of the table are wall
clock, worth comparing only where nothing else ran.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, stdev

from matplotlib.figure import Figure

from benchmarks.common import parser, tidy
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
    parts = ["# Real problems at equal capital", "", "Mean of the best value at the target over the seeds, ± its"]
    parts += ["standard error; larger is better. Capital in units of the target's nominal cost, the initial design"]
    parts += [
        "included. Seconds: deciding and evaluating, median of whole runs, wall clock on two cores that many other"
    ]
    parts += [f"processes used as well: not to be compared. †: some runs were cut after {MINUTES} minutes of processor"]
    parts += ["time. -: some runs had no value of the target yet. SALSA on"]
    parts[-1] += f" {', '.join(map(str, SALSA_SIZES))} points, a quarter of the paper's."
    parts.append("")
    for name in PROBLEMS:
        labels = [label for label in STRATEGIES if (name, label, CAPITALS[-1]) in runs]
        for row in runs.get((name, OWN, 1), []):
            shipped = f"OpenCV's own thresholds: {row['best']:.4g}, held out {row['held_out']:.4g}."
            parts += ["" if labels else f"No tuning of {name} was measured.", shipped, ""]
        if not labels:
            continue
        unseen = any(not math.isnan(row["held_out"]) for label in labels for row in runs[name, label, CAPITALS[-1]])
        parts += [f"## {name}", ""]
        parts += ["| strategy | seeds | " + " | ".join(map(str, CAPITALS)) + " | seconds |" + unseen * " held out |"]
        parts += ["| --- | ---: |" + " ---: |" * (len(CAPITALS) + 1 + unseen)]
        for label in labels:
            last = runs[name, label, CAPITALS[-1]]
            cells = [
                _mean([row["best"] for row in runs[name, label, c]]) + _cut(runs[name, label, c]) for c in CAPITALS
            ]
            cells.append(f"{median(row['decision_seconds'] + row['evaluation_seconds'] for row in last):.1f}")
            cells += [_mean([row["held_out"] for row in last])] * unseen
            parts.append(f"| {label} | {len(last)} | " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


def _mean(values: Sequence[float]) -> str:
    if not all(map(math.isfinite, values)):
        return "-"
    error = f" ± {stdev(values) / math.sqrt(len(values)):.2g}" if len(values) > 1 else ""
    return f"{fmean(values):.5g}{error}"


def _cut(rows: Sequence[dict[str, float]]) -> str:
    return "†" * any(row["spent"] < row["capital"] - 1 for row in rows)


def picture(runs: Runs) -> Figure:
    """Mean of the best value against capital, a panel for each problem that has runs."""
    names = [name for name in PROBLEMS if any((name, label, CAPITALS[-1]) in runs for label in STRATEGIES)]
    figure = Figure(figsize=(4.5 * len(names), 4.5), layout="constrained")
    handles = {}
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for label in STRATEGIES:
            style = {"linewidth": 2.5, "zorder": 3} if label in COLORS else {"linewidth": 1.2, "zorder": 2}
            points = []
            for capital in CAPITALS:
                rows = runs.get((name, label, capital), [])
                if rows and all(math.isfinite(row["best"]) for row in rows):
                    points.append((capital, fmean(row["best"] for row in rows)))
            if points:
                color = COLORS.get(label, f"C{2 + list(STRATEGIES).index(label)}")
                (handles[label],) = axis.plot(
                    *zip(*points, strict=True), marker="o", markersize=4, color=color, **style
                )
        axis.set(title=name, xlabel="nominal capital, in queries at the target")
        tidy(axis)
    figure.supylabel("best value at the target, mean")
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, frameon=False)
    return figure


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
