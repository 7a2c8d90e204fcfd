"""A design to evaluate, and at which fidelity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GIVEN, ENQUEUED = {"stage": "given"}, {"stage": "enqueued"}
"""What a query carries that nobody asked for, as its value was measured elsewhere, and costs nothing; and one that the
user wants asked."""


@dataclass(frozen=True, slots=True)
class Query:
    """A design to evaluate at a fidelity.

    Args:
        x: The design, ``d`` numbers in the user's own units.
        fidelity: ``0`` the cheapest, ``M - 1`` the target.
        meta: What later decisions need to know of this moment (JSON values only).
    """

    x: tuple[float, ...]
    fidelity: int
    meta: Mapping[str, Any] = field(default_factory=dict)
