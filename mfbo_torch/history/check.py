"""Whether a history can be one of a problem."""

from __future__ import annotations

from collections.abc import Iterable

from mfbo_torch.history.record import Record, Status
from mfbo_torch.space import Space
from mfbo_torch.utils.errors import SettingError


def check_history(history: Iterable[Record], space: Space, setting: str = "journal") -> None:
    """Refuse a history with a query that has another number of parameters, another fidelity, or lies out of bounds."""
    for record in history:
        dim, fidelity = len(record.query.x), record.query.fidelity
        if dim != space.dim or not 0 <= fidelity <= space.target:
            wanted = f"a history of this problem: {space.dim} parameters, fidelities 0 to {space.target}"
            raise SettingError(setting, f"{dim} parameters, fidelity {fidelity}", wanted)
        if not space.contains(record.query.x):
            bounds = ", ".join(f"{p.name} {p.extent}" for p in space.parameters)
            given = f"query {record.id} at {list(record.query.x)}"
            raise SettingError(setting, given, f"a history of this problem: {bounds}, whole where they are")
        for limit in space.outcomes if record.status == Status.DONE else ():
            if limit.name not in record.outcomes:
                wanted = f"a history of this problem, in which {limit.name} was measured"
                raise SettingError(setting, f"query {record.id} without {limit.name}", wanted)
