"""Ctrl-C, twice: the first one lets things end, the second ends them."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pulled_by_ctrl_c() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C; the second is a :class:`KeyboardInterrupt`."""
    brake = threading.Event()

    def pull(*_: object) -> None:
        if brake.is_set():
            raise KeyboardInterrupt
        brake.set()
        print("\nfinishing what is in flight; Ctrl-C again stops at once", file=sys.stderr, flush=True)

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield brake
        return
    signal.signal(signal.SIGINT, pull)
    try:
        yield brake
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
