"""The first evaluations of a run: a run ends early if they all break by the same mistake."""

from __future__ import annotations

from mfbo_torch.history import Record
from mfbo_torch.loop.evaluation import Evaluation

ALIKE = 3
"""Number of first evaluations with the same mistake, after which the objective is taken to be wrong."""

NO_VALUE = "a design that has no value may return nan"


class Hopeless(RuntimeError):
    """Every evaluation of a run has failed; ``spent`` says whether no capital is left to try again."""

    def __init__(self, message: str, spent: bool = False) -> None:
        super().__init__(message)
        self.spent = spent


class EarlyFailures:
    """Exceptions before the first value; they are held back, their queries pending, while all are the same mistake.

    A run that is continued with a repaired objective evaluates them again at no further cost.
    """

    def __init__(self, over: bool) -> None:
        self.over = over
        self.held: dict[int, tuple[Record, Evaluation]] = {}

    def holds(self, record: Record, evaluation: Evaluation) -> bool:
        """Hold back an attempt that has raised an exception, if all before it were the same mistake."""
        if self.over or any(other.mistake != evaluation.mistake for _, other in self.held.values()):
            return False
        self.held[record.id] = record, evaluation
        return True

    def release(self) -> list[tuple[Record, Evaluation]]:
        """What was held back; from now on nothing is."""
        held, self.held, self.over = [*self.held.values()], {}, True
        return held

    def __str__(self) -> str:
        """The error message, in one line."""
        ended = next(iter(self.held.values()))[1]
        first, *frames = ended.reason.splitlines()
        alike = f"the first {len(self.held)} evaluations broke in the same way, with {first}"
        if ended.refused:
            return f"{alike} (they cost nothing more)"
        where = f" ({frames[-1].strip()})" if frames else ""
        hint = "an argument without a parameter's name is a dict of all of them" if "'dict'" in first else NO_VALUE
        return f"{alike}{where}, and cost nothing more; {hint}"
