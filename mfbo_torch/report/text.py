"""What the page says in plain HTML: the headline, the best design, figures, reasons of failures."""

from __future__ import annotations

import html
import json
from collections import Counter
from typing import Any

from mfbo_torch.experiment import Experiment, advice
from mfbo_torch.history import Recommendation, Record, Status

MOST_REASONS = 20


def headline(summary: dict[str, Any]) -> str:
    best = summary["best_value"]
    return "No value at the target yet" if best is None else f"Best value {best:.6g}"


def aside(run: Experiment) -> str:
    """Where the best value comes from and what is known to be possible."""
    problem, best = run.problem, run.history.best(run.problem.space.target)
    goal = "largest" if problem.maximize else "smallest"
    parts = [f"the {goal} at the target" + ("" if best is None else f", query {best.id}")]
    if problem.optimum is not None:
        parts.append(f"the optimum is {problem.optimum:.6g}")
    return "; ".join(parts)


def design(run: Experiment) -> str:
    """The best design, and the recommended one where it is another, or where values are noisy."""
    best, advised = run.history.best(run.problem.space.target), advice(run)
    parts = []
    if best is not None:
        parts.append(_parameters("Best parameters", best.query.x, run))
    if isinstance(advised, Record) and (best is None or advised.query.x != best.query.x):
        parts.append(_parameters("Recommended parameters", advised.query.x, run))
    if isinstance(advised, Recommendation) and advised.best is not None:
        parts.append(_parameters("Recommended parameters", advised.x, run))
        parts.append(f"<p>{_expected(advised, run)}</p>")
    return "".join(parts)


def _expected(advised: Recommendation, run: Experiment) -> str:
    """What the model makes of noisy values."""
    space = run.problem.space
    value = f"{run.problem.signed(advised.mean):.6g} ± {advised.deviation:.2g}"
    noise = [f"{noise:.2g} at {space.fidelity_name(m)}" for m, noise in enumerate(advised.noise) if noise is not None]
    return html.escape(f"Without noise {value} is expected there. Noise (standard deviation): {', '.join(noise)}.")


def _parameters(title: str, x: tuple[float, ...], run: Experiment) -> str:
    space = run.problem.space
    named = space.named(x)
    items = []
    for parameter in space.parameters:
        kinds = [word for word, holds in (("log", parameter.log), ("integer", parameter.integer)) if holds]
        extent = ", ".join([f"{parameter.lower:g} to {parameter.upper:g}", *kinds])
        value = named[parameter.name]
        items.append(
            f"<div><dt>{html.escape(parameter.name)}</dt><dd>{value:.6g}</dd><dd class=extent>{extent}</dd></div>"
        )
    digits = html.escape(json.dumps(named, ensure_ascii=False))
    return (
        f"<h2>{title}</h2><dl class=design>{''.join(items)}</dl>"
        f"<details><summary>All digits</summary><pre>{digits}</pre></details>"
    )


def facts(run: Experiment, summary: dict[str, Any]) -> str:
    """Figures of the run, a short name over each."""
    history, unit = run.history, " s" if run.problem.space.measured else ""
    figures = [
        ("Capital spent", f"{_amount(summary['spent'])} of {_amount(summary['capital'])}{unit}"),
        ("Queries", f"{len(history):,}"),
        ("Failed", f"{summary['failures']:,}"),
        ("Pending", f"{len(history.pending):,}"),
        ("Time deciding", _duration(summary["decision_seconds"])),
        ("Time evaluating", _duration(summary["evaluation_seconds"])),
    ]
    space, told = run.problem.space, summary["explained"] or []
    for m, (share, spent) in enumerate(zip(told[:-1], history.spent_per_fidelity(space.num_fidelities), strict=False)):
        name = html.escape(space.fidelity_name(m))
        figures.append((f"Target's variance explained by {name}", f"{share:.0%}, for {_amount(spent)}{unit}"))
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures)


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.6g}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def failures(run: Experiment) -> str:
    """The reasons of failures, the most frequent first."""
    failed = run.history.select(Status.FAILED)
    if not failed:
        return "<p>No query failed.</p>"
    counts = Counter(r.reason for r in failed)
    rows = []
    for reason, count in counts.most_common(MOST_REASONS):
        ids = [r.id for r in failed if r.reason == reason]
        which = f"{ids[0]}" if count == 1 else f"{ids[0]} to {ids[-1]}"
        text = html.escape(reason) or "no reason given"
        rows.append(f"<tr><td>{count:,}</td><td>{which}</td><td><pre>{text}</pre></td></tr>")
    more = len(counts) - len(rows)
    rest = f"<p>{more:,} more reasons are in the table of records.</p>" if more else ""
    head = "<tr><th scope=col>Times</th><th scope=col>Queries</th><th scope=col>Reason</th></tr>"
    table = f"<table class=reasons><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<div class=box tabindex=0>{table}</div>{rest}"
