"""The designs of a history as tensors of the unit cube, each made once."""

from __future__ import annotations

from threading import Lock

import torch
from torch import Tensor

from mfbo_torch.history import Record, Status, points
from mfbo_torch.space import Space
from mfbo_torch.utils.persistent_sequence import PersistentSequence

_LOCK = Lock()
"""Of all tables: a strategy is copied and sent to processes, which no lock of its own would survive."""


def unit_points(space: Space, records: list[Record]) -> Tensor:
    """``n x (D + 1)`` points of some records: designs in the unit cube, then the fidelity."""
    if not records:
        return torch.zeros(0, space.unit_dim + 1, dtype=torch.double)
    X = points(records)
    return torch.cat([space.to_unit(X[:, :-1]), X[:, -1:]], dim=-1)


class DesignTable:
    """The designs that were queried, row by row; only the rows of records that have changed are made anew.

    Forgetting it costs time and changes no result.
    """

    def __init__(self) -> None:
        self._space: Space | None = None
        self._records: PersistentSequence[Record] = PersistentSequence()
        self._table = torch.empty(0)

    def __call__(self, space: Space, records: PersistentSequence[Record], fidelity: int) -> tuple[Tensor, Tensor]:
        """The designs queried at a fidelity, ``n x D``, and whether each was observed, ``n``.

        Args:
            space: Where they are from.
            records: Everything queried so far.
            fidelity: Where they were queried.
        """
        with _LOCK:
            if self._space is not space:
                self._space, self._records = space, PersistentSequence()
                self._table = torch.zeros(0, space.unit_dim + 2, dtype=torch.double)
            self._bring_up(space, records)
            table = self._table[: len(records)]
            found = table[table[:, -2] == fidelity]
        return found[:, :-2], found[:, -1] > 0

    def _bring_up(self, space: Space, records: PersistentSequence[Record]) -> None:
        if fresh := records.changed(self._records):
            if len(records) > len(self._table):
                grown = torch.zeros(2 * len(records), space.unit_dim + 2, dtype=torch.double)
                grown[: len(self._table)] = self._table
                self._table = grown
            some = [records[i] for i in fresh]
            done = torch.tensor([[record.status == Status.DONE] for record in some], dtype=torch.double)
            self._table[fresh] = torch.cat([unit_points(space, some), done], dim=-1)
        self._records = records
