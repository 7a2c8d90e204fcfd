"""Reads what a program has written, and searches it: ``python output_search.py PATTERN FILE MOST``.

The search is a process of its own, made of the standard library alone: some expressions take for ever, and only a
process can be ended then. It writes the last match, and exits with 3 where there is none.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys

NO_MATCH = 3


def content(path: str | os.PathLike[str], most: int) -> str:
    """The last bytes of a regular file as text; an ``OSError`` for a pipe or a device, which may never end."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        file.seek(max(0, found.st_size - most))
        return file.read(most).decode("utf-8", "replace")


def main(pattern: str, path: str, most: int) -> int:
    """Write the group of the last match in a file."""
    *_, match = None, *re.finditer(pattern, content(path, most), flags=re.MULTILINE)
    if match is None:
        return NO_MATCH
    sys.stdout.buffer.write((match[1] or "").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
