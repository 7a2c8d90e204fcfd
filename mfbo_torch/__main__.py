"""``mfbo`` and ``python -m mfbo_torch``: the command line, loaded when it is called and not by each worker process."""

from __future__ import annotations

import sys
import threading

PATIENCE = 1.0
"""Seconds in which a thread may end before it is said that it is waited for."""


def main() -> int:
    """Run the command of the process's arguments; see :func:`mfbo_torch.app.cli.main`. Ctrl-C while it loads or ends
    gives no traceback."""
    try:
        return _main()
    except KeyboardInterrupt:
        print("mfbo: interrupted", file=sys.stderr)
        return 130


def _left_behind() -> str:
    """The name of a thread that Python waits for at its end, if one still runs after a second."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(PATIENCE)
            if thread.is_alive():
                return thread.name
    return ""


def _main() -> int:
    from mfbo_torch.app import cli
    from mfbo_torch.utils import output_streams

    output_streams.tolerate_broken_output()
    code = cli.main()
    sys.stdout.flush()
    if lost := getattr(sys.stdout, "lost", ""):
        output_streams.say(f"The output could not be written: {lost}")
    if left := _left_behind():
        output_streams.say(f"Waiting for a thread that the objective has left behind, {left}; Ctrl-C ends it")
    return code or int(bool(lost))


if __name__ == "__main__":
    raise SystemExit(main())
