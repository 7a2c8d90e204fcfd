"""``mfbo`` and ``python -m mfbo_torch``: the command line, loaded when it is called and not by each worker process."""

from __future__ import annotations


def main() -> int:
    """Run the command of the process's arguments; see :func:`mfbo_torch.cli.main`."""
    from mfbo_torch import cli

    return cli.main()


if __name__ == "__main__":
    raise SystemExit(main())
