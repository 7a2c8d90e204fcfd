"""A run and a comparison in a few lines of text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from mfbo_torch.app.cli.terminal import Shown, pairs, shown, styled, table
from mfbo_torch.app.compare import Comparison
from mfbo_torch.app.regret_curves import final, measure, optimum_of
from mfbo_torch.app.summary import Summary
from mfbo_torch.history import Record, Status
from mfbo_torch.space.parameter import format_value


def described(run: Summary) -> Shown:
    """A run in a few lines."""
    values, space, history = run.values, run.problem.space, run.history
    rows = [("Problem", values["problem"]), ("Strategy", f"{values['strategy']}, seed {values['seed']}")]
    objectives = space.objectives
    if objectives:
        rows.append(("Objectives", ", ".join(map(str, objectives))))
        rows.append(("Front", f"{len(run.front)} designs at the target: mfbo best" if run.front else _best(run)))
        rows += [(label, _numbers(one.values)) for one in run.front for label in one.labels]
    else:
        rows += [("Best value", _best(run)), ("at", _point(values["best_parameters"]))]
    for name, kept in run.constraints.items():
        there = "" if kept["at_best"] is None else f"{name} = {kept['at_best']:.5g} there; "
        rows.append(("with", f"{there}{kept['limit']} in {kept['kept']} of {kept['of']}"))
    if run.recommended_parameters is not None:
        rows.append(("Recommended", f"{_point(run.recommended_parameters)}, where {run.expected}"))
        if run.noise:
            rows.append(("Noise", f"{run.noise} (standard deviations)"))
    elif isinstance(run.recommended, Record) and not objectives:
        rows.append(("Recommended", _point(space.named(run.recommended.query.x))))
    rows.append(("Spent", f"{history.spent:g} of {values['capital']:g}{' seconds' if space.measured else ''}"))
    if run.stopped:
        rows.append(("Stopped", run.stopped))
    if run.forecast is not None:
        rows.append(("To come", str(run.forecast)))
    spending = history.spent_per_fidelity(space.num_fidelities)
    for stretch in space.stretches:
        m, part = stretch[-1], slice(stretch.start, stretch.stop)
        count, spent = sum(values["queries_per_fidelity"][part]), math.fsum(spending[part])
        known = run.explained is not None and m != space.target
        share = f", explains {run.explained[m]:.0%} of the target's variance" if run.explained and known else ""
        queries = f"{count} {'query' if count == 1 else 'queries'}"
        rows.append((f"  {space.stretch_name(stretch)}", f"{spent:g} for {queries}{share}"))
    failed = history.select(Status.FAILED)
    rows.append(("Failed", str(len(failed))))
    if pending := len(history.pending):
        rows.append(("Pending", str(pending)))
    if failed:
        rows.append(("  the last", failed[-1].reason.partition("\n")[0]))
    seconds = (values["decision_seconds"], values["evaluation_seconds"])
    rows.append(("Time", f"{seconds[0]:.1f} s deciding, {seconds[1]:.1f} s evaluating"))
    return pairs(rows)


def _best(run: Summary) -> str:
    """The best value, or why there is none."""
    space, value = run.problem.space, run.values["best_value"]
    if value is not None:
        at = f" at {space.fidelity_name(space.target)}" if space.fidelities else ""
        return styled(f"{value:.8g}{at}", "green")
    none = "none that is feasible" if space.limits else "none"
    if space.measured or run.history.spent + space.costs[-1] <= run.settings["capital"]:
        return f"{none} at the target yet"
    return f"{none}: the target costs {space.costs[-1]:g} a query, no longer paid"


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


def _numbers(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:.5g}" for name, value in values.items())


def compared(comparison: Comparison) -> Shown:
    """A comparison as a table: for each problem the strategies, the best first."""
    settings, problems, curves, total, _ = comparison
    metric = settings["metric"]
    done = sum(len(runs) for runs in curves.values())
    lines = [f"{done} of {total} runs begun or finished"]
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


def _point(parameters: dict[str, Any] | None) -> str:
    if parameters is None:
        return "-"
    return ", ".join(f"{name} = {format_value(value)}" for name, value in parameters.items())
