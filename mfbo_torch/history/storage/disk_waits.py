"""Writing while the disk is full."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat
from typing import TypeVar

from mfbo_torch.history.storage.journal import DiskFull
from mfbo_torch.utils.output_streams import logger, say

T = TypeVar("T")
LOG = logger(__name__)
DISK_WAITS = (1.0, 5.0, *repeat(30.0, 20))
"""Seconds between attempts to store a value while the disk is full: ten minutes in all."""


def when_disk_has_room(write: Callable[[], T]) -> T:
    """Write to the journal; while the disk is full, wait and try again."""
    for seconds in DISK_WAITS:
        try:
            return write()
        except DiskFull as error:
            LOG.error("%s; trying again in %g s", error, seconds)
            say(f"mfbo: {error}; trying again in {seconds:g} s, nothing is lost")
            time.sleep(seconds)
    return write()
