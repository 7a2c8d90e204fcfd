"""Notes on the queries of a run, in a file of its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mfbo_torch.app.run_folder import writable
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import content, write_text
from mfbo_torch.utils.validation import describe, whole

FILE, LONGEST, MOST_BYTES = "notes.json", 10_000, 2**24
"""The file, the most characters of a note, and the most bytes of the file."""


def read(folder: Path) -> dict[int, str]:
    """The notes by the numbers of their queries; none where the file is no such file."""
    try:
        found = _stored(folder / FILE)
    except (OSError, ValueError, RecursionError):
        return {}
    return {int(id): text for id, text in found.items() if id.isdecimal() and len(id) < 12 and isinstance(text, str)}


def _stored(path: Path) -> dict[str, Any]:
    """What the file holds, be it notes or not; ``{}`` where there is no file, or a link, which a note replaces."""
    if path.is_symlink() or not path.exists():
        return {}
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    found = json.loads(content(path).decode())
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found


def write(folder: Path, id: int, text: str) -> None:
    """Keep a note on a query, or none where it is empty; the file is replaced at once.

    Raises:
        SettingError: The number is none, the text or all notes together are too long, or the file cannot be written, or
            not be read: its notes would be lost.
    """
    whole("id", id, 0)
    if not isinstance(text, str) or len(text) > LONGEST:
        raise SettingError(
            "note", text if isinstance(text, str) else type(text).__name__, f"at most {LONGEST:,} characters"
        )
    path = folder / FILE
    try:
        found = {**_stored(path), str(id): text.strip()}
    except (OSError, ValueError, RecursionError) as error:
        wanted = f"put right or moved away before a note is added: {describe(error)}"
        raise SettingError("notes", str(path), wanted) from error
    kept = {each: found[each] for each in sorted(found, key=lambda each: each.zfill(12)) if found[each]}
    written = json.dumps(kept, indent=1, ensure_ascii=True) + "\n"
    if len(written) > MOST_BYTES:
        wanted = f"so short that all notes have at most {MOST_BYTES:,} bytes"
        raise SettingError("note", f"{len(text)} characters", wanted)
    with writable("folder", folder, "folder"):
        write_text(path, written)
