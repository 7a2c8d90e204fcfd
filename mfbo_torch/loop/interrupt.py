"""Ctrl-C in a run: the first one ends it after the evaluations in flight, the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mfbo_torch.utils import output_streams


@contextmanager
def stop_on_ctrl_c() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second raises :class:`KeyboardInterrupt`."""
    interrupted = threading.Event()

    def handle(*_: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        output_streams.say("\nfinishing what is in flight; Ctrl-C again stops at once")

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupted
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
