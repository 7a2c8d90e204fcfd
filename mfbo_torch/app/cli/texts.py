"""A run and a comparison in a few lines of text."""

from __future__ import annotations

import math
import statistics
from typing import Any

from mfbo_torch.app.cli.terminal import pairs, styled, table
from mfbo_torch.app.compare import Comparison
from mfbo_torch.app.regret_curves import final, optimum_of
from mfbo_torch.app.summary import Summary
from mfbo_torch.history import Recommendation, Status
from mfbo_torch.space.parameter import format_value


def told(run: Summary) -> str:
    """A run in a few lines."""
    summary, space = run.values, run.problem.space
    rows = [("Problem", summary["problem"])]
    rows.append(("Strategy", f"{summary['strategy']}, seed {summary['seed']}"))
    paid = space.measured or run.history.spent + space.costs[-1] <= summary["capital"]
    sought = "none that is feasible" if space.limits else "none"
    unpaid = f"{sought}: the target costs {space.costs[-1]:g} a query, no longer paid"
    none = f"{sought} at the target yet" if paid else unpaid
    best = summary["best_value"]
    at = f" at {space.fidelity_name(space.target)}" if space.fidelities else ""
    rows.append(("Best value", none if best is None else styled(f"{best:.8g}", "green") + at))
    rows.append(("at", _point(summary["best_parameters"])))
    for name, kept in summary.get("constraints", {}).items():
        there = "" if kept["at_best"] is None else f"{name} = {kept['at_best']:.5g} there; "
        rows.append(("with", f"{there}{kept['limit']} in {kept['kept']} of {kept['of']}"))
    advised = run.recommended
    if isinstance(advised, Recommendation):
        expected = f"{run.problem.signed(advised.mean):.5g} ± {advised.deviation:.2g} is expected"
        if advised.feasible is not None:
            expected += f", feasible with probability {advised.feasible:.3g}"
        rows.append(("Recommended", f"{_point(run.recommended_parameters)}, where {expected}"))
        known = [
            f"{noise:.2g} at {space.fidelity_name(m)}" for m, noise in enumerate(advised.noise) if noise is not None
        ]
        if known:
            rows.append(("Noise", f"{', '.join(known)} (standard deviations)"))
    elif advised is not None:
        rows.append(("Recommended", _point(space.named(advised.query.x))))
    rows.append(("Spent", f"{summary['spent']:g} of {summary['capital']:g}{' seconds' if space.measured else ''}"))
    if summary["stopped"]:
        rows.append(("Stopped", summary["stopped"]))
    if run.forecast is not None:
        rows.append(("To come", str(run.forecast)))
    spending, explained = run.history.spent_per_fidelity(space.num_fidelities), summary["explained"]
    for stretch in space.stretches:
        m, part = stretch[-1], slice(stretch.start, stretch.stop)
        count, spent = sum(summary["queries_per_fidelity"][part]), math.fsum(spending[part])
        told = (
            "" if explained is None or m == space.target else f", explains {explained[m]:.0%} of the target's variance"
        )
        queries = f"{count} {'query' if count == 1 else 'queries'}"
        rows.append((f"  {space.stretch_name(stretch)}", f"{spent:g} for {queries}{told}"))
    rows.append(("Failed", str(summary["failures"])))
    if pending := len(run.history.pending):
        rows.append(("Pending", str(pending)))
    failed = run.history.select(Status.FAILED)
    if failed:
        rows.append(("  the last", failed[-1].reason.partition("\n")[0]))
    seconds = (summary["decision_seconds"], summary["evaluation_seconds"])
    rows.append(("Time", f"{seconds[0]:.1f} s deciding, {seconds[1]:.1f} s evaluating"))
    return pairs(rows)


def compared(comparison: Comparison) -> str:
    """A comparison as a table: for each problem the strategies, the best first."""
    settings, problems, curves, total, _ = comparison
    metric = settings["metric"]
    done = sum(len(runs) for runs in curves.values())
    lines = [f"{done} of {total} runs begun or finished"]
    for name, problem in problems.items():
        regret = "simple regret" if metric == "simple" else "cumulative regret / capital"
        lines += ["", f"{name}: median {'best value' if optimum_of(problem) is None else regret} at the end"]
        ends: list[tuple[float, str, int, int]] = []
        for (of, label), runs in curves.items():
            if of == name:
                values = [final(run, problem, metric) for run in runs.values()]
                known = [value for value in values if not math.isnan(value)]
                ends.append((statistics.median(known or [math.nan]), label, len(known), len(values)))
        sign = 1 if optimum_of(problem) is not None or not problem.maximize else -1
        rows = []
        for median, label, found, count in sorted(ends, key=lambda end: (end[2] == 0, sign * end[0], end[1])):
            part = "" if found == count else f"{found} of "
            rows.append((label, f"{median:.5g}", f"{part}{count} {'seed' if count == 1 else 'seeds'}"))
        kind = "best value" if optimum_of(problem) is None else "regret"
        lines.append(table(("strategy", kind, "of"), rows, indent="  "))
    return "\n".join(lines)


def _point(parameters: dict[str, Any] | None) -> str:
    texts = [f"{name} = {format_value(value)}" for name, value in (parameters or {}).items()]
    return "-" if parameters is None else ", ".join(texts)
