"""``mfbo init``."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import TypeVar

from mfbo_torch.app.cli.terminal import say
from mfbo_torch.app.run_folder import writable
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import write_text

T = TypeVar("T")
PARAMETER = "a name and two bounds, as in rate:1e-5:0.1:log or width:16:512:integer"
QUESTIONS = {
    "objective": ("Your function, MODULE:FUNCTION", "objective:evaluate"),
    "parameters": ("Its parameters, NAME:LOWER:UPPER[:log][:integer], blanks between", "x:0:1 width:16:512:integer"),
    "costs": ("What an evaluation costs at each fidelity, the target last", "1,10"),
    "capital": ("What may be spent, in the same unit", "100"),
}

CONFIG = Template("""\
# mfbo run $file spends the capital; run again, it goes on where it stopped.
problem:
  class_path: mfbo_torch.problems.UserProblem
  init_args:
    # A function f(parameters, fidelity) that returns a number, looked for in the current folder first.
    # parameters is a mapping of names to values; fidelity counts from 0, the cheapest.
    objective: $objective
    # log: true searches the logarithm, integer: true whole numbers.
    parameters:
$parameters
    # One increasing cost a fidelity, the target last. A single one: no cheap approximation.
    # Or "measured", the seconds each evaluation takes, with num_fidelities: 2 beside it.
    costs: $costs
    maximize: $maximize
strategy:
  # mfbo run --strategy.help MFGPUCB explains its settings.
  class_path: mfbo_torch.strategies.MFGPUCB
# What may be spent in all, in the unit of the costs.
capital: $capital
# The seed of every random choice: the same seed, the same decisions.
seed: 0
# Settings of evaluating, as they are unless set:
# workers: 1          # processes that evaluate at once
# timeout: null       # seconds after which an evaluation is ended, and failed
# retries: 0          # how often one that failed is tried again
# warm_start: null    # a CSV file of observations to begin with
out: runs/$name
""")

OBJECTIVE = Template('''\
"""What is optimised; replace the body of the function by your own."""


def $function(parameters, fidelity):
    """$better is better. fidelity counts from 0, the cheapest, to $target, the target."""
    distance = sum((value - $middle[name]) ** 2 / $width[name] ** 2 for name, value in parameters.items())
    return $sign(distance + 0.1 * ($target - fidelity))
''')


def init(
    file: str,
    objective: str | None,
    parameters: list[str] | None,
    costs: str | None,
    capital: str | None,
    minimize: bool,
) -> int:
    """Write a commented config, and a function to begin with where there is none yet.

    On a terminal, a question asks for each value that is not given; elsewhere it is the one that is suggested.
    """
    path = Path(file)
    if path.suffix not in (".yaml", ".yml"):
        raise SettingError("file", file, "a name that ends with .yaml")
    if os.path.lexists(path):
        raise SettingError("file", file, "a new file; this one exists")
    place = _answer("objective", objective, _place)
    bounds = _answer("parameters", None if parameters is None else " ".join(parameters), _parameters)
    levels = _answer("costs", costs, _costs)
    amount = _answer("capital", capital, lambda text: _capital(text, levels))
    config = CONFIG.substitute(
        file=file,
        objective=place,
        parameters="\n".join(f"      {name}: {{{', '.join(parts)}}}" for name, parts in bounds.items()),
        costs=f"[{', '.join(f'{cost:g}' for cost in levels)}]",
        maximize=str(not minimize).lower(),
        capital=f"{amount:g}",
        name=path.stem,
    )
    with writable("file", path, "file"):
        write_text(path, config)
    say(f"{path}  the settings")
    module, _, function = place.partition(":")
    source = Path(*module.split(".")).with_suffix(".py")
    if not os.path.lexists(source) and not Path(*module.split(".")).is_dir() and "." not in module:
        ends = {name: [float(part.partition(": ")[2]) for part in parts[:2]] for name, parts in bounds.items()}
        text = OBJECTIVE.substitute(
            function=function,
            better="Smaller" if minimize else "Larger",
            target=len(levels) - 1,
            middle={name: (lower + upper) / 2 for name, (lower, upper) in ends.items()},
            width={name: upper - lower for name, (lower, upper) in ends.items()},
            sign="" if minimize else "-",
        )
        with writable("objective", source, "file"):
            write_text(source, text)
        say(f"{source}  a function to begin with; put your own in its place")
    say()
    say(f"next: mfbo run {path}")
    return 0


def _answer(name: str, given: str | None, read: Callable[[str], T]) -> T:
    question, suggested = QUESTIONS[name]
    if given is not None or not sys.stdin.isatty():
        return read(suggested if given is None else given)
    while True:
        try:
            return read(input(f"{question} [{suggested}]: ").strip() or suggested)
        except SettingError as error:
            say(error)
        except EOFError:
            raise SettingError(name, None, f"given as --{name.removesuffix('s')}, or answered") from None


def _place(text: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", text):
        raise SettingError("objective", text, "like module:function")
    return text


def _parameters(text: str) -> dict[str, list[str]]:
    """For each name its settings as they are written in YAML."""
    found: dict[str, list[str]] = {}
    for part in text.split():
        name, *rest = part.split(":")
        ends, kinds = [_number(end) for end in rest[:2]], rest[2:]
        known = {"log": ends[:1] > [0.0], "integer": all(end == round(end) for end in ends if end is not None)}
        if not name.isidentifier() or name in found or len(ends) < 2 or None in ends or not all(map(known.get, kinds)):
            raise SettingError("parameter", part, PARAMETER)
        lower, upper = (end for end in ends if end is not None)
        if lower >= upper:
            raise SettingError("parameter", part, f"{PARAMETER}, the smaller bound first")
        written = [f"{end:.0f}" if "integer" in kinds else repr(end) for end in (lower, upper)]
        found[name] = [f"lower: {written[0]}", f"upper: {written[1]}", *(f"{kind}: true" for kind in kinds)]
    if not found:
        raise SettingError("parameter", text, PARAMETER)
    return found


def _costs(text: str) -> list[float]:
    costs = [_number(part) for part in text.split(",")]
    found = [cost for cost in costs if cost is not None and cost > 0]
    if len(found) < len(costs) or any(a >= b for a, b in pairwise(found)):
        raise SettingError("costs", text, "increasing positive numbers, as in 1,10")
    return found


def _capital(text: str, costs: list[float]) -> float:
    found = _number(text)
    if found is None or found < costs[0]:
        raise SettingError("capital", text, f"a number from {costs[0]:g} on, the cost of the cheapest evaluation")
    return found


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
