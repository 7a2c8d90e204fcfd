"""Through how many modules does a decision lead, and through how many an observed value?

Calls are traced. A module takes part in a decision where one of its functions holds the history, and in the way of a
value where one holds the value, or a record or an observation with it, between the objective's return and the moment
when its record is in the history. Functions count when they are entered, with their arguments, and when they end, with
all that they hold.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

from mfbo_torch import History, Journal, Observation, Optimizer, Parameter, Record, Space, minimize, strategies
from mfbo_torch.problems import Hartmann3

PACKAGE = "mfbo_torch"
OBSERVATIONS = {"MFGPUCB": 45, "GPBUCB": 25}
"""Before the decision that is looked at: a few more than the initial design has."""
VALUE = 0.7310585786300049
"""A value that comes from nowhere else."""
Seen = Callable[[FrameType, str], object]
"""Takes a frame of the package and the event, ``"call"`` or ``"return"``."""


class Way(NamedTuple):
    """A way through the package.

    Args:
        modules: Those on it, in alphabetical order.
        functions: What was called there, ``module.function``, in the order of first calls.
        stays: How often it comes into a module from another one.
        circles: Pairs of modules, the first of which calls the second, and is called by it in the end.
    """

    modules: list[str]
    functions: list[str]
    stays: int
    circles: list[tuple[str, str]]


class _Trace:
    """Collects a path while calls are traced."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, str]] = []
        self.pairs: set[tuple[str, str]] = set()

    def add(self, frame: FrameType) -> None:
        module, caller = _module(frame), _caller(frame)
        if caller is not None and _module(caller) != module:
            self.pairs.add((_module(caller), module))
        self.entered.append((module, frame.f_code.co_qualname))

    def path(self) -> Way:
        modules = [module for module, _ in self.entered]
        stays = sum(a != b for a, b in zip(["", *modules], modules, strict=False))
        functions = list(dict.fromkeys(f"{module}.{name}" for module, name in self.entered))
        on_it = {pair for pair in self.pairs if {*pair} <= {*modules}}
        circles = sorted(pair for pair in on_it if pair[0] in _reached(pair[1], on_it))
        return Way(sorted({*modules}), functions, stays, circles)


def way_of_a_decision(strategy: str = "MFGPUCB", observations: int | None = None, records: bool = False) -> Way:
    """The way of the history through a decision on Hartmann3.

    Args:
        strategy: Its name, as in :mod:`mfbo_torch.strategies`.
        observations: How many there are before it; :data:`OBSERVATIONS` if not given.
        records: Whether functions count too that hold a record, or a list of records, of it.
    """
    torch.set_num_threads(1)
    problem, way = Hartmann3(), _Trace()
    space = problem.space if strategy == "MFGPUCB" else Space(problem.space.parameters, (1.0,))
    optimizer = Optimizer(getattr(strategies, strategy)(space=space, capital=20 * space.costs[-1]))
    for _ in range(OBSERVATIONS.get(strategy, 25) if observations is None else observations):
        record = optimizer.ask()[0]
        fidelity = record.query.fidelity if space is problem.space else problem.space.target
        optimizer.tell(record.id, problem.reward(record.query.x, fidelity))

    def seen(frame: FrameType, event: str) -> None:
        if any(isinstance(held, History) or (records and _has_records(held)) for held in frame.f_locals.values()):
            way.add(frame)

    with traced(seen):
        optimizer.ask()
    return way.path()


def modules_of_a_decision(strategy: str = "MFGPUCB") -> list[str]:
    """The modules that see the history while a query is decided."""
    return way_of_a_decision(strategy).modules


def way_of_a_value(journal: bool = False) -> Way:
    """The way of a value from the objective to its record in :func:`mfbo_torch.minimize`.

    Args:
        journal: Whether the history is kept in a file.
    """
    torch.set_num_threads(1)
    way, on_its_way, calls = _Trace(), False, 0

    def objective(width: float, rate: float) -> float:
        nonlocal calls
        calls += 1
        return VALUE if calls == 2 else width - rate

    def seen(frame: FrameType, event: str) -> None:
        nonlocal on_its_way
        if frame.f_code is objective.__code__:
            on_its_way = event == "return" and calls == 2
        elif on_its_way:  # the caller too: it may not end before the record is there
            for one in (frame, _caller(frame)):
                if one is not None and any(holds(held) for held in one.f_locals.values()):
                    way.add(one)
            optimizer = frame.f_locals.get("self")
            kept = isinstance(optimizer, Optimizer) and event == "return"
            on_its_way = not (kept and any(holds(record) for record in optimizer.history))

    space = Space((Parameter("width", 0.0, 1.0), Parameter("rate", 0.0, 1.0)), (1.0,))
    with tempfile.TemporaryDirectory() as folder:
        file = Journal(Path(folder) / "history.sqlite") if journal else None
        with traced(seen, objective.__code__):
            minimize(objective, space, 4.0, journal=file)
        if file is not None:
            file.close()
    return way.path()


def modules_of_a_value(journal: bool = False) -> list[str]:
    """The modules that see an observed value before it is in the history."""
    return way_of_a_value(journal).modules


def _has_records(thing: Any) -> bool:
    some = thing[0] if isinstance(thing, list | tuple) and thing else thing
    return isinstance(some, Record)


def holds(thing: Any, depth: int = 2) -> bool:
    """Whether something is the value, or a record, an observation, a mapping or a short sequence that has it."""
    if isinstance(thing, float):
        return abs(thing) == VALUE
    if isinstance(thing, Record | Observation):
        return holds(getattr(thing, "value", None), depth)  # one that is being made has none yet
    if isinstance(thing, Mapping):
        thing = tuple(thing.values())
    return depth > 0 and isinstance(thing, tuple | list) and any(holds(part, depth - 1) for part in thing[:20])


@contextmanager
def traced(seen: Seen, *others: Any) -> Iterator[None]:
    """Have the calls into the package seen, and those of other code objects."""

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event in ("call", "return") and (_module(frame).startswith(PACKAGE) or frame.f_code in others):
            seen(frame, event)

    former = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(former)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _caller(frame: FrameType) -> FrameType | None:
    """The frame of the package that a frame was called from, if only in the end."""
    caller = frame.f_back
    while caller is not None and not _module(caller).startswith(PACKAGE):
        caller = caller.f_back
    return caller


def _reached(start: str, pairs: set[tuple[str, str]]) -> set[str]:
    """The modules that calls lead to from one."""
    found, left = {start}, [start]
    while left:
        here = left.pop()
        new = {b for a, b in pairs if a == here} - found
        found, left = found | new, [*left, *new]
    return found


def main() -> None:
    """Print both."""
    for title, path in (
        ("A decision of MFGPUCB", way_of_a_decision()),
        ("A decision of MFGPUCB, with records", way_of_a_decision(records=True)),
        ("A decision of GPBUCB", way_of_a_decision("GPBUCB")),
        ("A value", way_of_a_value()),
        ("A value, with a journal", way_of_a_value(journal=True)),
    ):
        print(f"{title}: {len(path.modules)} modules, {path.stays} stays, {len(path.circles)} calls in circles")
        print(*(f"  {module}" for module in path.modules), sep="\n")
        if title.startswith("A value"):
            print("  by way of", ", ".join(name.removeprefix(f"{PACKAGE}.") for name in path.functions))


if __name__ == "__main__":
    main()
