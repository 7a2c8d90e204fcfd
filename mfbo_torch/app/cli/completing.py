"""``mfbo completion``."""

from __future__ import annotations

import shtab

from mfbo_torch.app.cli.commands import choices, parser
from mfbo_torch.app.schema import compare_parser, names, outer_parser


def show(shell: str) -> int:
    """Print a script for a shell, with every setting of a run and a comparison."""
    known = parser()
    for name, settings in (("run", outer_parser()), ("compare", compare_parser())):
        command = choices(known)[name]
        command.add_argument("config", metavar="CONFIG", nargs="?", help="YAML file").complete = shtab.FILE  # type: ignore[attr-defined]
        helps = {action.dest: action.help for action in settings._actions}
        for setting in names(settings):
            command.add_argument(f"--{setting.replace('_', '-')}", help=(helps[setting] or "").partition(" (")[0])
    print(shtab.complete(known, shell))
    return 0
