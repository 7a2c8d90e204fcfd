"""Choices and conditions on the unit cube, where models and searches see numbers only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mfbo_torch.space.conditions import Conditions
from mfbo_torch.space.parameter import Parameter

MOST_TRIED = 64
"""Number of choices without order up to which each is a neighbour."""


class Encoding:
    r"""From ``d`` shares, one a parameter, to ``D`` columns of the unit cube, and back.

    A parameter without order among three or more choices has a column for each, one of which is 1: with one lengthscale
    :math:`\ell` for them all two designs with different choices have a squared distance of :math:`2 / \ell^2`, and a
    product kernel the factor :math:`e^{-1 / \ell^2}` of the Hamming distance. Every other parameter keeps its share of
    the range, a choice that of its rank. A parameter that is not there is in the middle, or at its first choice.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters, self.conditions = parameters, Conditions(parameters)
        self.starts = [sum(p.columns for p in parameters[:i]) for i in range(len(parameters))]
        self.groups = tuple(i for i, p in enumerate(parameters) for _ in range(p.columns))
        steps = [(p.upper - p.lower) if p.choices else 0.0 for p in parameters]
        self._steps = torch.tensor(steps, dtype=torch.double)
        self._choice = self._steps > 0
        held = [bool(p.choices) or i in self.conditions.parents for i, p in enumerate(parameters)]
        self._held = torch.tensor([held[i] for i in self.groups])
        rest = [0.0 if p.choices else 0.5 for p in parameters]
        self.resting = torch.tensor(rest, dtype=torch.double)
        """The shares of parameters that are not there."""

    def columns(self, V: Tensor) -> Tensor:
        """The ``... x D`` columns of ``... x d`` shares of the ranges."""
        parts = []
        for i, p in enumerate(self.parameters):
            share = V[..., i : i + 1]
            if p.columns > 1:
                index = (share * (p.columns - 1)).round().long().squeeze(-1)
                share = torch.nn.functional.one_hot(index.clamp(0, p.columns - 1), p.columns).to(V)
            parts.append(share)
        return torch.cat(parts, dim=-1)

    def shares(self, U: Tensor) -> Tensor:
        """The shares of the ranges, ``... x d``, of ``... x D`` columns; the largest column is the choice."""
        parts = []
        for start, p in zip(self.starts, self.parameters, strict=True):
            part = U[..., start : start + p.columns]
            parts.append(part if p.columns == 1 else part.argmax(-1, keepdim=True).to(U) / (p.columns - 1))
        return torch.cat(parts, dim=-1)

    def balanced(self, V: Tensor) -> Tensor:
        """The same shares with every choice equally likely where ``V`` is uniform on the cube."""
        drawn = (V * (self._steps + 1)).floor().clamp_max(self._steps) / self._steps.clamp_min(1.0)
        return torch.where(self._choice, drawn, V)

    def filled(self, X: Tensor, resting: Tensor) -> Tensor:
        """``... x d`` designs in the user's units with ``resting`` values where a parameter is not there."""
        return torch.where(self.conditions.active(X), X, resting.to(X))

    def fixed_columns(self, X: Tensor) -> Tensor:
        """The columns of ``... x d`` designs that a local search must not change, as ``... x D`` flags: choices,
        parameters that others depend on, and inactive ones."""
        return self._held | ~self.conditions.active(X)[..., list(self.groups)]

    def choice_neighbours(self, V: Tensor) -> Tensor:
        """The shares with one choice changed, ``n x c x d`` of ``n x d``: choices without order take each label where
        these are few; other choices, and whole numbers on which others depend, move by powers of two."""
        found = []
        for i, p in enumerate(self.parameters):
            if not p.choices and i not in self.conditions.parents:
                continue
            steps = round(p.upper - p.lower)
            rank = (V[:, i] * steps).round()
            moves = [2**k for k in range(steps.bit_length())]
            places = [(rank + move).clamp(0, steps) for way in moves for move in (way, -way)]
            if p.choices and not p.ordered and steps < MOST_TRIED:
                places = [torch.full_like(rank, float(k)) for k in range(steps + 1)]
            for place in places:
                moved = V.clone()
                moved[:, i] = place / steps
                found.append(moved)
        return torch.stack(found, dim=1)
