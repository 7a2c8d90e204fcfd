"""What the page says in plain HTML: the headline, the best design, figures, reasons of failures."""

from __future__ import annotations

import html
import json
from collections import Counter

from mfbo_torch.app.summary import Summary
from mfbo_torch.history import Query, Recommendation, Record, Status
from mfbo_torch.loop.eta import duration
from mfbo_torch.loop.front.solutions import KNEE
from mfbo_torch.space.parameter import Parameter, format_value

MOST_REASONS, MOST_PARAMETERS = 20, 24


def headline(run: Summary) -> str:
    """The best value; of several objectives the knee's values."""
    best = run.problem.value_of(run.best)
    if run.front:
        knee = next(one for one in run.front if KNEE in one.labels)
        return ", ".join(f"{name} {value:.6g}" for name, value in knee.values.items())
    if best is None:
        return f"No {'feasible ' if run.problem.space.limits else ''}value at the target yet"
    return f"Best value {best:.6g}"


def aside(run: Summary) -> str:
    """Where the best value comes from and what is known to be possible."""
    problem, space = run.problem, run.problem.space
    goal = "largest" if problem.maximize else "smallest"
    target = space.fidelity_name(space.target) if space.fidelities else "the target"
    parts = [f"the {goal} at {target}" + ("" if run.best is None else f", query {run.best.id}")]
    if space.objectives:
        wanted = ", ".join(map(str, space.objectives))
        at = "" if run.best is None else f"the knee of a front of {len(run.front)} at {target}, query {run.best.id}; "
        parts = [f"{at}{wanted}"]
    if problem.optimum is not None:
        parts.append(f"the optimum is {problem.optimum:.6g}")
    return "; ".join(parts)


def design(run: Summary) -> str:
    """The best design, and the recommended one where it is another, or where values are noisy."""
    best, recommended = run.best, run.recommended
    parts = []
    if best is not None:
        parts.append(_parameters("Parameters of the knee" if run.front else "Best parameters", best.query.x, run))
    if isinstance(recommended, Record) and (best is None or recommended.query.x != best.query.x):
        parts.append(_parameters("Recommended parameters", recommended.query.x, run))
    if isinstance(recommended, Recommendation) and recommended.best is not None:
        noise = f" Noise (standard deviation): {run.noise}." if run.noise else ""
        parts.append(_parameters("Recommended parameters", recommended.x, run))
        parts.append(f"<p>{html.escape(f'Without noise, {run.expected} at this design.{noise}')}</p>")
    return "".join(parts)


def _parameters(title: str, x: tuple[float, ...], run: Summary) -> str:
    space = run.problem.space
    named = space.named(x)
    items = []
    for parameter in space.parameters:
        name, there = html.escape(parameter.name), parameter.name in named
        value = html.escape(format_value(named[parameter.name])) if there else "not there"
        extent = html.escape(_extent(parameter))
        items.append(f"<div><dt>{name}</dt><dd>{value}</dd><dd class=extent>{extent}</dd></div>")
    digits = html.escape(json.dumps(named, ensure_ascii=False))
    first, more = "".join(items[:MOST_PARAMETERS]), items[MOST_PARAMETERS:]
    if more:
        rest = f"<details><summary>{len(more):,} more</summary><dl class=design>{''.join(more)}</dl></details>"
    return (
        f"<h2>{title}</h2><dl class=design>{first}</dl>{rest if more else ''}"
        f"<details><summary>All digits</summary><pre>{digits}</pre></details>"
    )


def _extent(parameter: Parameter) -> str:
    if parameter.choices:
        return parameter.extent
    kinds = [word for word, holds in (("log", parameter.log), ("integer", parameter.integer)) if holds]
    return ", ".join([f"{parameter.lower:g} to {parameter.upper:g}", *kinds])


def facts(run: Summary) -> str:
    """Figures of the run, a short name over each."""
    history, space, values = run.history, run.problem.space, run.values
    unit = " s" if space.measured else ""
    figures = [
        ("Capital spent", f"{_amount(history.spent)} of {_amount(values['capital'])}{unit}"),
        ("Queries", f"{len(history):,}"),
        ("Failed", f"{values['failures']:,}"),
        ("Pending", f"{len(history.pending):,}"),
        ("Time deciding", duration(values["decision_seconds"])),
        ("Time evaluating", duration(values["evaluation_seconds"])),
    ]
    if run.stopped:
        figures.append(("Stopped", html.escape(run.stopped)))
    if run.forecast is not None:
        figures.append(("To come", str(run.forecast)))
    for kept in run.constraints.values():
        there = "" if kept["at_best"] is None else f", {kept['at_best']:.6g} at the best"
        figures.append((html.escape(kept["limit"]), f"{kept['kept']:,} of {kept['of']:,}{there}"))
    shares, spending = run.explained or [], history.spent_per_fidelity(space.num_fidelities)
    for m, (share, spent) in enumerate(zip(shares[:-1], spending, strict=False)):
        name = html.escape(space.fidelity_name(m))
        figures.append((f"Target's variance explained by {name}", f"{share:.0%}, for {_amount(spent)}{unit}"))
    figures += _costs(run)
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures)


def _costs(run: Summary) -> list[tuple[str, str]]:
    """What an evaluation takes at each fidelity, where that is measured: on the average, and at the best design."""
    space, strategy, history, best = run.problem.space, run.strategy, run.history, run.best
    if not space.measured or best is None:
        return []
    found = []
    means = strategy.costs(history)
    for m in (part[-1] for part in space.stretches):
        here = duration(strategy.cost(Query(best.query.x, m), history))
        name = html.escape(space.fidelity_name(m))
        found.append((f"An evaluation at {name}", f"{duration(means[m])}, {here} at the best design"))
    return found


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.6g}"


def failures(run: Summary) -> str:
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
