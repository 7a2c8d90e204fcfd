"""``mfbo init``."""

from __future__ import annotations

import json
import keyword
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mfbo_torch.app.cli.templates import (
    COMMAND,
    CONFIG,
    COSTS,
    EPOCHS,
    FUNCTION,
    MAIN,
    NAMED,
    SOURCE,
    TRAINED,
    TRAINING,
)
from mfbo_torch.app.cli.terminal import say
from mfbo_torch.app.run_folder import writable
from mfbo_torch.utils import safe_yaml
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import write_text
from mfbo_torch.utils.validation import name_of

T = TypeVar("T")
PARAMETER = "a name and two bounds, as in rate:1e-5:0.1:log or n:1:9:integer, or choices, as in kernel:rbf,linear"
QUESTIONS = {
    "goal": ("Are smaller or larger values better, minimize or maximize", "minimize"),
    "parameters": ("Its parameters, NAME:LOWER:UPPER[:log][:integer] or NAME:ONE,OTHER, blanks between", "x:0:1 y:0:1"),
    "costs": (
        "Its fidelities: their costs, the target's last, or a name and values, as in mesh:8,32, or epochs:27 where a "
        "training reports each epoch",
        "1,10",
    ),
    "capital": ("What may be spent, in the unit of the costs", "100"),
    "kind": ("Is it a function or a program", "function"),
    "objective": ("Your function, MODULE:FUNCTION", "objective:evaluate"),
    "command": ("Your program and its arguments, {NAME} for a value", ""),
}
Parameters = dict[str, dict[str, Any]]


class Levels(NamedTuple):
    """The fidelities: their costs, and a name and values where they have them; or ``epochs``, of a training."""

    costs: list[float]
    name: str = "fidelity"
    values: tuple[Any, ...] = ()
    epochs: int | None = None


def init(
    file: str,
    objective: str | None,
    parameters: list[str] | None,
    costs: str | None,
    capital: str | None,
    minimize: bool,
    maximize: bool = False,
    program: str | None = None,
    epochs: str | None = None,
) -> int:
    """Write a commented config, and a function or a program to begin with where there is none yet.

    On a terminal, a question asks for each value that is not given. Elsewhere it is the one that is suggested, and
    larger values are better.
    """
    path = Path(name_of("file", file))
    if path.suffix not in (".yaml", ".yml"):
        raise SettingError("file", file, "a name that ends with .yaml")
    if os.path.lexists(path):
        raise SettingError("file", file, "a new file; this one exists")
    if objective is not None and program is not None:
        raise SettingError("program", program, "left out where there is an objective")
    if epochs is not None:
        costs = f"epochs:{_epochs(epochs)}"
    given = "minimize" if minimize else "maximize" if maximize or not _asked() else None
    smaller = _answer("goal", given, _one_of("goal", "minimize", "maximize")) == "minimize"
    searched = _answer("parameters", None if parameters is None else " ".join(parameters), _parameters)
    levels = _answer("costs", costs, _levels)
    if levels.name in searched:
        raise SettingError("costs", costs, f"of a fidelity that is no parameter; {levels.name} is one")
    whole = levels.epochs
    amount = _answer("capital", capital, lambda text: _capital(text, levels.costs), str(12 * whole) if whole else "")
    if whole and program is not None:
        raise SettingError("program", program, "left out where each epoch is reported, which a function does")
    function = objective is not None or whole or not _asked()
    kind = "program" if program else "function" if function else None
    if _answer("kind", kind, _one_of("kind", "function", "program")) == "program":
        places = " ".join(f"{name}={{{name}}}" for name in [*searched, levels.name])
        samples = {key: form["choices"][0] if "choices" in form else form["lower"] for key, form in searched.items()}
        read = partial(_command, samples=samples, levels=levels)
        command = _answer("command", program, read, f"python {{start}}/simulate.py {places}")
        stated, source, name = COMMAND.substitute(command=json.dumps(command)), _script(command), "evaluate"
    else:
        place = _answer("objective", objective, _place)
        counted = "" if levels.values else "; fidelity counts from 0, the cheapest"
        form = TRAINING if whole else FUNCTION
        stated = form.substitute(fidelity=levels.name, counted=counted, place=place)
        module, _, name = place.partition(":")
        source = None if "." in module or Path(module).is_dir() else Path(module).with_suffix(".py")
    config = CONFIG.substitute(
        file=file,
        objective=stated,
        parameters="\n".join(f"      {_key(name)}: {json.dumps(form)}" for name, form in searched.items()),
        fidelities=_stated(levels),
        maximize=str(not smaller).lower(),
        strategy="FreezeThaw" if whole else "MFGPUCB",
        capital=f"{amount:.15g}",
        out=safe_yaml.dump(f"runs/{path.stem}").partition("\n")[0],
    )
    with writable("file", path, "file"):
        write_text(path, config)
    say(f"{path}  the settings; {'smaller' if smaller else 'larger'} values are better")
    asked = {"parameters": parameters, "costs": costs, "capital": capital}
    if not _asked() and (made_up := [name for name, text in asked.items() if text is None]):
        words = "is an example: put your own in its" if len(made_up) == 1 else "are examples: put your own in their"
        say(f"{' ' * len(str(path))}  {', '.join(made_up)} {words} place")
    if source is not None and not os.path.lexists(source):
        with writable("objective", source, "file"):
            write_text(source, _source(name, searched, levels, smaller, stated.lstrip().startswith("# A program")))
        say(f"{source}  to begin with; put your own in its place")
    say()
    say(f"next: mfbo run {shlex.quote(str(path))}")
    return 0


