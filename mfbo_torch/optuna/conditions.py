"""Conditions among the parameters of a study, as its trials show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial

When = Mapping[str, Sequence[Any]]
"""``{other: values}`` of the parameter that one depends on, as the user knows them."""


def conditions_of(trials: Sequence[FrozenTrial], common: Iterable[str], fidelity: str | None = None) -> dict[str, When]:
    """The parameters beside the ``common`` ones whose presence another one explains: for each the parameter that it
    depends on, of categories or whole numbers, with the values at which it was there.

    A parameter was there in every trial with one of these values and in no other, with the same range each time. The
    ``fidelity`` explains none: a design is the same at each.
    """
    found: dict[str, When] = {name: {} for name in common}
    left = sorted({name for trial in trials for name in trial.params} - found.keys())
    while True:
        new = {name: when for name in left if (when := _condition(name, trials, found, fidelity))}
        if not new:
            return {name: when for name, when in found.items() if when}
        found |= new
        left = [name for name in left if name not in new]


def distributions_of(trials: Sequence[FrozenTrial], names: Iterable[str]) -> dict[str, BaseDistribution]:
    """The range of each parameter, as the last trial with it has it."""
    known = {name: d for trial in trials for name, d in trial.distributions.items()}
    return {name: known[name] for name in names if name in known}


def _condition(name: str, trials: Sequence[FrozenTrial], known: Mapping[str, When], fidelity: str | None) -> When:
    """What explains the presence of a parameter; empty where nothing does."""
    own = [trial for trial in trials if name in trial.params]
    others = [trial for trial in trials if name not in trial.params]
    first = own[0].distributions[name]
    if first.single() or any(trial.distributions[name] != first for trial in own):
        return {}
    for other in known:
        if other == fidelity:
            continue
        kind = next((t.distributions[other] for t in own if other in t.params), None)
        if not isinstance(kind, CategoricalDistribution | IntDistribution) or not all(other in t.params for t in own):
            continue
        values = list(dict.fromkeys(trial.params[other] for trial in own))
        if not any(trial.params.get(other) in values for trial in others if other in trial.params):
            return {other: values}
    return {}
