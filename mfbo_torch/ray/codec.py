"""Between the search space of Ray Tune and a :class:`~mfbo_torch.space.Space`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from ray.tune.search.sample import Categorical, Domain, Float, Integer, LogUniform, Normal, Quantized
from ray.tune.search.variant_generator import parse_spec_vars

from mfbo_torch.space import Parameter
from mfbo_torch.space.codec import Codec, Coordinate
from mfbo_torch.utils.errors import SettingError

SLACK = 1e-9
"""Share of a step by which rounding may move an end."""


def codec_of(config: Mapping[str, Any], fidelity: str | None, costs: Mapping[Any, float] | None) -> Codec:
    """The domains of a ``param_space`` as designs; the names of nested ones are joined by ``/``.

    ``fidelity`` names one of choices, ``tune.choice([3, 9, 27])``, whose costs are the values if not given.
    """
    _, domains, grids = parse_spec_vars(dict(config))
    if grids:
        raise SettingError("/".join(grids[0][0]), "grid_search", "tune.choice: what is tried is the searcher's to say")
    if wrong := [key for path, _ in domains for key in path if not isinstance(key, str) or "/" in key or not key]:
        raise SettingError("param_space", wrong[0], "names of text without /, which joins those of nested parameters")
    found = {"/".join(path): domain for path, domain in domains}
    levels, prices = [None], [1.0]
    if fidelity is not None:
        levels, prices = _levels(fidelity, found.pop(fidelity, None), costs, list(found))
    for name, domain in found.items():
        if isinstance(domain, Categorical) and any(parse_spec_vars({name: [*domain.categories]})[1:]):
            raise SettingError(name, "a choice", "of values alone: no domain within a choice is searched")
    single = {name: d.categories[0] for name, d in found.items() if isinstance(d, Categorical) and len(d) == 1}
    found = {name: domain for name, domain in found.items() if name not in single}
    if not found:
        raise SettingError("param_space", list(config), "with something to search, as in tune.uniform(0, 1)")
    return Codec([_coordinate(*item) for item in found.items()], fidelity, levels, single, costs=prices)


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by their joined names, as Ray nests them."""
    found: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split("/")
        place = found
        for key in path:
            place = place.setdefault(key, {})
        place[last] = value
    return found


def _coordinate(name: str, domain: Domain) -> Coordinate:
    sampler = domain.get_sampler()
    if isinstance(domain, Categorical):
        values = list(domain.categories)
        numbers = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
        values = sorted(values) if numbers else values
        return Coordinate.among(Parameter(name, choices=tuple(range(len(values))), ordered=numbers), values)
    step = None
    if isinstance(sampler, Quantized):
        step, sampler = sampler.q, sampler.get_sampler()
    log, whole = isinstance(sampler, LogUniform), isinstance(domain, Integer)
    if not isinstance(domain, Integer | Float) or isinstance(sampler, Normal):
        kind = "randn" if isinstance(domain, Float) else type(domain).__name__
        raise SettingError(name, kind, "a uniform, loguniform, randint, lograndint or choice")
    if step and not (whole and step == 1):
        return _multiples(name, domain, step, log)
    upper = domain.upper - 1 if whole else domain.upper  # the upper end of whole numbers is not in it
    return Coordinate(Parameter(name, domain.lower, upper, log=log, integer=whole), float, int if whole else float)


def _multiples(name: str, domain: Integer | Float, step: float, log: bool) -> Coordinate:
    """The multiples of a step between the ends, both in it."""
    kind = int if isinstance(domain, Integer) else float
    first, last = math.ceil(domain.lower / step - SLACK), math.floor(domain.upper / step + SLACK)
    parameter = Parameter(name, max(first, 1) if log else first, last, log=log, integer=True)
    return Coordinate(parameter, lambda value: float(round(value / step)), lambda k: kind(round(k) * step))


def _levels(
    name: str, domain: Domain | None, costs: Mapping[Any, float] | None, others: Sequence[str]
) -> tuple[list[Any], list[float]]:
    if not isinstance(domain, Categorical) or len(domain.categories) < 2:
        wanted = f"a parameter with tune.choice of its values, such as [3, 9, 27]; others are {', '.join(others)}"
        raise SettingError("fidelity", name, wanted)
    values = list(domain.categories)
    if not all(isinstance(value, str | Real) for value in values) or len(set(values)) < len(values):
        raise SettingError("fidelity", name, f"a parameter whose values are different numbers or texts, not {values}")
    prices = {value: value for value in values} if costs is None else dict(costs)
    if set(prices) != set(values) or not all(isinstance(price, Real) and float(price) > 0 for price in prices.values()):
        raise SettingError("costs", costs, f"a positive number for each value of {name}: {', '.join(map(str, values))}")
    ordered = sorted(values, key=lambda value: prices[value])
    return ordered, [float(prices[value]) for value in ordered]