def _asked() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def _answer(name: str, given: str | None, read: Callable[[str], T], suggested: str = "") -> T:
    question, usual = QUESTIONS[name]
    suggested = suggested or usual
    if given is not None or not _asked():
        return read(suggested if given is None else given)
    while True:
        try:
            return read(input(f"{question} [{suggested}]: ").strip() or suggested)
        except SettingError as error:
            say(error)
        except EOFError:
            flag = {"goal": "minimize", "command": "program", "kind": "program"}.get(name, name.removesuffix("s"))
            raise SettingError(name, None, f"given as --{flag}, or answered") from None


def _stated(levels: Levels) -> str:
    """The fidelities as a config has them."""
    if levels.epochs:
        return EPOCHS.substitute(epochs=levels.epochs)
    if levels.values:
        return NAMED.substitute(name=_key(levels.name), values=json.dumps(levels.values))
    return COSTS.substitute(costs=f"[{', '.join(f'{cost:.15g}' for cost in levels.costs)}]")


def _key(name: str) -> str:
    """A name as a config has it, quoted where it would be read as something else, such as ``on``."""
    return safe_yaml.dump(name).partition("\n")[0]


def _source(function: str, searched: Parameters, levels: Levels, smaller: bool, program: bool) -> str:
    """A function to begin with, in a program where that is wanted."""
    numbers = {name: (form["lower"], form["upper"]) for name, form in searched.items() if "lower" in form}
    choices = {name: form["choices"] for name, form in searched.items() if "choices" in form}
    better = "Smaller" if smaller else "Larger"
    if levels.epochs:
        sign = "loss" if smaller else "-loss"
        return TRAINED.substitute(function=function, numbers=numbers, choices=choices, better=better, sign=sign)
    target = levels.values[-1] if levels.values else len(levels.costs) - 1
    counted = f"fidelity counts from 0, the cheapest, to {target}, the target."
    meaning = f"The target is {target}." if levels.values else counted
    text = SOURCE.substitute(
        imports="\nimport sys\n" if program else "",
        function=function,
        fidelity=levels.name,
        numbers=numbers,
        choices=choices,
        better=better,
        meaning=meaning,
        sign="" if smaller else "-",
        bias=f"(1 - {levels.name} / {target})" if levels.values else f"({target} - {levels.name})",
    )
    return text + (MAIN.substitute(fidelity=levels.name, function=function) if program else "")


def _script(command: list[str]) -> Path | None:
    """The script beside the config that a command runs, if it does."""
    found = [part.removeprefix("{start}/") for part in command if part.startswith("{start}/") and part.endswith(".py")]
    return Path(found[0]) if found and "/" not in found[0] else None


