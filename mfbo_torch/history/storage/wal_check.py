"""Check SQLite's write-ahead log, which a killed process leaves beside a journal, for damage. SQLite reads the log up
to the first frame with a wrong checksum and silently drops the rest, since a power failure may truncate the last
transaction. A wrong frame that is followed by more than that was damaged."""

from __future__ import annotations

import struct
import time
from pathlib import Path

from mfbo_torch.utils.files import content

HEADER, FRAME = 32, 24
"""Bytes of the log's header and of a frame's."""
PAUSE = 0.05
"""Seconds before a second check, as a log that is being written is restarted now and then."""


def damaged(path: Path) -> bool:
    """Whether committed transactions of a journal are lost behind damage in its log, the file with ``-wal`` at its end.
    Damage in the last transaction looks like one that a power failure has truncated."""
    if not _lost(path):
        return False
    time.sleep(PAUSE)
    return _lost(path)


def _lost(path: Path) -> bool:
    try:
        log = content(path.with_name(f"{path.name}-wal"))
    except FileNotFoundError:
        return False
    if len(log) <= HEADER:
        return False
    magic, _, page, _ = struct.unpack(">4I", log[:16])
    order = {0x377F0682: "<", 0x377F0683: ">"}.get(magic)
    size = FRAME + page
    if order is None or page not in (512 << i for i in range(8)):
        return len(log) > HEADER + FRAME
    sums = _added((0, 0), log[: HEADER - 8], order)
    if struct.pack(">2I", *sums) != log[HEADER - 8 : HEADER]:
        return True
    salts, starts = log[16:24], range(HEADER, len(log) - size + 1, size)
    for start in starts:
        frame = log[start : start + size]
        sums = _added(_added(sums, frame[:8], order), frame[FRAME:], order)
        if frame[8:16] == salts and struct.pack(">2I", *sums) == frame[16:FRAME]:
            continue
        rest = [log[i : i + FRAME] for i in range(start, len(log) - size + 1, size)]
        own = [i for i, found in enumerate(rest) if found[8:16] == salts]
        committed = [i for i in own if rest[i][4:8] != b"\0\0\0\0"]
        return bool(committed) and max(own) > min(committed)
    return False


def _added(sums: tuple[int, int], content: bytes, order: str) -> tuple[int, int]:
    """SQLite's running checksum after some more content, of a multiple of eight bytes."""
    first, second = sums
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for word in words:
        first = (first + word + second) & 0xFFFFFFFF
        second = (second + next(words) + first) & 0xFFFFFFFF
    return first, second
