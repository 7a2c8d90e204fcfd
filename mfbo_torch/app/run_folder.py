"""What a folder of results holds, read and written without loading a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mfbo_torch.app.schema import COMPARE, RUN, read_mapping
from mfbo_torch.app.setting_types import read, read_all
from mfbo_torch.history import History
from mfbo_torch.history.storage.beside import beside as beside_journal
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.history.storage.lock import locked
from mfbo_torch.utils import safe_yaml
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import write_text

CONFIG, JOURNAL, SUMMARY, PICTURE = "config.yaml", "history.sqlite", "summary.json", "progress.png"
LOG, TRIALS, JOBS, SAID = "run.log", "trials", "jobs", "run.out"
KNOWN = "problem.json"
"""Where runs kept what is now noted beside the journal."""
DEEPEST = 50
"""Folders within folders that are looked into."""
_NOTED: dict[str, Any] = {
    "finished": bool,
    "capital": float,
    "spent": float,
    "stopped": str | None,
    "best_value": float | None,
    "best_parameters": dict | None,
    "recommended": dict | None,
}
"""What is read of a summary, and its types."""
_SOLUTION: dict[str, Any] = {
    "parameters": dict[str, bool | int | float | str],
    "values": dict[str, float],
    "deviations": dict[str, float | None],
    "labels": list[str],
}
"""What is read of each design on a front."""


def recorded(out: Path) -> History:
    """What the journal of a folder holds."""
    with Journal(out / JOURNAL, read_only=True) as journal:
        return journal.history()


def runs(out: Path) -> bool:
    """Whether a process has the journal open for writing, or this system cannot tell."""
    return locked(out / JOURNAL)


def noted(out: Path) -> dict[str, Any]:
    """The summary of a folder; empty where there is none yet, a ``SettingError`` where it lacks what is read of it."""
    path = out / SUMMARY
    if not path.exists():
        return {}
    again = "the run that is continued writes it anew"
    try:
        found = read_mapping(path, "summary")
    except SettingError as error:
        if "YAML" not in error.allowed:
            raise
        raise SettingError("summary", str(path), f"a JSON file of what a run has found; {again}") from error
    for name, kind in _NOTED.items():
        if name not in found:
            raise SettingError("summary", str(path), f"one with {name}; {again}")
        found[name] = read(f"summary.{name}", found[name], kind)
    if found["recommended"] is not None:
        read("summary.recommended.parameters", found["recommended"].get("parameters"), dict)
    if "front" in found:
        found["front"] = [_solution(one, i) for i, one in enumerate(read("summary.front", found["front"], list))]
        if len({tuple(one["values"]) for one in found["front"]}) > 1:
            raise SettingError("summary", str(path), "one whose designs on the front have the same objectives")
    return found


def _solution(one: Any, place: int) -> dict[str, Any]:
    """A design on the front of a summary."""
    name = f"summary.front.{place}"
    found = read(name, one, dict)
    return {**found, **{key: read(f"{name}.{key}", found.get(key), kind) for key, kind in _SOLUTION.items()}}


def settings_of(out: Path) -> dict[str, Any]:
    """The settings of the run or the comparison in a folder, those of classes as they are."""
    found = read_mapping(out / CONFIG, "folder")
    return read_all(found, (COMPARE if "strategies" in found else RUN).settings)


def finished(out: Path, capital: float | None = None) -> bool:
    """Whether the run of a folder has come to its end, and that of a capital, the one it has now if not given."""
    summary = noted(out)
    if capital is None and summary:
        capital = read_mapping(out / CONFIG, "folder").get("capital")
    return bool(summary.get("finished")) and summary.get("capital") == capital


def stopped(out: Path, history: History) -> str:
    """Why the run of a folder ended before its capital was spent; empty where it did not, or has gone on since."""
    summary = noted(out)
    return str(summary.get("stopped") or "") if summary.get("spent") == history.spent else ""


def beside(out: Path, name: str) -> Path:
    """Where a command writes by default: in the folder of a run, or beside a journal, with its name in front."""
    return beside_journal(out, name) if out.is_file() else out / name


def compares(out: Path) -> bool:
    """Whether a folder holds a comparison, not a run; a journal holds a run."""
    return not out.is_file() and "strategies" in read_mapping(out / CONFIG, "folder")


def within(folder: Path) -> Iterator[Path]:
    """The folders below one that hold a run or a comparison; those of a comparison's own runs are not among them."""
    for place, inner, files in os.walk(folder):
        if len(Path(place).parts) - len(folder.parts) >= DEEPEST:
            inner.clear()
        if CONFIG in files:
            inner.clear()
            yield Path(place)


def changed(out: Path) -> float:
    """When something was last written, in seconds since the epoch; 0 where nothing there can be looked at."""
    times = [0.0]
    for name in (CONFIG, JOURNAL, SUMMARY):
        with suppress(OSError):
            times.append((out / name).stat().st_mtime)
    return max(times)


def chosen(folder: str | None, usage: str, single: bool = False, journal: bool = False) -> Path:
    """The folder of a command, or a ``journal``: the one given, the current one if it is a run's, else the newest in
    ``runs``, or of a ``single`` run there."""
    if folder is None:
        if Path(CONFIG).is_file() and Path(JOURNAL).is_file():
            return Path()
        found = (out for out in within(Path("runs")) if not (single and compares(out)))
        newest = max(found, key=changed, default=None)
        if newest is None:
            raise SettingError("folder", folder, f"one folder, as in {usage}; there is none in runs yet")
        return newest
    if not Path(folder).is_dir() and not (journal and Path(folder).is_file()):
        raise SettingError("folder", folder, "an existing folder" + " or journal" * journal)
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
        write_text(out / CONFIG, safe_yaml.dump(dict(settings)))
