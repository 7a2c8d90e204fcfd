"""Puts this folder on the import path: the tests below it share ``tolerances`` and ``dense``."""

import signal


def pytest_configure() -> None:
    """Hear Ctrl-C, which a job in the background of a shell is started deaf to, and its children with it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
