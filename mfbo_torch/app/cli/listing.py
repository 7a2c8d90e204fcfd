"""``mfbo list``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from mfbo_torch.app import run_folder
from mfbo_torch.app.cli.terminal import say, table
from mfbo_torch.app.schema import read_mapping
from mfbo_torch.utils.errors import SettingError

HEAD = ("folder", "problem", "strategy", "seed", "best value", "spent", "queries", "state", "last written")


def show(folder: str) -> int:
    """Print the runs and comparisons in a folder, the newest first."""
    place = Path(folder)
    if not place.is_dir():
        raise SettingError("folder", folder, "an existing folder, as in mfbo list runs")
    found = sorted(run_folder.within(place), key=run_folder.changed, reverse=True)
    say(table(HEAD, [_row(out) for out in found]) if found else f"no run in {place} yet")
    return 0


def _row(out: Path) -> list[str]:
    when = datetime.fromtimestamp(run_folder.changed(out)).strftime("%Y-%m-%d %H:%M")
    try:
        return [str(out), *_cells(out), when]
    except SettingError as error:
        return [str(out), *[""] * 6, f"unreadable: {error.setting}", when]


def _cells(out: Path) -> list[str]:
    settings = read_mapping(out / run_folder.CONFIG, "folder")
    if "strategies" in settings:
        entries = [settings.get("problem"), *(settings.get("problems") or [])]
        problems = ", ".join(_name(entry) for entry in entries if entry is not None)
        state = f"{len(list(out.glob(f'*/*/*/{run_folder.JOURNAL}')))} runs begun"
        return [problems, f"{len(settings['strategies'])} strategies", "", "", "", "", state]
    history = run_folder.recorded(out) if (out / run_folder.JOURNAL).exists() else ()
    summary = run_folder.noted(out) if run_folder.finished(out) else {}
    best, spent = summary.get("best_value"), getattr(history, "spent", 0.0)
    return [
        *(_name(settings.get("problem")), _name(settings.get("strategy")), str(settings.get("seed", ""))),
        "" if best is None else f"{best:.6g}",
        f"{spent:g} of {settings.get('capital', 0):g}",
        str(len(history)),
        "finished" if summary else "not finished",
    ]


def _name(entry: Any) -> str:
    path = entry.get("class_path") if isinstance(entry, dict) else entry
    return str(path).rpartition(".")[2]
