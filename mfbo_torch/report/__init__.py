"""A run as one HTML page that needs nothing else: no network, no server, no other file.

The page holds plotly.js and every record, both compressed; what can be read without a script is
plain HTML. Names and reasons of failures are text wherever they are shown, whatever is in them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
from collections import Counter
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import torch
import yaml
from torch import Tensor

from mfbo_torch import experiment
from mfbo_torch.errors import SettingError
from mfbo_torch.experiment import Experiment
from mfbo_torch.history import Record, Status
from mfbo_torch.runner import describe

GRID = 81
"""Designs along each slice."""

NEAR, MOST_NEAR = 0.05, 200
"""How far from a slice, in the unit cube, observations are drawn beside it, and at most how many."""

MOST_REASONS = 20


def write(run: Experiment, path: Path) -> Path:
    """Write the page of a run, finished or not.

    Args:
        run: What :func:`mfbo_torch.experiment.load` gives.
        path: Where to write it; a file there is replaced.

    Returns:
        ``path``.

    Raises:
        SettingError: plotly is not installed, or ``path`` cannot be written.
    """
    page = render(run)
    try:
        experiment.write(path, page)
    except OSError as error:
        raise SettingError("html", str(path), f"a file that can be written: {error.strerror}") from error
    return path


def render(run: Experiment) -> str:
    """The text of the page.

    Raises:
        SettingError: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        hint = "left out, or plotly installed: pip install mfbo-torch[report]"
        raise SettingError("html", True, hint) from None
    summary = experiment.summarise(run)
    data = _packed(json.dumps(content(run), allow_nan=False, separators=(",", ":")))
    best = summary["best_value"]
    texts = {
        "title": f"{summary['problem']}, " + ("no value at the target yet" if best is None else f"best value {best:.6g}"),
        "run": f"{summary['problem']} with {summary['strategy']}, seed {summary['seed']}",
        "headline": "No value at the target yet" if best is None else f"Best value {best:.6g}",
        "aside": _aside(run),
        "settings": yaml.safe_dump(dict(run.settings), sort_keys=False, allow_unicode=True),
        "versions": f"mfbo-torch {summary['versions']['mfbo_torch']}",
    }
    parts = {name: files(__package__).joinpath(f"page.{name}").read_text("utf-8") for name in ("html", "css", "js")}
    return Template(parts["html"]).substitute(
        {name: html.escape(text) for name, text in texts.items()},
        design=_design(run),
        facts=_facts(run, summary),
        failures=_failures(run),
        style=parts["css"],
        script=parts["js"],
        plotly=_packed(get_plotlyjs()),
        data=data,
        nonce=hashlib.sha256(data.encode()).hexdigest()[:32],
    )


def content(run: Experiment) -> dict[str, Any]:
    """Everything the page draws, as JSON values: the space, the records by column, the slices.

    Values are in the problem's own sign, and records exact but for times, which are in whole
    microseconds.
    """
    problem, history = run.problem, run.history
    space = problem.space
    best = history.best(space.target)
    return {
        "maximize": problem.maximize,
        "optimum": problem.optimum,
        "measured": space.measured,
        "best": None if best is None else best.id,
        "parameters": [
            {"name": p.name, "lower": p.lower, "upper": p.upper, "log": p.log, "integer": p.integer}
            for p in space.parameters
        ],
        "fidelities": [
            {"name": "target" if m == space.target else f"fidelity {m}", "cost": None if space.measured else cost}
            for m, cost in enumerate(space.costs)
        ],
        "records": {
            "x": [
                [round(r.query.x[i]) if p.integer else r.query.x[i] for r in history]
                for i, p in enumerate(space.parameters)
            ],
            "fidelity": [r.query.fidelity for r in history],
            "value": [None if r.value is None else problem.signed(r.value) for r in history],
            "cost": [r.cost for r in history],
            "status": [str(r.status) for r in history],
            "deciding": [round(r.decision_seconds, 6) for r in history],
            "evaluating": [round(r.evaluation_seconds, 6) for r in history],
            "reason": {r.id: r.reason for r in history.select(Status.FAILED)},
        },
        "slices": slices(run),
    }


