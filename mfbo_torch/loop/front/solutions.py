"""The front of a run with several objectives, as users read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mfbo_torch.history import History, Record, points
from mfbo_torch.metrics.front import front, knee, objective_values
from mfbo_torch.problems.base import Problem
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.multi_objective.mfehvi import MFEHVI
from mfbo_torch.utils.global_state import GlobalState
from mfbo_torch.utils.output_streams import logger
from mfbo_torch.utils.validation import VALUE, describe

LOG = logger(__name__)
KNEE = "knee"
"""The solution nearest to the best of each objective, in units of the front's ranges."""


@dataclass(frozen=True)
class Solution:
    """A design on the front.

    Attributes:
        parameters: Its parameters by name.
        values: What was observed there at the target, each objective in its own sign and unit.
        deviations: The standard deviation of each, as it was observed or as the model has it; ``None`` where neither
            tells.
        labels: ``"knee"``, ``"best loss"``: what it stands out by.
        id: The number of its query.
    """

    parameters: Mapping[str, Any]
    values: Mapping[str, float]
    deviations: Mapping[str, float | None] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    id: int = 0


def solutions(history: History, problem: Problem, strategy: Strategy) -> list[Solution]:
    """The front of a history, from the best value of the first objective on, with the uncertainty that a bound strategy
    tells; of one objective the best observation."""
    space = problem.space
    objectives = space.objectives
    if not objectives:
        return _single(history.best(space.target), problem)
    records = front(history, space)
    if not records:
        return []
    Y, labels = objective_values(records, objectives), [list[str]() for _ in records]
    for one, best in zip(objectives, Y.argmax(0).tolist(), strict=True):
        labels[best].append(f"best {one.name}")
    labels[knee(Y)].append(KNEE)
    modelled, found = _deviations(strategy, history, records), []
    for i, (record, own) in enumerate(zip(records, labels, strict=True)):
        seen = {one.name: record.outcomes[one.name] for one in objectives}
        values = {name: outcome.value for name, outcome in seen.items()}
        told = {name: outcome.standard_error for name, outcome in seen.items()}
        if modelled is not None:
            told = {name: m if e is None else e for (name, e), m in zip(told.items(), modelled[i], strict=True)}
        found.append(Solution(space.named(record.query.x), values, told, tuple(own), record.id))
    return found


def _single(best: Record | None, problem: Problem) -> list[Solution]:
    value, name = problem.value_of(best), getattr(problem, "value", VALUE)
    if best is None or value is None:
        return []
    return [Solution(problem.space.named(best.query.x), {name: value}, {name: best.standard_error}, (), best.id)]


def _deviations(strategy: Strategy, history: History, records: list[Record]) -> list[list[float]] | None:
    """Those of the models at some designs, ``n x K``; none, and a warning, where they cannot be made here."""
    if not isinstance(strategy, MFEHVI):
        return None
    try:
        with GlobalState().restored():
            found = strategy.predict_each(history, points(records)[:, :-1])
    except Exception as error:  # a device that is not here, data that no model can be made of
        LOG.warning("the front is shown without deviations, as the model failed: %s", describe(error))
        return None
    return None if found is None else found[1].tolist()
