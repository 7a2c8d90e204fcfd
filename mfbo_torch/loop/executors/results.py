"""What a job has left in a folder, read without running anything of it: somebody else may have put it there."""

from __future__ import annotations

import builtins
import io
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

from mfbo_torch.history.learning_curves import checked_points
from mfbo_torch.history.observation import Observation, Outcome
from mfbo_torch.loop.evaluation import Evaluation
from mfbo_torch.loop.executors.workers import WorkerLost
from mfbo_torch.utils.files import LONGEST, opened
from mfbo_torch.utils.validation import number

KNOWN = {(kind.__module__, kind.__qualname__): kind for kind in (Evaluation, Observation, Outcome, WorkerLost)}
"""The classes that a result may be made of, beside Python's numbers, texts, containers and errors."""


class _Reader(pickle.Unpickler):
    """Makes objects of :data:`KNOWN` and built-in errors; another name is an ``UnpicklingError``."""

    def find_class(self, module: str, name: str) -> Any:
        found = KNOWN.get((module, name)) or (getattr(builtins, name, None) if module == "builtins" else None)
        if not isinstance(found, type) or not (found in KNOWN.values() or issubclass(found, Exception)):
            raise pickle.UnpicklingError(f"{module}.{name} is not what an evaluation ends with")
        return found


def unpickled(content: bytes) -> Any:
    """A pickled object of numbers, texts, containers, observations and errors; an ``UnpicklingError`` for others."""
    try:
        return _Reader(io.BytesIO(content)).load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # of whatever kind: it may be cut off, or made to fail
        raise pickle.UnpicklingError(f"it cannot be read: {type(error).__name__}: {error}") from error


def answered(content: Any) -> tuple[Any, BaseException | None]:
    """The value or the error in an answer; an evaluation has parts of the types that it should have."""
    try:
        value, error = unpickled(content)
        if error is not None and not isinstance(error, Exception):
            raise pickle.UnpicklingError(f"{type(error).__name__} is no error")
        return (_checked(value) if isinstance(value, Evaluation) else value), error
    except pickle.UnpicklingError as unreadable:
        return None, unreadable
    except Exception as wrong:
        return None, pickle.UnpicklingError(f"{type(wrong).__name__}: {wrong}")


def content_of(path: Path) -> bytes:
    """A result's file; an ``OSError`` where it is none, or too long to be one."""
    with opened(path) as file:
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise OSError(f"{path} is longer than {LONGEST:,} bytes")
    return content


def _checked(found: Evaluation) -> Evaluation:
    """An evaluation whose parts have the types that they should have; else an error of any kind."""
    observation, reason, seconds, raised, stopped, curve, output, refused = found
    if observation is not None and type(observation) is not Observation:
        raise TypeError(f"{type(observation).__name__} is no observation")
    if {type(reason), type(output), type(refused)} != {str} or type(raised) is not bool:
        raise TypeError("a text or a truth value is none")
    if (observation is None) != bool(reason or stopped is not None):
        raise TypeError("it has neither an observation nor a reason, or both")
    for name, outcome in observation.outcomes.items() if observation else ():
        if type(outcome) is not Outcome or type(outcome.met) is not bool:
            raise TypeError(f"{name} is no outcome")
        number(name, outcome.value)
    return Evaluation(
        observation and replace(observation),
        reason,
        number("seconds", seconds, 0),
        raised,
        None if stopped is None else number("stopped", stopped, 0),
        checked_points(curve),
        output,
        refused,
    )
