"""Tables and the picture of ``regret.csv``.

    python -m benchmarks.regret.report [--results FOLDER]

Writes ``regret.md`` (medians, the number of seeds, time a decision) and ``regret.png`` beside the
results. Regret below 1e-12 of the optimum is rounding and told as 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

from benchmarks.common import parser, tidy
from benchmarks.regret.run import CAPITALS, ENTRIES, FILE, MINUTES, PROBLEMS
from benchmarks.runs import read
from mfbo_torch import problems

Key = tuple[str, str, int]
Regrets = dict[Key, list[float]]
COLORS = {"MFGPUCB": "#d55e00", "MFGPUCB (no hedge)": "#e69f00", "MFGPUCB (paper)": "#0072b2"}


def collect(path: Path) -> tuple[Regrets, dict[str, list[float]], set[Key]]:
    """Regret by problem, strategy and capital; seconds a decision by strategy; which were cut."""
    regrets: Regrets = defaultdict(list)
    cut: set[Key] = set()
    seconds: dict[str, list[float]] = defaultdict(list)
    for row in read(path):
        regret = float(row["regret"])
        optimum = getattr(problems, row["problem"])().optimum
        regret = 0.0 if regret < 1e-12 * abs(optimum) else regret
        key = (row["problem"], row["strategy"], int(row["capital"]))
        regrets[key].append(regret)
        if float(row["spent"]) < key[-1] - 1:
            cut.add(key)
        seconds[row["strategy"]].append(float(row["decision_seconds"]) / max(int(row["queries"]), 1))
    return regrets, seconds, cut


def table(regrets: Regrets, seconds: dict[str, list[float]], cut: set[Key]) -> str:
    """Median regret of every strategy, one table a problem, and the time they take."""
    parts = ["# Simple regret at equal capital", "", "Median over the seeds; capital in units of the target's cost,"]
    parts += ["the initial design included. Bold: no other strategy has a smaller median there."]
    parts += [f"†: some runs were cut after {MINUTES} minutes; their regret is what they had by then.", ""]
    for name in PROBLEMS:
        labels = [label for label in ENTRIES if any((name, label, c) in regrets for c in CAPITALS)]
        if not labels:
            continue
        medians = {key: median(values) for key, values in regrets.items() if key[0] == name}
        least = {c: min((v for k, v in medians.items() if k[2] == c), default=0.0) for c in CAPITALS}
        parts += [f"## {name}", "", "| strategy | seeds | " + " | ".join(map(str, CAPITALS)) + " |"]
        parts += ["| --- | ---: |" + " ---: |" * len(CAPITALS)]
        for label in labels:
            cells = []
            for c in CAPITALS:
                value = medians.get((name, label, c))
                text = "" if value is None else f"{value:.2g}" + "†" * ((name, label, c) in cut)
                cells.append(f"**{text}**" if value is not None and value <= least[c] else text)
            seeds = max(len(regrets.get((name, label, c), [])) for c in CAPITALS)
            parts.append(f"| {label} | {seeds} | " + " | ".join(cells) + " |")
        parts.append("")
    parts += ["## Seconds a decision", "", "| strategy | median over runs |", "| --- | ---: |"]
    parts += [f"| {label} | {median(seconds[label]):.3f} |" for label in ENTRIES if label in seconds]
    return "\n".join(parts) + "\n"


def picture(regrets: Regrets) -> Figure:
    """Median regret against capital, a panel for each problem."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    panels = figure.subplots(2, 3).flat
    for axis, name in zip(panels, PROBLEMS, strict=True):
        for label in ENTRIES:
            points = [(c, median(regrets[name, label, c])) for c in CAPITALS if (name, label, c) in regrets]
            if points:
                x, y = zip(*[(c, max(value, 1e-9)) for c, value in points], strict=True)
                style = {"linewidth": 2.5, "zorder": 3} if label in COLORS else {"linewidth": 1.2, "zorder": 2}
                axis.plot(x, y, marker="o", markersize=4, color=COLORS.get(label), label=label, **style)
        axis.set(title=name, xscale="log", yscale="log", xticks=CAPITALS)
        axis.minorticks_off()
        axis.set_xticklabels(map(str, CAPITALS))
        tidy(axis)
    figure.supxlabel("capital, in queries at the target")
    figure.supylabel("median simple regret (1e-9: the optimum itself)")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    found = dict(zip(labels, handles, strict=True))
    for axis in figure.axes[1:]:
        found |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=6, frameon=False)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables and the picture beside the results."""
    path = parser(__doc__).parse_args(arguments).results / FILE
    regrets, seconds, cut = collect(path)
    text = table(regrets, seconds, cut)
    path.with_suffix(".md").write_text(text)
    picture(regrets).savefig(path.with_suffix(".png"), dpi=120)
    print(text)


if __name__ == "__main__":
    main()