def _one_of(name: str, *words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        known = [word for word in words if text and word.startswith(text.lower())]
        if len(known) != 1:
            raise SettingError(name, text, f"one of {', '.join(words)}")
        return known[0]

    return read


def _command(text: str, samples: Mapping[str, Any], levels: Levels) -> list[str]:
    """The program and its arguments, which have a place for every parameter and for the fidelity."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SettingError("program", text, f"a program and its arguments: {error}") from None
    if not words:
        raise SettingError("program", text, "a program and its arguments, as in './simulate {x} {fidelity}'")
    from mfbo_torch.problems.user.program import FIDELITY, FOLDER, START, Program

    for taken in {START, FIDELITY, FOLDER} & {*samples}:
        raise SettingError("parameter", taken, "another name, this one is taken where a program is run")
    own = {levels.name: next(iter(levels.values), 0), FIDELITY: 0}
    needed = [*samples, *(["|".join(own)] if len(levels.costs) > 1 or levels.values else [])]
    Program(words).check({**samples, **own, FOLDER: ""}, needed)
    return words


def _place(text: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", text):
        raise SettingError("objective", text, "like module:function")
    return text


def _parameters(text: str) -> Parameters:
    """For each name its settings as a config has them."""
    found: Parameters = {}
    for part in text.split():
        name, *rest = part.split(":")
        if not name.isidentifier() or name in found or not rest:
            raise SettingError("parameter", part, PARAMETER)
        found[name] = _choices(part, rest[0]) if len(rest) == 1 and "," in rest[0] else _bounds(part, rest)
    if not found:
        raise SettingError("parameter", text, PARAMETER)
    return found


def _choices(part: str, text: str) -> dict[str, Any]:
    names = text.split(",")
    numbers = [_number(name) for name in names]
    found = [number for number in numbers if number is not None]
    texts = len(found) < len(names)
    if not all(names) or len({*(names if texts else found)}) < len(names):
        raise SettingError("parameter", part, f"{PARAMETER}, each once")
    return {"choices": names} if texts else {"choices": [_whole(number) for number in sorted(found)], "ordered": True}


def _bounds(part: str, rest: list[str]) -> dict[str, Any]:
    ends, kinds = [_number(end) for end in rest[:2]], rest[2:]
    if len(ends) < 2 or None in ends:
        raise SettingError("parameter", part, PARAMETER)
    lower, upper = (end for end in ends if end is not None)
    if not {*kinds} <= {"log", "integer"}:
        raise SettingError("parameter", part, PARAMETER)
    if lower >= upper:
        raise SettingError("parameter", part, f"{PARAMETER}, the smaller bound first")
    if "log" in kinds and lower <= 0:
        raise SettingError("parameter", part, f"{PARAMETER}, both bounds above 0 with log")
    if "integer" in kinds and (lower != round(lower) or upper != round(upper)):
        raise SettingError("parameter", part, f"{PARAMETER}, both bounds whole with integer")
    lower, upper = (round(lower), round(upper)) if "integer" in kinds else (lower, upper)
    return {"lower": lower, "upper": upper, **dict.fromkeys(kinds, True)}


def _levels(text: str) -> Levels:
    name, colon, values = text.partition(":")
    if not colon:
        return Levels(_increasing(text))
    if not name.isidentifier() or keyword.iskeyword(name) or name in ("parameters", "fidelity", "trial"):
        raise SettingError("costs", text, "increasing numbers, as in 1,10, or a name and values, as in epochs:3,9,27")
    if name == "epochs" and "," not in values:
        return Levels([1.0], name, epochs=_epochs(values))
    found = _increasing(values)
    return Levels(found, name, tuple(map(_whole, found)))


def _epochs(text: str) -> int:
    found = _number(text)
    if found is None or found < 2 or found != round(found):
        raise SettingError("epochs", text, "how many epochs a whole training has, a whole number from 2 on")
    return round(found)


def _increasing(text: str) -> list[float]:
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


def _whole(value: float) -> float:
    return round(value) if value == round(value) else value


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
