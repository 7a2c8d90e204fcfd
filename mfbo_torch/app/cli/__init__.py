"""The command line: ``mfbo run``, ``mfbo show`` and the others, each loaded when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from importlib import import_module

from mfbo_torch.app.cli import commands
from mfbo_torch.app.cli.terminal import say, styled
from mfbo_torch.history.storage.journal import DiskFull
from mfbo_torch.utils.errors import SettingError

WRONG_SETTING, BROKEN, INTERRUPTED = 2, 1, 130
CONTINUES = "interrupted; the same command continues"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, with the arguments of the process if none are given; the standard error says what went wrong.

    The code is 0; 1 if a run broke down or only failed; 2 if a setting cannot work; 130 if interrupted.
    """
    try:
        given = commands.parse(list(sys.argv[1:] if argv is None else argv))
        if given is None:
            return 0
        module, _, function = given.pop("does").partition(":")
        code: int = getattr(import_module(f"mfbo_torch.app.cli.{module}"), function)(**given)
        return code
    except (DiskFull, BrokenExecutor) as error:
        return complain(error, BROKEN)
    except SettingError as error:
        return complain(error, WRONG_SETTING)
    except OSError as error:  # a name that is too long, a disk that cannot be read
        return complain(f"{error.filename or 'a file'}: {error.strerror or error}", BROKEN)
    except KeyboardInterrupt:
        return complain(CONTINUES, INTERRUPTED)


def complain(what: object, code: int) -> int:
    """Say in one line on the standard error what went wrong; gives ``code`` back."""
    say(styled("mfbo:", "red", sys.stderr), " ".join(str(what).split()), stream=sys.stderr)
    return code