def slices(run: Experiment) -> dict[str, Any]:
    """What the strategy's model says along each parameter through the best design.

    Returns:
        ``{"through": id, "fidelity": m, "panels": [...]}``, for each parameter the designs
        ``"x"``, ``"mean"`` and ``"deviation"`` of each fidelity (``None`` where the model says
        nothing of it) and the ids of observations near the line; or ``{"missing": why}``.
    """
    problem, strategy, history = run.problem, run.strategy, run.history
    space = problem.space
    found = [best for m in range(space.num_fidelities) if (best := history.best(m)) is not None]
    if not found:
        return {"missing": "There is no observation yet."}
    through = found[-1]
    x = torch.tensor(through.query.x, dtype=torch.double)
    lines = _lines(run, x)
    try:
        believed = strategy.predict(history, torch.cat(lines))
    except Exception as error:  # a device that is not here, a model that cannot be made
        return {"missing": f"The model could not be made here: {describe(error)}"}
    if believed is None:
        return {"missing": f"{type(strategy).__name__} has no model of the objective."}
    sizes, sign = [len(line) for line in lines], problem.signed(1.0)
    means, deviations = (sign * believed[0]).split(sizes), believed[1].split(sizes)
    panels = []
    for i, (line, mean, deviation, near) in enumerate(zip(lines, means, deviations, _near(run, x), strict=True)):
        levels = [(_rounded(mean[:, m]), _rounded(deviation[:, m])) for m in range(space.num_fidelities)]
        known = [None if None in level[0] else {"mean": level[0], "deviation": level[1]} for level in levels]
        panels.append({"x": line[:, i].tolist(), "levels": known, "near": near})
    return {"through": through.id, "panels": panels}


def _lines(run: Experiment, x: Tensor) -> list[Tensor]:
    """For each parameter the designs on the line through ``x``, which is one of them."""
    space = run.problem.space
    axes = space.from_unit(torch.linspace(0.0, 1.0, GRID, dtype=torch.double).unsqueeze(-1).expand(-1, space.dim))
    lines = []
    for i in range(space.dim):
        places = torch.cat([axes[:, i], x[i : i + 1]]).unique()
        line = x.repeat(len(places), 1)
        line[:, i] = places
        lines.append(line)
    return lines


def _near(run: Experiment, x: Tensor) -> list[list[int]]:
    """For each parameter the ids of the observations nearest to the line through ``x``."""
    space, done = run.problem.space, run.history.done
    designs = torch.tensor([r.query.x for r in done], dtype=torch.double)
    gaps = (space.to_unit(designs) - space.to_unit(x)).abs()
    chosen = []
    for i in range(space.dim):
        others = gaps.clone()
        others[:, i] = 0.0
        distance, order = others.amax(dim=-1).sort(stable=True)
        inside = order[distance <= NEAR][:MOST_NEAR]
        chosen.append([done[k].id for k in inside.tolist()])
    return chosen


def _rounded(values: Tensor) -> list[float | None]:
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]


def _packed(text: str) -> str:
    """A text for the browser's ``DecompressionStream``; its alphabet has no meaning in HTML."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _aside(run: Experiment) -> str:
    """Where the best value comes from and what is known to be possible."""
    problem, best = run.problem, run.history.best(run.problem.space.target)
    goal = "largest" if problem.maximize else "smallest"
    parts = [f"the {goal} at the target" + ("" if best is None else f", query {best.id}")]
    if problem.optimum is not None:
        parts.append(f"the optimum is {problem.optimum:.6g}")
    return "; ".join(parts)


def _design(run: Experiment) -> str:
    """The best design, and the recommended one where it is another."""
    space, best = run.problem.space, run.history.best(run.problem.space.target)
    advised = run.strategy.recommend(run.history)
    rows = [("Best parameters", best)]
    if advised is not None and (best is None or advised.query.x != best.query.x):
        rows.append(("Recommended parameters", advised))
    return "".join(_parameters(title, record, run) for title, record in rows if record is not None) + (
        "" if rows[-1][1] is not None else f"<p>{space.dim} parameters to be found.</p>"
    )


def _parameters(title: str, record: Record, run: Experiment) -> str:
    space = run.problem.space
    named = space.named(record.query.x)
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


def _facts(run: Experiment, summary: dict[str, Any]) -> str:
    """Figures of the run, a short name over each."""
    history, unit = run.history, " s" if run.problem.space.measured else ""
    facts = [
        ("Capital spent", f"{_amount(summary['spent'])} of {_amount(summary['capital'])}{unit}"),
        ("Queries", f"{len(history):,}"),
        ("Failed", f"{summary['failures']:,}"),
        ("Pending", f"{len(history.pending):,}"),
        ("Time deciding", _duration(summary["decision_seconds"])),
        ("Time evaluating", _duration(summary["evaluation_seconds"])),
    ]
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.6g}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _failures(run: Experiment) -> str:
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
    return f"<div class=box tabindex=0><table class=reasons><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table></div>{rest}"
