"""Fidelities: their name and values, such as ``epochs = 3, 9, 27``, their costs and the bounds on their bias."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from operator import gt, lt
from typing import Any, NamedTuple

from mfbo_torch.space.continuous_fidelity import MANY, nearest, numbers, power_costs
from mfbo_torch.space.parameter import plain
from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.validation import number, several, whole, written

RESERVED = ("parameters", "fidelity", "trial")
"""Names of other arguments of an objective."""

Value = int | float | str
Told = int | str | Mapping[str, Value]
"""Forms in which a user gives a fidelity, see :func:`level_of`."""


class Fidelities(NamedTuple):
    """A name and ``M`` values, the target's last. A fidelity stays the number ``0 ... M - 1`` everywhere else."""

    name: str
    values: tuple[Value, ...]

    @classmethod
    def of(cls, given: Any) -> Fidelities:
        """From ``{name: values}``, or the pair of them; ``{name: {lower, upper}}`` is a continuous fidelity, which
        becomes a fine grid of values. A ``SettingError`` where there is not one free name, or no value, one twice, or
        one that is neither a finite number nor a text."""
        pairs = list(given.items()) if isinstance(given, Mapping) else [given]
        if len(pairs) != 1 or not isinstance(pairs[0], Sequence) or isinstance(pairs[0], str) or len(pairs[0]) != 2:
            raise SettingError("fidelities", given, "one name and its values, such as {epochs: [3, 9, 27]}")
        name, values = pairs[0]
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
            taken = ", ".join(RESERVED)
            raise SettingError("fidelities", name, f"named as an argument can be, but none of {taken}")
        setting, wanted = f"fidelities.{name}", "a list of numbers or texts, each once, the target last"
        if isinstance(values, Mapping):
            return cls(name, numbers(setting, values))
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise SettingError(setting, values, wanted)
        kind = float if any(isinstance(value, float) for value in values) else int
        found = tuple(v if isinstance(v, str) else kind(number(setting, v, wanted=wanted)) for v in values)
        if len(set(found)) < len(found):
            raise SettingError(setting, list(values), wanted)
        return cls(name, found)

    @property
    def costs(self) -> tuple[float, ...] | None:
        """Costs that are proportional to the values, themselves; ``None`` unless they are positive and increase."""
        numbers = tuple(value for value in self.values if not isinstance(value, str) and value > 0)
        grows = len(numbers) == len(self.values) and all(low < high for low, high in pairwise(numbers))
        return numbers if grows else None

    def has_ends(self, costs: Any) -> bool:
        """Whether costs are those of the two ends of an interval."""
        return isinstance(costs, (list, tuple)) and len(costs) == 2 and len(self.values) > MANY

    def costs_of(self, given: Any) -> Sequence[float] | None:
        """The costs where some are given, or none: those of the ends of an interval go between them as a power."""
        given = given.tolist() if hasattr(given, "tolist") else given
        if self.has_ends(given):
            low, high = (number("costs", cost, above=0) for cost in given or ())
            return power_costs([float(value) for value in self.values], low, high)
        found: Sequence[float] | None = given or self.costs
        return found

    def label(self, m: int) -> str:
        """Such as ``epochs = 9``."""
        value = self.values[m]
        return f"{self.name} = {value if isinstance(value, str) else format(value, '.12g')}"

    def level(self, value: Any) -> int:
        """The fidelity of a value, or a ``SettingError``; a number may come as text, as from a table."""
        for m, known in enumerate(self.values):
            if value == known or (isinstance(value, str) and _same(value, known)):
                return m
        close = nearest(self.values, value) if len(self.values) > MANY else None
        if close is not None:
            return close
        texts = [str(known) for known in self.values]
        raise SettingError(self.name, value, f"one of {', '.join(texts)}{did_you_mean(value, texts)}")


def level_of(given: Any, named: Fidelities | None, target: int) -> int:
    """The fidelity that a user means: its number up to ``target``, or its value under its name, ``{"epochs": 9}``. A
    bare number is never a value: ``1`` of ``epochs: [1, 2, 4]`` is 2 epochs; a bare text is one. A ``SettingError``
    where there is none."""
    if named is not None and isinstance(given, Mapping) and [*given] == [named.name]:
        return named.level(given[named.name])
    if named is not None and isinstance(given, str):
        return named.level(given)
    wanted = f"a whole number from 0 to {target}"
    if named is not None:
        close = did_you_mean(next(iter(given)), [named.name]) if isinstance(given, Mapping) and given else ""
        example = named.values[target]
        with suppress(SettingError):
            example = named.values[named.level(given)]
        wanted += f", the cheapest first, or a value by its name, { ({named.name: example}) }{close}"
    return whole("fidelity", given, 0, target, wanted=wanted)


def _same(text: str, known: Value) -> bool:
    try:
        return text == known or (not isinstance(known, str) and written(text) == known)
    except ValueError:
        return False


def named_fidelities(given: Any, parameters: Sequence[str], costs: Any) -> Fidelities:
    """Names of fidelities in a space of some parameters; a ``SettingError`` where they are none, a parameter has their
    name, there are not as many as costs, or no costs are given and they cannot be costs themselves."""
    found, costs = Fidelities.of(given), costs.tolist() if hasattr(costs, "tolist") else costs
    if found.name in parameters:
        raise SettingError("fidelities", found.name, "another name than that of a parameter")
    if isinstance(costs, (list, tuple)) and len(costs) not in (0, len(found.values)) and not found.has_ends(costs):
        values = f"one for each {found.name} of {', '.join(map(str, found.values))}"
        raise SettingError("costs", [*costs], f"{len(found.values)} numbers, {values}")
    if found.costs is None and (not costs or (costs == "measured" and len(found.values) > MANY)):
        wanted = "positive numbers that increase, the target last, or given with costs"
        raise SettingError(f"fidelities.{found.name}", [*found.values], wanted)
    return found


def epoch_rungs(epochs: int) -> Fidelities:
    """A number of epochs, a third, a ninth and so on of it down to one; a ``SettingError`` below 1."""
    left, found = float(whole("epochs", epochs)), list[int]()
    while left >= 1:
        found.append(round(left))
        left /= 3
    return Fidelities("epochs", tuple(reversed(found)))


def checked_costs(costs: Sequence[float]) -> tuple[float, ...]:
    """The costs of ``M`` fidelities, positive and increasing; a ``SettingError`` where they are not."""
    if isinstance(costs, str) or not isinstance(costs, Iterable):
        example = "1, 10" if isinstance(costs, str) else costs
        wanted = f"a list of one positive number a fidelity, as in [{example}]"
        raise SettingError("costs", costs, f"{wanted}; measured=True says that they are guesses")
    given = [*costs]
    if not given:
        raise SettingError("costs", given, "one positive number a fidelity, as in [1, 10]; [1] where there is one")
    several("costs", given, partial(number, above=0), "one positive number a fidelity")
    several("costs", given, number, "increasing, the target fidelity last", order=lt)
    return tuple(map(plain, given))


def checked_zeta(zeta: Sequence[float], num_fidelities: int) -> tuple[float, ...]:
    """Bounds on the bias of each fidelity as ``M`` floats that decrease to 0; a ``SettingError`` where they do not."""
    wanted = f"{num_fidelities} numbers that decrease to 0, the target's"
    given = several("zeta", zeta, number, wanted, size=num_fidelities, order=gt)
    if given[-1] != 0:
        raise SettingError("zeta", zeta, wanted)
    return given
