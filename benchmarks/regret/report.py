"""Tables and the picture of ``regret.csv``.

    python -m benchmarks.regret.report [--results FOLDER]

Writes ``regret.md`` (medians and worst seeds, means with standard errors, cumulative regret, the number of seeds, time
a decision), ``regret.png`` and ``regret-average.png`` beside the results. Regret below 1e-12 of the optimum is rounding
and told as 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from matplotlib.figure import Figure

from benchmarks.common import mean_and_error, parser, tidy
from benchmarks.regret.run import CAPITALS, ENTRIES, FILE, MINUTES, PROBLEMS
from benchmarks.runs import read
from mfbo_torch import problems

Key = tuple[str, str, int]
Regrets = dict[Key, list[float]]
OURS = {"MFGPUCB": "#d55e00", "MFGPUCB (no hedge)": "#e69f00", "MFGPUCB (paper)": "#0072b2"}
OTHERS = ("C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "black", "navy")
COLORS = OURS | dict(zip([label for label in ENTRIES if label not in OURS], OTHERS, strict=True))


class Results(NamedTuple):
    """What the rows say.

    Attributes:
        regrets: Simple regret of every seed by problem, strategy and capital.
        averages: Cumulative regret per unit of capital, likewise, where it was measured.
        seconds: A decision, of every run and capital by strategy.
        cut: Which were cut.
    """

    regrets: Regrets
    averages: Regrets
    seconds: dict[str, list[float]]
    cut: set[Key]


def collect(path: Path) -> Results:
    """Read the rows."""
    found = Results(defaultdict(list), defaultdict(list), defaultdict(list), set())
    for row in read(path):
        regret = float(row["regret"])
        optimum = getattr(problems, row["problem"])().optimum
        regret = 0.0 if regret < 1e-12 * abs(optimum) else regret
        key = (row["problem"], row["strategy"], int(row["capital"]))
        found.regrets[key].append(regret)
        if row["average"]:
            found.averages[key].append(float(row["average"]))
        if float(row["spent"]) < key[-1] - 1:
            found.cut.add(key)
        found.seconds[row["strategy"]].append(float(row["decision_seconds"]) / max(int(row["queries"]), 1))
    return found


def table(found: Results) -> str:
    """Tables of each problem: medians, worst seeds and means of the simple regret, means of the cumulative one."""
    parts = ["# Simple and cumulative regret at equal capital", "", "Over the seeds; capital in units of the target's"]
    parts += ["cost, the initial design included. Bold: no other strategy has a smaller median there."]
    parts += [f"†: some runs were cut after {MINUTES} minutes; their regret is what they had by then."]
    parts += ["Cumulative regret is told per unit of capital, `R(Λ) / Λ`, of the runs that it was measured in; what is"]
    parts += ["not spent, and what goes to a cheaper fidelity, has the regret of the function's least value.", ""]
    for name in PROBLEMS:
        medians = {key: median(values) for key, values in found.regrets.items() if key[0] == name}
        if not medians:
            continue
        least = {c: min((v for k, v in medians.items() if k[2] == c), default=0.0) for c in CAPITALS}

        def middle(key: Key, medians: dict[Key, float] = medians, least: dict[int, float] = least) -> str:
            text = f"{medians[key]:.2g}" + "†" * (key in found.cut)
            text = f"**{text}**" if medians[key] <= least[key[-1]] else text
            values = found.regrets[key]
            return f"{text} ({max(values):.2g})" if len(values) > 1 else text

        def mean(key: Key) -> str:
            return mean_and_error(found.regrets[key], ".2g", ".1g") + "†" * (key in found.cut)

        parts += [f"## {name}", "", *_rows(name, found.regrets, "median (worst) simple regret", middle)]
        parts += _rows(name, found.regrets, "mean simple regret", mean)
        parts += _rows(
            name,
            found.averages,
            "mean cumulative regret",
            lambda key: mean_and_error(found.averages[key], ".2g", ".1g"),
        )
    parts += ["## Seconds a decision", "", "| strategy | median over runs |", "| --- | ---: |"]
    parts += [f"| {label} | {median(found.seconds[label]):.3f} |" for label in ENTRIES if label in found.seconds]
    return "\n".join(parts) + "\n"


def _rows(name: str, values: Regrets, title: str, cell: Callable[[Key], str]) -> list[str]:
    """A table of a problem, a strategy a row and a capital a column, and an empty line."""
    labels = [label for label in ENTRIES if any((name, label, c) in values for c in CAPITALS)]
    if not labels:
        return []
    parts = [f"| {title} | seeds | " + " | ".join(map(str, CAPITALS)) + " |"]
    parts += ["| --- | ---: |" + " ---: |" * len(CAPITALS)]
    for label in labels:
        cells = [cell((name, label, c)) if (name, label, c) in values else "" for c in CAPITALS]
        seeds = max(len(values.get((name, label, c), [])) for c in CAPITALS)
        parts.append(f"| {label} | {seeds} | " + " | ".join(cells) + " |")
    return [*parts, ""]


def picture(regrets: Regrets) -> Figure:
    """Median simple regret against capital, a panel for each problem."""
    curves = {key: max(median(values), 1e-9) for key, values in regrets.items()}
    return _panels(curves, PROBLEMS, "median simple regret (1e-9: the optimum itself)")


def cumulative(averages: Regrets) -> Figure:
    """Mean cumulative regret per unit of capital, a panel for each problem that it was measured for."""
    names = [name for name in PROBLEMS if any(key[0] == name for key in averages)]
    curves = {key: fmean(values) for key, values in averages.items()}
    return _panels(curves, names, "mean cumulative regret per unit of capital")


def _panels(curves: dict[Key, float], names: Sequence[str], label: str) -> Figure:
    """Curves against capital, three problems a row."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    found = {}
    for axis, name in zip(figure.subplots(2, 3).flat, names, strict=False):
        for strategy in ENTRIES:
            points = [(c, curves[name, strategy, c]) for c in CAPITALS if (name, strategy, c) in curves]
            if points:
                style = {"linewidth": 2.5, "zorder": 3} if strategy in OURS else {"linewidth": 1.2, "zorder": 2}
                style |= {"marker": "o", "markersize": 4, "color": COLORS[strategy]}
                (found[strategy],) = axis.plot(*zip(*points, strict=True), **style)
        axis.set(title=name, xscale="log", yscale="log", xticks=CAPITALS)
        axis.minorticks_off()
        axis.set_xticklabels(map(str, CAPITALS))
        tidy(axis)
    for axis in list(figure.axes)[len(names) :]:
        axis.remove()
    figure.supxlabel("capital, in queries at the target")
    figure.supylabel(label)
    labels = [strategy for strategy in ENTRIES if strategy in found]
    handles = [found[strategy] for strategy in labels]
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables and the pictures beside the results."""
    path = parser(__doc__).parse_args(arguments).results / FILE
    found = collect(path)
    text = table(found)
    path.with_suffix(".md").write_text(text)
    picture(found.regrets).savefig(path.with_suffix(".png"), dpi=120)
    if found.averages:
        cumulative(found.averages).savefig(path.with_name(f"{path.stem}-average.png"), dpi=120)
    print(text)


if __name__ == "__main__":
    main()
