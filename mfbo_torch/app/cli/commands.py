"""Which commands there are, and what they take."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NoReturn

from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.version import __version__

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
EPILOG = "mfbo COMMAND --help explains one of them, mfbo run --strategy.help MFGPUCB the settings of a strategy."


class _Misused(Exception):
    """Arguments that a command does not take; the message says what it does."""


class _Parser(argparse.ArgumentParser):
    """What is wrong is told by :class:`_Misused`."""

    def error(self, message: str) -> NoReturn:
        usage = self.format_usage().strip().removeprefix("usage: ")
        raise _Misused(f"as in {usage} ({message})")


def parser() -> argparse.ArgumentParser:
    """What ``mfbo`` understands, but for the settings of a run and a comparison."""
    top = _Parser(prog="mfbo", description="Tune what is expensive with the help of what is cheap.", epilog=EPILOG)
    top.add_argument("--version", action="version", version=f"mfbo-torch {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=_Parser)

    def command(name: str, does: str, help: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        found.set_defaults(does=does)
        return found

    def folder(
        of: argparse.ArgumentParser, help: str = "folder of a run; the current or the newest in runs if not given"
    ) -> None:
        of.add_argument("folder", metavar="DIR", nargs="?", help=help)

    command("run", "runs:run", "spend a capital on a problem, or continue")
    command("compare", "runs:compare", "strategies side by side, or continue")
    show = command("show", "results:show", "what a folder holds, finished or not")
    folder(show, "folder of a run or a comparison, or a journal; the current or the newest in runs if not given")
    kind = show.add_mutually_exclusive_group()
    kind.add_argument("--follow", action="store_true", help="go on until the run ends")
    kind.add_argument("--html", action="store_true", help="write it as a page")
    kind.add_argument("--output", metavar="N", type=int, help="what the evaluation of query N has printed")
    kind.add_argument("--curves", action="store_true", help="draw the learning curves of its trainings")
    listing = command("list", "listing:show", "the runs and comparisons in a folder, the newest first")
    listing.add_argument("folder", metavar="DIR", nargs="?", default="runs", help="where to look; runs if not given")
    best = command("best", "results:best", "the best parameters of a run and their value")
    folder(best, "folder of a run, or a journal; the current or the newest in runs if not given")
    best.add_argument("--json", dest="as_json", action="store_true", help="as JSON")
    serve = command("serve", "serve:serve", "a page that follows a run, on this machine alone")
    folder(serve)
    serve.add_argument("--host", metavar="NAME", default="127.0.0.1", help="where to listen; 127.0.0.1 if not given")
    serve.add_argument("--port", metavar="NUMBER", default="0", help="any free one if not given")
    why = command("why", "why:why", "why a query was made, what was expected of it and what came of it")
    folder(why, "folder of a run, or a journal; the current or the newest in runs if not given")
    why.add_argument("query", metavar="N", help="its number, as in the table of the run")
    export = command("export", "results:export", "the observations of a run or a comparison as a table")
    folder(export, "folder of a run or a comparison, or a journal; the current or the newest in runs if not given")
    table = "NAME.csv or NAME.parquet; history.csv in DIR, or beside a journal, if not given"
    export.add_argument("file", metavar="FILE", nargs="?", help=table)
    export.add_argument(
        "--to", metavar="optuna", choices=("optuna",), help="a study that optuna-dashboard opens, FILE.db"
    )
    init = command("init", "start:init", "write a commented config for your own objective; asks for what is not given")
    init.add_argument("file", metavar="FILE", nargs="?", default="mine.yaml", help="mine.yaml if not given")
    init.add_argument("--objective", metavar="MODULE:FUNCTION", help="what to optimise, such as objective:evaluate")
    init.add_argument(
        *("--parameter", "-p"),
        dest="parameters",
        metavar="NAME:LOWER:UPPER[:log][:integer]|NAME:CHOICE,...",
        action="append",
    )
    init.add_argument("--program", metavar="COMMAND", help="a program in the place of a function, '{x}' for a value")
    costs = "of each fidelity, the target last; or its name and values, epochs:3,9,27"
    levels = init.add_mutually_exclusive_group()
    levels.add_argument("--costs", "--fidelities", dest="costs", metavar="COST[,COST...]", help=costs)
    levels.add_argument(
        "--epochs", metavar="N", help="of a training that reports each epoch, in the place of fidelities"
    )
    init.add_argument("--capital", metavar="NUMBER", help="what may be spent, in the unit of the costs")
    goal = init.add_mutually_exclusive_group()
    goal.add_argument("--minimize", action="store_true", help="smaller values are better")
    goal.add_argument(
        "--maximize", action="store_true", help="larger values are better, as without either where it does not ask"
    )
    repair = command("repair", "results:repair", "save what is good in a damaged journal as a new one")
    repair.add_argument("journal", metavar="DIR|JOURNAL", help="a run's folder, or its journal")
    repair.add_argument("new", metavar="NEW", nargs="?", help="JOURNAL.repaired.sqlite if not given")
    completion = command("completion", "completing:show", "the script that lets a shell complete commands")
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    return top


def parse(argv: list[str]) -> dict[str, Any] | None:
    """The function of a command, as ``does``, and what it is called with; ``None`` where help was printed."""
    known, name = parser(), argv[0] if argv else "--help"
    commands = choices(known)
    if not name.startswith("-") and name not in commands:
        raise SettingError("command", name, f"one of {', '.join(commands)}{did_you_mean(name, commands)}")
    if name in ("run", "compare"):
        return {"does": commands[name].get_default("does"), "arguments": argv[1:]}
    try:
        given, more = known.parse_known_args(argv or ["--help"])
    except SystemExit:  # help or version was printed
        return None
    except _Misused as misused:
        raise SettingError("arguments", " ".join(argv[1:]), str(misused)) from None
    if more or name not in commands:
        flags = [flag for action in commands.get(name, known)._actions for flag in action.option_strings]
        wanted = f"left out, or one of {', '.join(flags)}{did_you_mean(more[0], flags)}" if more else ""
        raise SettingError("argument", more[0] if more else name, wanted)
    return {key: value for key, value in vars(given).items() if key != "command"}


def choices(known: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command."""
    actions = [action for action in known._actions if isinstance(action, argparse._SubParsersAction)]
    found: Mapping[str, argparse.ArgumentParser] = actions[0].choices
    return found
