"""A design that somebody names, where it may be queried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mfbo_torch.space.space import Space
from mfbo_torch.utils.errors import SettingError


def allowed_design(named: Mapping[str, Any], space: Space) -> tuple[float, ...]:
    """The point of ``{name: value}``; a ``SettingError`` where it is none of the space, breaks a constraint, or is no
    candidate of a finite space."""
    x = space.point(named)
    u = space.to_unit(torch.tensor([x], dtype=torch.double))
    if space.candidates and not torch.isclose(space.unit_candidates, u).all(-1).any():
        raise SettingError("parameters", dict(named), f"one of the {len(space.candidates)} candidates")
    if not space.allows(u).all():
        stated = ", ".join(f"{_sum(weights, space)} <= {bound:g}" for weights, bound in space.constraints)
        raise SettingError("parameters", dict(named), f"within the constraints: {stated}")
    return x


def _sum(weights: Sequence[float], space: Space) -> str:
    terms = zip(weights, space.parameters, strict=True)
    return " + ".join(p.name if w == 1 else f"{w:g} {p.name}" for w, p in terms if w)
