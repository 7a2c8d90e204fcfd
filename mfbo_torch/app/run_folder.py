"""What a folder of results holds, read and written without loading a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from mfbo_torch.app.schema import read_mapping
from mfbo_torch.history import History
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import write_text

CONFIG, JOURNAL, SUMMARY, PICTURE = "config.yaml", "history.sqlite", "summary.json", "progress.png"
LOG, KNOWN, TRIALS = "run.log", "problem.json", "trials"


def recorded(out: Path) -> History:
    """What the journal of a folder holds."""
    with Journal(out / JOURNAL, read_only=True) as journal:
        return journal.history()


def noted(out: Path) -> dict[str, Any]:
    """The summary of a folder; empty where there is none yet."""
    path = out / SUMMARY
    return read_mapping(path, "summary") if path.exists() else {}


def finished(out: Path, capital: float | None = None) -> bool:
    """Whether the run of a folder has come to its end, and that of a capital, the one it has now if not given."""
    summary = noted(out)
    if capital is None and summary:
        capital = read_mapping(out / CONFIG, "folder")["capital"]
    return bool(summary.get("finished")) and summary.get("capital") == capital


def stopped(out: Path, history: History) -> str:
    """Why the run of a folder ended before its capital was spent; empty where it did not, or has gone on since."""
    summary = noted(out)
    return str(summary.get("stopped") or "") if summary.get("spent") == history.spent else ""


def compares(out: Path) -> bool:
    """Whether a folder holds a comparison, not a run."""
    return "strategies" in read_mapping(out / CONFIG, "folder")


def within(folder: Path) -> Iterator[Path]:
    """The folders below one that hold a run or a comparison; those of a comparison's own runs are not among them."""
    for place, inner, files in os.walk(folder):
        if CONFIG in files:
            inner.clear()
            yield Path(place)


def changed(out: Path) -> float:
    """When something was last written, in seconds since the epoch."""
    return max((out / name).stat().st_mtime for name in (CONFIG, JOURNAL, SUMMARY) if (out / name).exists())


def chosen(folder: str | None, usage: str) -> Path:
    """The folder that a command is about: the one given, or the newest in ``runs``."""
    if folder is None:
        newest = max(within(Path("runs")), key=changed, default=None)
        if newest is None:
            raise SettingError("folder", folder, f"one folder, as in {usage}; there is none in runs yet")
        return newest
    if not Path(folder).is_dir():
        raise SettingError("folder", folder, "an existing folder")
    return Path(folder)


@contextmanager
def writable(setting: str, path: Path, kind: str) -> Iterator[None]:
    """Where a file or folder is written that a setting names; one that cannot be written is a wrong setting."""
    try:
        yield
    except OSError as error:
        raise SettingError(setting, str(path), f"a {kind} that can be written: {error.strerror or error}") from error


def write_settings(settings: Mapping[str, Any], out: Path) -> None:
    """Put the settings of a run or a comparison into its folder."""
    with writable("out", out, "folder"):
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / CONFIG, yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))
