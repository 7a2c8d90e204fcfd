"""Between the overrides of a sweep and a :class:`~mfbo_torch.space.Space`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, QuotedString, RangeSweep

from mfbo_torch.space import Parameter
from mfbo_torch.space.codec import Codec, Coordinate
from mfbo_torch.utils.errors import SettingError


class SweepCodec(Codec):
    """The overrides that are swept as designs, those of one value fixed.

    ``interval(a, b)`` is a number, a whole one as ``int(interval(a, b))``, by its logarithm as
    ``tag(log, interval(a, b))``. A ``range`` and choices that are numbers are ordered, other choices are not. The
    values of ``fidelity`` are the fidelities, the cheapest first.
    """

    def __init__(self, overrides: Sequence[Override], fidelity: str | None, costs: Sequence[float] | None) -> None:
        self.keys = {_name(override): override.get_key_element() for override in overrides}
        self._written: list[str] = []
        fixed, coordinates, levels, prices = {}, [], [None], [1.0]
        names = [_name(override) for override in overrides]
        for name, override in zip(names, overrides, strict=True):
            if (name == fidelity or override.is_sweep_override()) and names.count(name) > 1:
                raise SettingError("overrides", name, "given once where it is searched")
            if name == fidelity:
                levels, prices = _levels(name, override, costs)
            elif override.is_sweep_override():
                coordinates.append(_coordinate(name, override))
            else:
                self._written.append(override.input_line or "")
                fixed[name] = None if override.is_delete() else override.get_value_element_as_str()
        if fidelity is not None and fidelity not in self.keys:
            known = ", ".join(self.keys) or "none is there"
            raise SettingError("hydra.sweeper.fidelity", fidelity, f"one of the overrides: {known}")
        if not coordinates:
            raise SettingError("overrides", len(fixed), "with something to search, as in rate=interval(0,1)")
        super().__init__(coordinates, fidelity, levels, fixed, costs=prices)

    def job(self, x: Sequence[float], fidelity: int) -> list[str]:
        """The overrides of the job of a query."""
        found = self.decode(x, fidelity).items()
        return [*self._written, *(f"{self.keys[name]}={value}" for name, value in found if name not in self.fixed)]

    @staticmethod
    def read(parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as an application gets them: texts as Hydra reads them, ``null`` and ``true`` included."""
        parser = OverridesParser.create()
        texts = {name: value for name, value in parameters.items() if isinstance(value, str)}
        return {**parameters, **{name: parser.parse_override(f"key={text}").value() for name, text in texts.items()}}


def _name(override: Override) -> str:
    """A key, with the package where one is given: ``db@source``."""
    return override.key_or_group if override.package is None else f"{override.key_or_group}@{override.package}"


def _coordinate(name: str, override: Override) -> Coordinate:
    swept = override.value()
    if override.is_interval_sweep():
        low, high, tags = swept.start, swept.end, swept.tags
        integer = isinstance(low, int) and isinstance(high, int)  # of int(interval(1, 9)) alone
        parameter = Parameter(name, low, high, log="log" in tags, integer=integer)
        return Coordinate(parameter, float, round if integer else float)
    values = _values(override)
    if len(values) < 2:
        raise SettingError(name, override.input_line, "at least two values to search")
    numbers = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
    found = sorted(values) if numbers else values
    return Coordinate.among(Parameter(name, choices=tuple(range(len(found))), ordered=numbers), found)


def _values(override: Override) -> list[Any]:
    """What is swept, in the order it was written, numbers as such; the rest as Hydra writes it."""
    swept = override.value()
    if isinstance(swept, ChoiceSweep | RangeSweep):
        swept.shuffle = False  # a history and costs number the values: their order is to be the same in each process
    written = list(override.sweep_string_iterator())
    plain = [value.text if isinstance(value, QuotedString) else value for value in override.sweep_iterator()]
    return plain if all(isinstance(value, Real) and not isinstance(value, bool) for value in plain) else written


def _levels(name: str, override: Override, costs: Sequence[float] | None) -> tuple[list[Any], list[float]]:
    values = _values(override) if override.is_discrete_sweep() else []
    if len(values) < 2:
        raise SettingError(f"hydra.sweeper.fidelity={name}", override.input_line, f"some values, as in {name}=3,9,27")
    prices: Sequence[Any] = values if costs is None else costs
    if len(prices) != len(values) or not all(isinstance(price, int | float) and price > 0 for price in prices):
        wanted = f"a positive number for each of the {len(values)} values of {name}"
        raise SettingError("hydra.sweeper.costs", costs and list(costs), wanted)
    ordered = sorted(zip(map(float, prices), values, strict=True), key=lambda pair: pair[0])
    return [value for _, value in ordered], [price for price, _ in ordered]
