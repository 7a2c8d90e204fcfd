"""Linear inequalities as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mfbo_torch.space.conditions import Conditions
from mfbo_torch.space.parameter import Parameter, one_among
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, several

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
Inequality = tuple[tuple[float, ...], float]
"""``(w, b)`` of ``w · x <= b``, one weight a parameter."""


def parse_constraints(given: Sequence[Any], parameters: Sequence[Parameter]) -> tuple[Inequality, ...]:
    """Linear inequalities of designs, each from ``(w, b)`` or a text as :func:`linear` takes it. A ``SettingError`` for
    another number of weights, none that counts, or one that is not finite, on a log scale, on a choice or on a
    parameter with a condition."""
    if isinstance(given, str):
        raise SettingError("constraints", given, f"a list of inequalities, as in [{given!r}]")
    dim, always = len(parameters), Conditions(parameters).always
    pairs = [linear(row, [p.name for p in parameters]) if isinstance(row, str) else row for row in given]
    found = tuple((tuple(weights), bound) for weights, bound in pairs)
    for weights, bound in found:
        allowed = f"{dim} finite weights, one of them not 0, and a finite bound"
        numbers = several("constraints", (*weights, bound), number, allowed, size=dim + 1)
        if not any(numbers[:-1]):
            raise SettingError("constraints", (weights, bound), allowed)
        used = [(p, there) for w, p, there in zip(weights, parameters, always, strict=True) if w]
        if logs := [p.name for p, _ in used if p.log]:
            raise SettingError("constraints", logs[0], "a number that is not on a log scale, or left out of them")
        for p, there in used:
            if p.choices or not there:
                kind = "has choices" if p.choices else "is not always there"
                raise SettingError("constraints", p.name, f"a number that is always there; it {kind}")
    return found


def written(inequality: Inequality, parameters: Sequence[Parameter]) -> str:
    """An inequality as a text that :func:`linear` takes."""
    weights, bound = inequality
    pairs = [(w, p.name) for w, p in zip(weights, parameters, strict=True) if w]
    sum_ = " ".join(f"{'-' if w < 0 else '+'} {'' if abs(w) == 1 else f'{abs(w):g} '}{name}" for w, name in pairs)
    return f"{sum_.removeprefix('+ ')} <= {bound:g}"


def linear(text: str, names: Sequence[str]) -> Inequality:
    """``(w, b)`` of ``w · x <= b`` from a text such as ``"width + 2 depth <= 100"`` or ``"2 * a >= b - 1"``: terms with
    ``+`` and ``-`` on both sides, each a number, a parameter's name or both; else a ``SettingError``."""
    sides = re.split(r"<=|>=", text)
    if len(sides) != 2 or any(not side.strip() for side in sides):
        raise SettingError("constraints", text, 'one inequality, like "a + 2 b <= 3"')
    sign = 1.0 if "<=" in text else -1.0
    weights, constant = dict.fromkeys(names, 0.0), 0.0
    for side, direction in zip(sides, (sign, -sign), strict=True):
        for factor, name in _terms(side, text, names):
            if name:
                weights[name] += direction * factor
            else:
                constant += direction * factor
    return tuple(w + 0.0 for w in weights.values()), 0.0 - constant


def _terms(side: str, text: str, names: Sequence[str]) -> list[tuple[float, str]]:
    """Factors and names (empty for a number alone) of one side."""
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = rf"\s*([+-]?)\s*(?:({NUMBER})\s*\*?\s*)?(?:(?<![^\W\d])({known}))?(?!\w)\s*"
    found: list[tuple[float, str]] = []
    place = 0
    while place < len(side):
        term = re.compile(pattern).match(side, place)
        if term is None or not (term[2] or term[3]) or (found and not term[1]):
            unknown = re.search(r"[^\W\d]\w*", side[place:])
            if unknown and unknown[0] not in names:
                wanted = f"about parameters: {unknown[0]} must be {one_among(unknown[0], names)}"
                raise SettingError("constraints", text, wanted)
            raise SettingError("constraints", text, 'one inequality, like "a + 2 b <= 3"')
        found.append((float(f"{term[1]}1") * float(term[2] or 1), term[3] or ""))
        place = term.end()
    return found
