"""``mfbo completion``."""

from __future__ import annotations

import shtab

from mfbo_torch.app.cli.commands import choices, parser
from mfbo_torch.app.schema import COMPARE, RUN


def show(shell: str) -> int:
    """Print a script for a shell, with every setting of a run and a comparison."""
    known = parser()
    for command in (RUN, COMPARE):
        into = choices(known)[command.name]
        into.add_argument("config", metavar="CONFIG", nargs="?", help="YAML file").complete = shtab.FILE  # type: ignore[attr-defined]
        for name, setting in command.settings.items():
            into.add_argument(f"--{name.replace('_', '-')}", help=setting.help)
    print(shtab.complete(known, shell))
    return 0
