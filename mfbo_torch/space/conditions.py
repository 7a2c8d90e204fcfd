"""Conditions: parameters that are active only for some values of other parameters."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

import torch
from torch import Tensor

from mfbo_torch.space.parameter import Parameter, one_among
from mfbo_torch.utils.errors import SettingError

Needs = tuple[tuple[int, tuple[float, ...]], ...]
"""The conditions of one parameter: the number of each parameter that it depends on, and the allowed values of that."""


class Conditions:
    """The conditions among all parameters; a ``SettingError`` for one on a parameter that is not there, on one without
    choices or whole numbers, or on a value that it has not, and for a circle."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.needs = [_needs(parameter, parameters) for parameter in parameters]
        self.order = _order(self.needs, parameters)

    @property
    def parents(self) -> set[int]:
        """The parameters that others depend on."""
        return {other for needs in self.needs for other, _ in needs}

    @property
    def always(self) -> list[bool]:
        """Which parameters depend on none."""
        return [not needs for needs in self.needs]

    def active(self, X: Tensor) -> Tensor:
        """The active parameters, as ``... x d`` flags of ``... x d`` designs in the user's units."""
        found = torch.ones_like(X, dtype=torch.bool)
        for i in self.order:
            for other, places in self.needs[i]:
                met = torch.isin(X[..., other], X.new_tensor(places))
                found[..., i] &= met & found[..., other]
        return found


def _needs(parameter: Parameter, parameters: Sequence[Parameter]) -> Needs:
    setting, names = f"{parameter.name}.when", [p.name for p in parameters]
    found = []
    for name, values in parameter.when:
        if name not in names:
            others = [n for n in names if n != parameter.name]
            raise SettingError(setting, name, one_among(name, others) if others else "another parameter; there is none")
        other = parameters[names.index(name)]
        if not other.integer:
            wanted = f"on a parameter with choices or whole numbers; {name} is any number between two"
            raise SettingError(setting, {name: values[0]}, wanted)
        found.append((names.index(name), tuple(other.encode(value, f"{setting}.{name}") for value in values)))
    return tuple(found)


def _order(needs: Sequence[Needs], parameters: Sequence[Parameter]) -> list[int]:
    """The conditional parameters, each after those that it depends on."""
    try:
        order = TopologicalSorter({i: [other for other, _ in own] for i, own in enumerate(needs)}).static_order()
        return [i for i in order if needs[i]]
    except CycleError as error:
        circle = error.args[1][:0:-1]  # each depends on the next, and the last on the first
        first = circle.index(min(circle))
        names = [parameters[i].name for i in (*circle[first:], *circle[: first + 1])]
        wanted = "no circle: one of them must not depend"
        raise SettingError(f"{names[0]}.when", " -> ".join(names), wanted) from None
