"""``mfbo list``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from mfbo_torch.app import digest, run_folder
from mfbo_torch.app.cli.terminal import say, table
from mfbo_torch.history import History
from mfbo_torch.history.storage.beside import digest_path
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
        problems = ", ".join(digest.class_name(entry) for entry in entries if entry is not None)
        begun = len(list(out.glob(f"*/*/*/{run_folder.JOURNAL}")))
        return [problems, ", ".join(settings["strategies"]), "", "", "", "", f"runs begun: {begun}"]
    journal, finished = out / run_folder.JOURNAL, run_folder.finished(out)
    history = run_folder.recorded(out) if finished or journal.exists() else History()
    summary = run_folder.noted(out) if finished else {}
    return [
        *(digest.class_name(settings["problem"]), digest.class_name(settings["strategy"]), str(settings["seed"])),
        _best(summary or _so_far(journal, history, settings)),
        f"{history.spent:g} of {settings['capital']:g}",
        str(len(history)),
        "finished" if summary else "not finished",
    ]


def _so_far(journal: Path, history: History, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an unfinished run has come to; empty where what is kept beside its journal is not of it."""
    known = digest.read(digest_path(journal))
    with suppress(*digest.WRONG):
        if known is not None and digest.fits(known, history):
            objectives = {"front": digest.front_of(known, history)} if known.get("objectives") else {}
            return digest.values_of(known, history, settings) | objectives
    return {}


def _best(summary: Mapping[str, Any]) -> str:
    """The best value; of several objectives those of the knee, by name; empty where there is none."""
    if "front" in summary:
        return ", ".join(f"{name} {value:.6g}" for name, value in (digest.knee(summary["front"]) or {}).items())
    return "" if summary.get("best_value") is None else f"{summary['best_value']:.6g}"
