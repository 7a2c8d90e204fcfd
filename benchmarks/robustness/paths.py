"""Through how many modules does a history pass during a decision, and an observed value on its way to its record?

Calls into the package are traced. A module counts where one of its functions holds the history; for a value, where one
holds it, or a record or an observation with it, between the objective's return and the moment when its record is in the
history. Functions count when they are entered, with their arguments, and when they end, with all that they hold.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch

from mfbo_torch import History, Observation, Optimizer, Parameter, Record, Space, minimize, strategies
from mfbo_torch.problems import Hartmann3

PACKAGE = "mfbo_torch"
OBSERVATIONS = {"MFGPUCB": 45, "GPBUCB": 25}
"""Observations before the decision that is traced: a few more than the initial design has."""
VALUE = 0.7310585786300049
"""A value that comes from nowhere else."""


def modules_of_a_decision(strategy: str = "MFGPUCB") -> list[str]:
    """The modules that hold the history while a query on Hartmann3 is decided."""
    torch.set_num_threads(1)
    problem, found = Hartmann3(), set[str]()
    space = problem.space if strategy == "MFGPUCB" else Space(problem.space.parameters, (1.0,))
    optimizer = Optimizer(getattr(strategies, strategy)(space=space, capital=20 * space.costs[-1]))
    for _ in range(OBSERVATIONS.get(strategy, 25)):
        record = optimizer.ask()[0]
        fidelity = record.query.fidelity if space is problem.space else problem.space.target
        optimizer.tell(record.id, problem.reward(record.query.x, fidelity))

    def seen(frame: FrameType, event: str) -> None:
        if any(isinstance(held, History) for held in frame.f_locals.values()):
            found.add(_module(frame))

    with traced(seen):
        optimizer.ask()
    return sorted(found)


def modules_of_a_value() -> list[str]:
    """The modules that hold an observed value on its way through :func:`mfbo_torch.minimize` to the history."""
    torch.set_num_threads(1)
    found, on_its_way, calls = set[str](), False, 0

    def objective(width: float, rate: float) -> float:
        nonlocal calls
        calls += 1
        return VALUE if calls == 2 else width - rate

    def seen(frame: FrameType, event: str) -> None:
        nonlocal on_its_way
        if frame.f_code is objective.__code__:
            on_its_way = event == "return" and calls == 2
        elif on_its_way:  # the caller too: it may not end before the record is there
            held = [one for one in (frame, _caller(frame)) if one and any(map(holds, one.f_locals.values()))]
            found.update(map(_module, held))
            optimizer = frame.f_locals.get("self")
            kept = isinstance(optimizer, Optimizer) and event == "return"
            on_its_way = not (kept and any(map(holds, optimizer.history)))

    with traced(seen, objective.__code__):
        minimize(objective, Space((Parameter("width", 0.0, 1.0), Parameter("rate", 0.0, 1.0)), (1.0,)), 4.0)
    return sorted(found)


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
def traced(seen: Callable[[FrameType, str], None], *others: CodeType) -> Iterator[None]:
    """Have calls into the package, and those of other code objects, seen with the event ``"call"`` or ``"return"``."""

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
    """The nearest frame of the package that a frame was called from."""
    caller = frame.f_back
    while caller is not None and not _module(caller).startswith(PACKAGE):
        caller = caller.f_back
    return caller


if __name__ == "__main__":
    found = {f"A decision of {name}": modules_of_a_decision(name) for name in OBSERVATIONS}
    for title, modules in (found | {"A value": modules_of_a_value()}).items():
        print(f"{title}: {len(modules)} modules", *modules, sep="\n  ")
