"""A design to evaluate, and at which fidelity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GIVEN, ENQUEUED = {"stage": "given"}, {"stage": "enqueued"}
"""The ``meta`` of a query whose value was observed elsewhere, at no cost, and of one that the user has enqueued."""


@dataclass(frozen=True, slots=True)
class Query:
    """A design to evaluate at a fidelity.

    Args:
        x: The design, ``d`` numbers in the user's own units.
        fidelity: ``0`` the cheapest, ``M - 1`` the target.
        meta: What the strategy notes for later decisions (JSON values only).
    """

    x: tuple[float, ...]
    fidelity: int
    meta: Mapping[str, Any] = field(default_factory=dict)
