"""Designs of a space from and to the parameters of another library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mfbo_torch.space.parameter import Parameter
from mfbo_torch.space.space import Space


class Coordinate(NamedTuple):
    """One parameter of a space, with the way from another library's value to the number in a design, and back.
    ``encode`` raises ``ValueError`` for a value that is not searched."""

    parameter: Parameter
    encode: Callable[[Any], float] = float
    decode: Callable[[float], Any] = float

    @classmethod
    def among(cls, parameter: Parameter, values: Sequence[Any]) -> Coordinate:
        """A choice: the number in a design is the index of the value."""
        return cls(parameter, lambda value: float(values.index(value)), lambda x: values[round(x)])


class Codec:
    """Designs and fidelities of a space, made of ``coordinates`` and ``settings``, as another library's parameters, and
    back. There ``fidelity`` names the parameter of the fidelity (``None``: it has none), which has the ``M`` values
    ``levels``, the target last; ``fixed`` are parameters that are not searched, with their only value."""

    def __init__(
        self,
        coordinates: Sequence[Coordinate],
        fidelity: str | None = None,
        levels: Sequence[Any] = (None,),
        fixed: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.coordinates, self.fidelity, self.levels, self.fixed = coordinates, fidelity, levels, dict(fixed or {})
        self.space = Space([c.parameter for c in coordinates], **settings)

    def encode(self, parameters: Mapping[str, Any]) -> tuple[tuple[float, ...], int] | None:
        """The design and the fidelity; ``None`` where a parameter is missing or has a value that is not searched."""
        x = []
        try:
            for (own, encode, _), resting in zip(self.coordinates, self.space.resting, strict=True):
                if own.name not in parameters and not own.when:
                    return None
                x.append(encode(parameters[own.name]) if own.name in parameters else resting)
            level = self.levels.index(None if self.fidelity is None else parameters.get(self.fidelity))
        except ValueError:
            return None
        return (tuple(x), level) if self.space.contains(x) else None

    def decode(self, x: Sequence[float], fidelity: int) -> dict[str, Any]:
        """The parameters of a query; one whose condition is not met is left out."""
        there = self.space.named(x)
        pairs = zip(self.coordinates, x, strict=True)
        found = {c.parameter.name: c.decode(value) for c, value in pairs if c.parameter.name in there}
        level = {} if self.fidelity is None else {self.fidelity: self.levels[fidelity]}
        return {**self.fixed, **found, **level}
