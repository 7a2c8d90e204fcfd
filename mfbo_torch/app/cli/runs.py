"""``mfbo run`` and ``mfbo compare``."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mfbo_torch.app import run_folder
from mfbo_torch.app.cli import BROKEN, CONTINUES, INTERRUPTED, complain
from mfbo_torch.app.cli.terminal import say, warn_of_formulas
from mfbo_torch.app.schema import CLASSES, COMPARE, RUN, Command, flags, help_of, settings_of_command

DETACH = "--detach"
"""The flag of a run that goes on without its terminal."""


def run(arguments: list[str]) -> int:
    """Spend a capital, or continue."""
    if DETACH in arguments:
        return _start(RUN, (left := [a for a in arguments if a != DETACH]), partial(_detach, left))
    return _start(RUN, arguments, _run)


def compare(arguments: list[str]) -> int:
    """Run strategies side by side, or continue."""
    return _start(COMPARE, arguments, _compare)


def _start(command: Command, arguments: list[str], spend: Callable[[Mapping[str, Any]], int]) -> int:
    """Print the help that is asked for, or spend what the settings say; classes may be in the current folder."""
    if text := _help(command, arguments):
        for line in text.splitlines():
            say(line)
        return 0
    settings = settings_of_command(command, arguments)
    from mfbo_torch.loop.early_failures import Hopeless

    _current_folder_first()
    try:
        return spend(settings)
    except Hopeless as error:
        advice = "raise --capital or take a new --out" if error.spent else "the same command continues"
        return complain(f"{error}; {advice} once that is repaired", BROKEN)


def _run(settings: Mapping[str, Any]) -> int:
    from mfbo_torch.app import experiment
    from mfbo_torch.app.cli.texts import described

    summary = experiment.execute(experiment.prepare(settings))
    say(described(summary))
    say(f"Picture       {Path(settings['out']) / run_folder.PICTURE}")
    return 0 if summary.finished or summary.stopped else complain(CONTINUES, INTERRUPTED)


def _detach(arguments: list[str], settings: Mapping[str, Any]) -> int:
    """Start the run in a process that outlives this one and its terminal, once it is known that it can start; when this
    returns its folder can be read."""
    from mfbo_torch.app import experiment

    out = experiment.prepare(settings).out
    with run_folder.writable("out", out, "folder"):
        out.mkdir(parents=True, exist_ok=True)
        said = (out / run_folder.SAID).open("ab")
        begun = said.seek(0, os.SEEK_END)
    before = _version(out / run_folder.CONFIG)
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said, "start_new_session": True}
    with said:
        driver = subprocess.Popen([sys.executable, "-m", "mfbo_torch", "run", *arguments], **how)
    while driver.poll() is None and _version(out / run_folder.CONFIG) == before:  # written by who has the journal
        time.sleep(0.05)
    if driver.returncode:
        with (out / run_folder.SAID).open("rb") as file:
            file.seek(begun)
            reasons = re.findall("mfbo: (.*)", file.read().decode(errors="replace"))
        return complain(reasons[-1] if reasons else f"{out / run_folder.SAID} says why it ended", driver.returncode)
    say(f"Process       {driver.pid}; it writes to {Path(settings['out']) / run_folder.SAID}")
    say(f"Follow        mfbo show {shlex.quote(settings['out'])} --follow")
    return 0


def _version(path: Path) -> tuple[int, int]:
    """What differs once a file is written anew."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def _compare(settings: Mapping[str, Any]) -> int:
    from mfbo_torch.app import compare
    from mfbo_torch.app.cli.texts import compared
    from mfbo_torch.app.tabular_io import is_formula

    comparison = compare.compare(settings)
    say(compared(comparison))
    say()
    if comparison.curves:
        say(f"Picture: {Path(settings['out']) / compare.PICTURE}")
    risky = any(map(is_formula, settings["strategies"]))
    warn_of_formulas(Path(settings["out"]) / compare.TABLE, ["strategy"] if risky else [])
    for error in comparison.errors:
        complain(error, BROKEN)
    return BROKEN if comparison.errors else 0


def _help(command: Command, arguments: list[str]) -> str:
    """What ``--help``, ``--problem.help CLASS`` and ``--strategy.help CLASS`` print; empty where nothing is asked."""
    if not {"-h", "--help"}.isdisjoint(arguments):
        return help_of(command)
    for name, text in flags(arguments) if command is RUN else []:
        setting, _, inner = name.partition(".")
        if setting in CLASSES and inner == "help":
            from mfbo_torch.app.builder import explain_class

            _current_folder_first()
            return explain_class(setting, text)
    return ""


def _current_folder_first() -> None:
    """Let class paths be found in the current folder."""
    from mfbo_torch.problems.user.function import first_on_path

    first_on_path(os.getcwd())
