"""What evaluations have printed, in files beside a journal."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mfbo_torch.history.storage.beside import beside
from mfbo_torch.history.storage.captured_output import cut
from mfbo_torch.utils.files import content, write_text


def output_path(journal: Path, number: int) -> Path:
    """Where the output of a query is."""
    return beside(journal, "output") / f"{number:05d}.txt"


def keep(journal: Path, number: int, text: str, limit: int) -> None:
    """Keep the output of a query, at most ``limit`` characters; a run goes on without it."""
    if not limit or (path := output_path(journal, number)).parent.is_symlink():
        return
    with suppress(OSError):
        if not text:
            path.unlink(missing_ok=True)  # of an earlier attempt, or of a run whose journal was removed
            return
        path.parent.mkdir(exist_ok=True)
        write_text(path, cut(text, limit).encode("utf-8", "backslashreplace").decode())


def read(journal: Path, number: int) -> str | None:
    """The output of a query; ``None`` where none was kept."""
    path = output_path(journal, number)
    if path.parent.is_symlink() or path.is_symlink() or not path.is_file():
        return None
    return content(path).decode("utf-8", "replace")
