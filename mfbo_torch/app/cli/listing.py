"""``mfbo list``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from mfbo_torch.app import run_folder
from mfbo_torch.app.cli.terminal import say, table
from mfbo_torch.app.digest import class_name
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
    best, spent = None if "front" in summary else summary.get("best_value"), getattr(history, "spent", 0.0)
    return [
        *(class_name(settings["problem"]), class_name(settings["strategy"]), str(settings["seed"])),
        "" if best is None else f"{best:.6g}",
        f"{spent:g} of {settings['capital']:g}",
        str(len(history)),
        "finished" if summary else "not finished",
    ]
