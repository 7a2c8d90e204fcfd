"""``mfbo show``, ``mfbo best``, ``mfbo export`` and ``mfbo repair``."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from mfbo_torch.app import run_folder
from mfbo_torch.app.cli.terminal import pairs, say, warn_of_formulas
from mfbo_torch.history.storage.repair import salvage
from mfbo_torch.utils.errors import SettingError

FOLLOW_SECONDS = 1.0
"""Between two looks at a run that is going on."""


def show(folder: str | None, follow: bool, html: bool, curves: bool) -> int:
    """Print what a folder holds, or write it as a page, or draw its learning curves."""
    out = run_folder.chosen(folder, "mfbo show runs/mine")
    compares = run_folder.compares(out)
    if compares and (follow or html or curves):
        raise SettingError("folder", str(out), "that of a single run where --follow, --html or --curves is given")
    from mfbo_torch.app import compare, experiment
    from mfbo_torch.app.cli import texts

    if folder is None:
        say(out)
        say()
    if compares:
        say(texts.compared(compare.load(out)))
        return 0
    run = experiment.load(out)
    if html:
        from mfbo_torch.app import report

        say(f"Page          {report.write(run, out / 'report.html')}")
        return 0
    if curves:
        say(f"Picture       {experiment.draw_curves(run, out / 'curves.png')}")
        return 0
    say(texts.described(run))
    while follow and not run_folder.finished(out):
        time.sleep(FOLLOW_SECONDS)
        seen, run = run.history, replace(run, history=run_folder.recorded(out))
        if run.history != seen:
            say()
            say(texts.described(run))
    return 0


def best(folder: str | None, as_json: bool) -> int:
    """Print the best parameters of a run and their value."""
    out = run_folder.chosen(folder, "mfbo best runs/mine")
    if run_folder.compares(out):
        raise SettingError("folder", str(out), "that of a single run; this one holds a comparison")
    summary = _summary(out)
    found: dict[str, Any] = {
        "folder": str(out),
        "value": summary["best_value"],
        "parameters": summary["best_parameters"],
        **{
            name: summary[name]
            for name in ("front", "recommended", "constraints", "spent", "capital")
            if name in summary
        },
        "finished": run_folder.finished(out),
    }
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    if found.get("front"):
        from mfbo_torch.app.cli import texts

        say(texts.front(found["front"]))
        return 0
    value, parameters = found["value"], found["parameters"] or {}
    rows = [("value", "none at the target yet" if value is None else f"{value:.10g}")]
    rows += [(name, f"{given:.10g}" if isinstance(given, float) else str(given)) for name, given in parameters.items()]
    if found["recommended"] is not None:
        recommended = found["recommended"]["parameters"]
        rows.append(("recommended", ", ".join(f"{name} = {given}" for name, given in recommended.items())))
    say(pairs(rows, max(len(name) for name, _ in rows)))
    return 0


def _summary(out: Path) -> dict[str, Any]:
    """What a run has found: as it was noted at its end, or of what there is by now."""
    if run_folder.finished(out):
        return run_folder.noted(out)
    from mfbo_torch.app import experiment

    return experiment.load(out).values


def export(folder: str, file: str | None) -> int:
    """Write the observations of a run or a comparison as a table."""
    out = run_folder.chosen(folder, "mfbo export runs/mine")
    path = out / "history.csv" if file is None else Path(file)
    compares = run_folder.compares(out)
    from mfbo_torch.app import compare, experiment, tabular_io

    if compares:
        count, formulas = compare.export(out, path)
    else:
        run = experiment.load(out)
        count, formulas = len(run.history), tabular_io.write(run.history, run.problem, path)
    say(f"{count} records in {path}")
    warn_of_formulas(path, formulas)
    return 0


def repair(journal: str, new: str | None) -> int:
    """Save the good rows of a journal as a new one."""
    path = Path(journal)
    path = path / run_folder.JOURNAL if path.is_dir() else path
    saved = path.with_suffix(f".repaired{path.suffix}") if new is None else Path(new)
    say(f"{salvage(path, saved)} good rows in {saved}")
    say(f"{path} is as it was. To go on: remove {path}* and move {saved} there.")
    return 0
