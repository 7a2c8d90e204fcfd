"""Which observations a model is made of where there are too many to decide in seconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from mfbo_torch.history import Record
from mfbo_torch.space import Space
from mfbo_torch.strategies.common.design_table import unit_points
from mfbo_torch.utils.memo import Memo

MOST, FEWER = 1000, 500
"""Number of observations that count at most, of a fidelity, and where each costs several times as much."""
PARTS = 4
"""Number of equal parts of what is kept: first ones, near ones, far ones, latest ones."""


class Subset:
    """At most ``most`` observations of each fidelity, :data:`MOST` if not given; where there are more in all, at most
    ``above`` of each above the cheapest, if given.

    A fidelity with more keeps the latest of them, up to a quarter, and three quarters of the first ``250 k``, ``k`` as
    large as it may be (``125 k`` of at most 500): those that no model asked for, such as the initial design, up to a
    quarter; the quarter nearest to the best one, whatever their values, as noisy ones that are chosen by value are too
    large; and one after another the design that is farthest from those that stay. So a decision costs the same however
    long a run is, models grow by single observations between two choices, and what is kept depends on the history
    alone.
    """

    def __init__(self, most: int | None = None, above: int | None = None) -> None:
        self.most, self.above = most, above
        self._kept: dict[int, Memo[list[int]]] = defaultdict(Memo)
        self._last: Memo[list[Record]] = Memo()

    def __call__(self, space: Space, records: list[Record]) -> list[Record]:
        """The observations that count, in their order; all where no fidelity has too many.

        Args:
            space: Where they are from.
            records: All observations.
        """
        most = self.most or MOST
        if len(records) <= most:
            return records
        return [*self._last((space, records, most), lambda: self._counting(space, records))]  # wanted many times

    def _counting(self, space: Space, records: list[Record]) -> list[Record]:
        groups: dict[int, list[Record]] = defaultdict(list)
        for record in records:
            groups[record.query.fidelity].append(record)
        left = {record.id for m, group in groups.items() for record in self._left_out(space, m, group)}
        return [record for record in records if record.id not in left]

    def _left_out(self, space: Space, fidelity: int, records: list[Record]) -> list[Record]:
        most = (self.above if fidelity else None) or self.most or MOST
        if len(records) <= most:
            return []
        block = most // PARTS
        former = records[: (len(records) - 1) // block * block]
        key = [(record.query.x, record.value) for record in former]
        kept = set(self._kept[fidelity](key, lambda: chosen(space, former, most - block)))
        return [record for i, record in enumerate(former) if i not in kept]


def chosen(space: Space, records: Sequence[Record], most: int) -> list[int]:
    """Which of many observations of a fidelity are kept.

    Args:
        space: Where they are from.
        records: All of them.
        most: How many are kept.
    """
    U, part = unit_points(space, list(records))[:, :-1], most // (PARTS - 1)
    best = max(range(len(records)), key=lambda i: (records[i].value or 0.0, -i))
    first = [i for i, record in enumerate(records) if record.query.meta.get("stage") != "model"][:part]
    near = (U - U[best]).square().sum(-1).argsort(stable=True)[:part]
    found = torch.cat([torch.tensor(first, dtype=torch.long), near]).unique()
    return torch.cat([found, _farthest(U, found, most - len(found))]).sort().values.tolist()


def _farthest(U: Tensor, found: Tensor, count: int) -> Tensor:
    """``count`` of ``n x d`` points, each the farthest from those found before it."""
    room = torch.cdist(U, U[found]).amin(-1)
    room[found] = -1.0  # found already; one that was observed there too has 0
    more = []
    for _ in range(count):
        i = int(room.argmax())
        more.append(i)
        room = torch.minimum(room, (U - U[i]).norm(dim=-1))
        room[i] = -1.0
    return torch.tensor(more, dtype=torch.long)
