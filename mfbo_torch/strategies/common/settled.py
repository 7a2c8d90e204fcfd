"""What has ended in a history, whatever is in flight."""

from __future__ import annotations

from mfbo_torch.history import Record, Status
from mfbo_torch.space import Space
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.persistent_sequence import PersistentSequence


class Settled:
    """A key of what depends on the ended records alone: between two values a decision computes it once.

    Forgetting it costs time and changes no result.
    """

    def __init__(self) -> None:
        self._last: tuple[Space | None, PersistentSequence[Record], object] = None, PersistentSequence(), object()

    def __call__(self, snapshot: Snapshot) -> object:
        """An object that is the same for two snapshots of a space, one after the other, only if the same records have
        ended."""
        records, (space, former, key) = snapshot.records, self._last
        comparable = space is snapshot.space and len(records) >= len(former)
        some = records.changed(former) if comparable else []
        if not comparable or any(_ended(records[i]) or (i < len(former) and _ended(former[i])) for i in some):
            key = object()
        self._last = snapshot.space, records, key
        return key


def _ended(record: Record) -> bool:
    return record.status != Status.PENDING
