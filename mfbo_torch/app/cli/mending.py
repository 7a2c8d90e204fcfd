"""``mfbo repair``."""

from __future__ import annotations

from pathlib import Path

from mfbo_torch.app.run_folder import JOURNAL
from mfbo_torch.history.storage.repair import salvage


def repair(journal: str, new: str | None) -> int:
    """Save the good rows of a journal as a new one."""
    path = Path(journal)
    path = path / JOURNAL if path.is_dir() else path
    saved = path.with_suffix(f".repaired{path.suffix}") if new is None else Path(new)
    print(f"{salvage(path, saved)} good rows in {saved}")
    print(f"{path} is as it was. To go on: remove {path}* and move {saved} there.")
    return 0
