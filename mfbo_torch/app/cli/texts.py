"""A run and a comparison in a few lines of text."""

from __future__ import annotations

import math
import statistics
from typing import Any

from mfbo_torch.app import digest
from mfbo_torch.app.cli.terminal import Shown, pairs, shown, table
from mfbo_torch.app.compare import Comparison
from mfbo_torch.app.regret_curves import final, measure, optimum_of
from mfbo_torch.app.summary import Summary
from mfbo_torch.problems.problem_snapshot import shown_of
from mfbo_torch.space.parameter import format_value


def described(run: Summary) -> Shown:
    """A run in a few lines."""
    return pairs(digest.rows(shown_of(run.problem), run.values, run.history, run.finished))


def front(solutions: list[dict[str, Any]]) -> Shown:
    """A front as a table, a row for each design: objectives, parameters, and what it stands out by."""
    objectives = list(solutions[0]["values"])
    parameters = list(dict.fromkeys(name for one in solutions for name in one["parameters"]))
    rows = []
    for one in solutions:
        deviations = [one["deviations"].get(name) for name in objectives]
        values = zip(one["values"].values(), deviations, strict=True)
        cells = [f"{value:.5g}" + ("" if not error else f" ± {error:.1g}") for value, error in values]
        there = [one["parameters"].get(name) for name in parameters]
        cells += ["" if value is None else format_value(value) for value in there]
        rows.append((*cells, ", ".join(one["labels"])))
    return Shown(table((*objectives, *parameters, ""), rows))


def compared(comparison: Comparison) -> Shown:
    """A comparison as a table: for each problem the strategies, the best first."""
    settings, problems, curves, total, finished, _ = comparison
    metric = settings["metric"]
    others = sum(len(runs) for runs in curves.values()) - finished
    lines = [f"{finished} of {total} runs finished{f', {others} more begun' if others > 0 else ''}"]
    for name, problem in problems.items():
        valued = optimum_of(problem) is None
        largest = problem.maximize or bool(problem.space.objectives)
        lines += ["", f"{name}: median {measure(problem, metric)} at the end"]
        ends: list[tuple[float, str, int, int]] = []
        for (of, label), runs in curves.items():
            if of == name:
                values = [final(run, problem, metric) for run in runs.values()]
                known = [value for value in values if not math.isnan(value)]
                ends.append((statistics.median(known or [math.nan]), label, len(known), len(values)))
        sign = -1 if valued and largest else 1
        rows = []
        for median, label, found, count in sorted(ends, key=lambda end: (end[2] == 0, sign * end[0], end[1])):
            part = "" if found == count else f"{found} of "
            rows.append((label, f"{median:.5g}", f"{part}{count} {'seed' if count == 1 else 'seeds'}"))
        heading = measure(problem, metric) if valued else "regret"
        lines.append(table(("strategy", heading, "of"), rows, indent="  "))
    return Shown("\n".join(map(shown, lines)))
