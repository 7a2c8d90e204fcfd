"""Cells of the unit cube, cut again and again into equal parts."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, order=True)
class Node:
    """A cell of the unit cube: how often the cube was cut, and the ``d`` places along the sides."""

    height: int
    index: tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """How a cell becomes ``K`` cells: all sides, or with ``one_side`` one after another, are cut into ``parts``."""

    dim: int
    parts: int = 2
    one_side: bool = False

    @classmethod
    def into(cls, children: int | None, dim: int) -> Cut:
        """``K`` children: equal parts along every side where ``K`` is the ``d``-th power of a whole number, else one
        side at a time; ``None`` for halves along every side."""
        if children is None:
            return cls(dim)
        root = round(children ** (1 / dim))
        return cls(dim, root) if root > 1 and root**dim == children else cls(dim, children, one_side=True)

    @property
    def children(self) -> int:
        """``K``."""
        return self.parts if self.one_side else self.parts**self.dim

    def sides(self, height: int) -> tuple[int, ...]:
        """Whether each side is cut between a height and the next, as one part or :attr:`parts`."""
        cut = [height % self.dim] if self.one_side else range(self.dim)
        return tuple(self.parts if j in cut else 1 for j in range(self.dim))

    def counts(self, height: int) -> tuple[int, ...]:
        """How many cells there are along each side."""
        return tuple(math.prod(sizes) for sizes in zip(*map(self.sides, range(height)), strict=True)) or (1,) * self.dim

    def centre(self, node: Node) -> tuple[float, ...]:
        """What is queried for a cell of a box."""
        return tuple((i + 0.5) / n for i, n in zip(node.index, self.counts(node.height), strict=True))

    def parent(self, node: Node) -> Node:
        """The cell that a cell, which is not the cube, was cut from."""
        sizes = self.sides(node.height - 1)
        return Node(node.height - 1, tuple(i // n for i, n in zip(node.index, sizes, strict=True)))

    def below(self, node: Node, highest: int) -> list[Node]:
        """The ``K`` children of a cell; none at the greatest height."""
        if node.height >= highest:
            return []
        parts = [range(n * i, n * i + n) for n, i in zip(self.sides(node.height), node.index, strict=True)]
        return [Node(node.height + 1, index) for index in itertools.product(*parts)]

    def cells(self, U: Tensor, height: int) -> Tensor:
        """``n x d`` indices of the cells that ``n x d`` points of the unit cube are in."""
        counts = U.new_tensor(self.counts(height))
        return torch.minimum((U * counts).floor(), counts - 1).clamp_min(0).long()
