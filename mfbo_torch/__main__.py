"""``mfbo`` and ``python -m mfbo_torch``: the command line, loaded when it is called and not by each worker process."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command of the process's arguments; see :func:`mfbo_torch.app.cli.main`. Ctrl-C while it loads or ends
    gives no traceback."""
    try:
        return _main()
    except KeyboardInterrupt:
        print("mfbo: interrupted", file=sys.stderr)
        return 130


def _main() -> int:
    from mfbo_torch.app import cli
    from mfbo_torch.utils import output_streams

    output_streams.tolerate_broken_output()
    code = cli.main()
    sys.stdout.flush()
    if lost := getattr(sys.stdout, "lost", ""):
        output_streams.say(f"The output could not be written: {lost}")
    return code or int(bool(lost))


if __name__ == "__main__":
    raise SystemExit(main())
