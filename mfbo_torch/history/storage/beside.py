"""The names of the files beside a journal."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".sqlite", ".sqlite3", ".db")
"""What these names leave out."""


def beside(journal: Path, ending: str) -> Path:
    """A path beside a journal, with its name in front, which may have a point in it, as ``lr0.1`` and ``lr0.5`` do."""
    return journal.with_name(f"{journal.stem if journal.suffix in SUFFIXES else journal.name}.{ending}")


def digest_path(journal: Path) -> Path:
    """Where a run keeps what it is about."""
    return beside(journal, "digest.json")
