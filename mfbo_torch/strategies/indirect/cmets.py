"""CMETS: search of a tree whose higher nodes see finer and cost more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.history import Query
from mfbo_torch.space.cells import Cut, Node
from mfbo_torch.strategies.common.fit_schedule import draw_seed, quiet
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.strategies.indirect.base import Informative
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import one_of, whole

MOST_CHILDREN = 256
"""Largest number of children of a node: nobody could query more."""


@dataclass(frozen=True)
class Tree:
    r"""Where the search stands [Zhang2024indirect]_ (Algorithm 1).

    It has the leaves :math:`\mathcal L`, whose cells are to be queried next, and ahead of them :math:`\mathcal L'`, the
    children of leaves past and present, which may be queried before their parents. ``highest`` is :math:`l_{max}`.
    ``strict``: by the letter a node may be in both, and what was queried may be there again.
    """

    leaves: frozenset[Node]
    ahead: frozenset[Node]
    highest: int
    cut: Cut
    strict: bool = False

    @property
    def active(self) -> list[Node]:
        r""":math:`\mathcal A = \mathcal L \cup \mathcal L'`, in a fixed order."""
        return sorted(self.leaves | self.ahead)

    def queried(self, node: Node) -> Tree:
        """The tree after a query: a node that was ahead replaces its parent, its children become leaves."""
        below = partial(self.cut.below, highest=self.highest)
        early = node in self.ahead
        gone = {self.cut.parent(node)} if early and node.height else set()
        if not (self.strict and early):
            gone.add(node)
        leaves = (self.leaves - gone) | set(below(node))
        ahead = (self.ahead - {node}) | {child for leaf in leaves for child in below(leaf)}
        return replace(self, leaves=leaves, ahead=ahead if self.strict else ahead - leaves - {node})


def fold(nodes: Iterable[Node], cut: Cut, highest: int, strict: bool = False) -> Tree:
    """The tree after some queries; first the root is the only leaf. A node that is not active changes nothing."""
    root = Node(0, (0,) * cut.dim)
    tree = Tree(frozenset({root}), frozenset(cut.below(root, highest)), highest, cut, strict)
    for node in nodes:
        if node in tree.leaves or node in tree.ahead:
            tree = tree.queried(node)
    return tree


class CMETS(Informative):
    r"""Conditional max-value entropy tree search [Zhang2024indirect]_ (Algorithm 1).

    The box of the queries is cut in halves along every side, again and again, or into another number of parts. A node
    of the tree is a cell, queried at its centre or at the candidate in it nearest to that; its height is its fidelity.
    Each query is :math:`\arg\max I(z; f^* \mid a) / \lambda_{l(a)}` over the leaves and their children.

    No node is queried twice, unless ``strict``. There is no initial design (``initial`` is not used): the first query
    follows from the prior. Once every node has been queried the search goes on at the finest resolution, at random
    points or at the candidates that are left.

    Args:
        children: ``K``, how many cells a cell is cut into, from 2 to :data:`MOST_CHILDREN`: a ``d``-th power cuts every
            side, another number one side after another. ``None`` for :math:`2^d`.
        strict: The sets of nodes as Algorithm 1 prints them: some nodes may be queried again (:class:`Tree`).
    """

    def __init__(self, *, children: int | None = None, strict: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.strict = one_of("strict", strict, (True, False))
        wanted = f"a whole number from 2 to {MOST_CHILDREN}, or None"
        self.children = None if children is None else whole("children", children, 2, MOST_CHILDREN, wanted=wanted)

    def counts(self, snapshot: Snapshot) -> list[int]:
        return [0] * self.space.num_fidelities

    @property
    def cut(self) -> Cut:
        """How the cells of the space are cut."""
        cut = Cut.into(self.children, self.space.dim)
        if cut.children > MOST_CHILDREN:
            given = f"{self.space.dim} dimensions, 2^d = {cut.children}"
            raise SettingError("children", given, f"given where there are more than {MOST_CHILDREN}, such as 2")
        return cut

    def tree(self, snapshot: Snapshot) -> Tree:
        """The tree as the history left it."""
        queries = (r.query for r in snapshot.records if "node" in r.query.meta)
        nodes = (Node(query.fidelity, tuple(query.meta["node"])) for query in queries)
        return fold(nodes, self.cut, self.space.target, self.strict)

    def places(self, tree: Tree) -> list[tuple[Node, Tensor]]:
        """The active nodes that can be queried, each with where, ``d`` numbers of the unit cube."""
        centres = [torch.tensor(tree.cut.centre(node), dtype=torch.double) for node in tree.active]
        if not self.space.candidates:
            return list(zip(tree.active, centres, strict=True))
        U, found = self.space.unit_candidates, []
        cells = [tree.cut.cells(U, height) for height in range(tree.highest + 1)]
        for node, centre in zip(tree.active, centres, strict=True):
            inside = U[(cells[node.height] == torch.tensor(node.index)).all(-1)]
            if len(inside):
                found.append((node, inside[(inside - centre).square().sum(-1).argmin()]))
        return found

    def next_query(self, snapshot: Snapshot) -> Query:
        """There is no initial design."""
        return self.propose(snapshot, snapshot.generator(self.seed))

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        space, places = self.space, self.places(self.tree(snapshot))
        information = self.information(snapshot, generator)
        if not places:
            draws = space.unit_candidates if space.candidates else sobol(space.dim, 256, draw_seed(generator))
            best = self._best(information, draws, [space.target] * len(draws))
            return self._at_once(draws[best], space.target, snapshot, generator, stage="random")
        where = torch.stack([u for _, u in places])
        best = self._best(information, where, [node.height for node, _ in places])
        node, u = places[best]
        return self._at_once(u, node.height, snapshot, generator, stage="model", node=list(node.index))

    def _at_once(self, u: Tensor, fidelity: int, snapshot: Snapshot, generator: torch.Generator, **meta: Any) -> Query:
        """The query at a point itself, unless it was queried: whole numbers give several cells one centre, and an
        exhausted tree has none left. By the letter a node may be queried again."""
        query = self.query(u, fidelity, **meta)
        if self.strict and "node" in meta:
            return query
        queried = any(r.query.x == query.x and r.query.fidelity == fidelity for r in snapshot.records)
        return self.placed(u, fidelity, snapshot, generator, **meta) if queried else query

    def _best(self, information: AcquisitionFunction, U: Tensor, fidelities: list[int]) -> int:
        """Which of ``n x d`` points of the unit cube, each at its fidelity, tells most for its cost."""
        A = torch.cat([U, torch.tensor(fidelities, dtype=torch.double).unsqueeze(-1)], -1)[:, : self.space.width]
        with torch.no_grad(), quiet():
            return int(information(self.surrogate.to(A).unsqueeze(-2)).argmax())
