"""``mfbo list``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from mfbo_torch.app import run_folder
from mfbo_torch.app.cli.terminal import say, table
from mfbo_torch.app.digest import class_name, knee
from mfbo_torch.utils.errors import SettingError

HEAD = ("folder", "problem", "strategy", "seed", "best value", "spent", "queries", "last written", "state")


def show(folder: str) -> int:
    """Print the runs and comparisons in a folder, the newest first."""
    place = Path(folder)
    if not place.is_dir():
        raise SettingError("folder", folder, "an existing folder, as in mfbo list runs")
    found = sorted(run_folder.within(place), key=run_folder.changed, reverse=True)
    say(table(HEAD, [_row(out) for out in found]) if found else f"no run in {place} yet")
    return 0


def _row(out: Path) -> list[str]:
    try:
        when = datetime.fromtimestamp(run_folder.changed(out)).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):  # a year that no calendar has
        when = ""
    try:
        *cells, state = _cells(out)
    except (SettingError, OSError) as error:
        cells, state = [""] * 6, f"unreadable: {' '.join(str(error).split())}"
    return [str(out), *cells, when, state]


def _cells(out: Path) -> list[str]:
    settings = run_folder.settings_of(out)
    if "strategies" in settings:
        entries = [settings["problem"], *(settings["problems"] or [])]
        problems = ", ".join(class_name(entry) for entry in entries if entry is not None)
        state = f"{len(list(out.glob(f'*/*/*/{run_folder.JOURNAL}')))} runs begun"
        return [problems, f"{len(settings['strategies'])} strategies", "", "", "", "", state]
    history = run_folder.recorded(out) if (out / run_folder.JOURNAL).exists() else ()
    summary = run_folder.noted(out) if run_folder.finished(out) else {}
    spent = getattr(history, "spent", 0.0)
    return [
        *(class_name(settings["problem"]), class_name(settings["strategy"]), str(settings["seed"])),
        _best(summary),
        f"{spent:g} of {settings['capital']:g}",
        str(len(history)),
        "finished" if summary else "not finished",
    ]


def _best(summary: Mapping[str, Any]) -> str:
    """The best value; of several objectives those of the knee, by name; empty where there is none."""
    if "front" in summary:
        return ", ".join(f"{name} {value:.6g}" for name, value in (knee(summary["front"]) or {}).items())
    return "" if summary.get("best_value") is None else f"{summary['best_value']:.6g}"
