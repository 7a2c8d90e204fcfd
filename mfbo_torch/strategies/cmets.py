r"""CMETS: search of a tree whose higher nodes see finer and cost more.

References:

.. [Zhang2024indirect]
    M. Zhang, S. Bouabid, C. S. Ong, S. Flaxman, D. Sejdinovic. Indirect Query Bayesian
    Optimization with Integrated Feedback. 2024.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query
from mfbo_torch.indirect import IndirectSpace
from mfbo_torch.strategies.design import sobol
from mfbo_torch.strategies.over_averages import Informative
from mfbo_torch.strategies.surrogate import draw_seed, quiet

MOST_DIMENSIONS = 8
"""A node has ``2^d`` children; beyond this many dimensions nobody could ask them all."""


@dataclass(frozen=True, order=True)
class Node:
    """A cell of the unit cube: at height ``l`` the cube is cut into ``2^l`` parts along each side.

    Args:
        height: ``l``, from 0, the cube itself, on.
        index: ``d`` numbers in ``0..2^l - 1``.
    """

    height: int
    index: tuple[int, ...]

    @property
    def centre(self) -> tuple[float, ...]:
        """What is queried for the cell."""
        return tuple((i + 0.5) / 2**self.height for i in self.index)

    @property
    def parent(self) -> Node:
        return Node(self.height - 1, tuple(i // 2 for i in self.index))

    def children(self, highest: int) -> list[Node]:
        """The ``2^d`` halves of the cell along every side; none at the greatest height."""
        if self.height >= highest:
            return []
        corners = itertools.product((0, 1), repeat=len(self.index))
        return [
            Node(self.height + 1, tuple(2 * i + b for i, b in zip(self.index, bits, strict=True))) for bits in corners
        ]


@dataclass(frozen=True)
class Tree:
    r"""Where the search stands [Zhang2024indirect]_ (Algorithm 1).

    Args:
        leaves: :math:`\mathcal L`, nodes whose cells are to be asked next.
        ahead: :math:`\mathcal L'`, children of leaves past and present, which may be asked before their parents.
        highest: ``l_max``.
    """

    leaves: frozenset[Node]
    ahead: frozenset[Node]
    highest: int

    @classmethod
    def root(cls, dim: int, highest: int) -> Tree:
        """Nothing has been asked: the root is the only leaf."""
        root = Node(0, (0,) * dim)
        return cls(frozenset({root}), frozenset(root.children(highest)), highest)

    @property
    def active(self) -> list[Node]:
        r""":math:`\mathcal A = \mathcal L \cup \mathcal L'`, in a fixed order."""
        return sorted(self.leaves | self.ahead)

    def asked(self, node: Node) -> Tree:
        """The tree after a query: a node that was ahead replaces its parent, its children become leaves."""
        gone = {node.parent} if node in self.ahead and node.height else set()
        leaves = (self.leaves - gone - {node}) | set(node.children(self.highest))
        ahead = self.ahead | {child for leaf in leaves for child in leaf.children(self.highest)}
        return Tree(leaves, ahead - leaves - {node}, self.highest)


def fold(nodes: Iterable[Node], dim: int, highest: int) -> Tree:
    """The tree after some queries; what is no active node changes nothing."""
    tree = Tree.root(dim, highest)
    for node in nodes:
        if node in tree.leaves or node in tree.ahead:
            tree = tree.asked(node)
    return tree


class CMETS(Informative):
    r"""Conditional max-value entropy tree search [Zhang2024indirect]_ (Algorithm 1).

    The box of the queries is cut in halves along every side, again and again. A node of the tree is
    a cell, asked at its centre; its height is its fidelity, so that heights have the costs and the noise of
    the space and what they average over comes from its feedback. Each query is
    :math:`\arg\max I(z; f^* \mid a) / \lambda_{l(a)}` over the active nodes, the leaves and their children.

    The tree is a fold over the nodes asked so far, pending and failed ones included, which are not asked
    again. There is no initial design: the first query follows from the prior. Once every node has been asked
    the search goes on at random points of the finest resolution.

    Args:
        **settings: Those of :class:`~mfbo_torch.strategies.over_averages.Informative`; ``initial`` is not used.

    Raises:
        SettingError: A space of more than :data:`MOST_DIMENSIONS` dimensions or one with choices.
    """

    def counts(self, history: History) -> list[int]:
        return [0] * self.space.num_fidelities

    def tree(self, history: History) -> Tree:
        """The tree as the history left it."""
        space = self.checked()
        found = [r.query for r in history if "node" in r.query.meta]
        nodes = [Node(query.fidelity, tuple(query.meta["node"])) for query in found]
        return fold(nodes, space.dim, space.target)

    def checked(self) -> IndirectSpace:
        """The space, if its box can be searched by a tree."""
        space = self.space
        if space.dim > MOST_DIMENSIONS:
            raise SettingError(
                "space", f"{space.dim} dimensions", f"at most {MOST_DIMENSIONS}: nodes have 2^d children"
            )
        if space.candidates:
            raise SettingError("space", f"{len(space.candidates)} candidates", "a box, whose cells a tree can search")
        return space

    def decide(self, history: History) -> Query:
        """The next query: there is no initial design."""
        return self.propose(history, self.generator(history))

    def propose(self, history: History, generator: torch.Generator) -> Query:
        space, nodes = self.checked(), self.tree(history).active
        information = self.information(history, generator)
        if not nodes:
            draws = sobol(space.dim, 256, draw_seed(generator))
            best = self._best(information, draws, [space.target] * len(draws))
            return self._unasked(draws[best], space.target, history, generator, stage="random")
        centres = torch.tensor([node.centre for node in nodes], dtype=torch.double)
        best = self._best(information, centres, [node.height for node in nodes])
        node = nodes[best]
        return self._unasked(centres[best], node.height, history, generator, stage="model", node=list(node.index))

    def _unasked(self, u: Tensor, fidelity: int, history: History, generator: torch.Generator, **meta: Any) -> Query:
        """The query at a point itself, unless it was asked: whole numbers give several cells one centre, and an
        exhausted tree has none left."""
        query = self.query(u, fidelity, **meta)
        asked = any(r.query.x == query.x and r.query.fidelity == fidelity for r in history)
        return self.placed(u, fidelity, history, generator, **meta) if asked else query

    def _best(self, information: AcquisitionFunction, U: Tensor, fidelities: list[int]) -> int:
        """Which of ``n x d`` points of the unit cube, each at its fidelity, tells most for its cost."""
        A = torch.cat([U, torch.tensor(fidelities, dtype=torch.double).unsqueeze(-1)], -1)[:, : self.space.width]
        with torch.no_grad(), quiet():
            return int(information(self.surrogate.to(A).unsqueeze(-2)).argmax())
