"""Whether a history can be one of a problem."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from mfbo_torch.history.record import Record, Status
from mfbo_torch.space import Space
from mfbo_torch.utils.errors import SettingError


def check_history(history: Iterable[Record], space: Space, setting: str = "journal") -> None:
    """Refuse a history with a query that has another number of parameters, another fidelity, lies out of bounds, breaks
    a constraint, or is no candidate."""
    records = [*history]
    for record in records:
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
    if records and (space.constraints or space.candidates):
        U = space.to_unit(torch.tensor([record.query.x for record in records], dtype=torch.double))
        snapped = space.snap(U) if space.candidates else U
        kept = {"one of its candidates": U.isclose(snapped).all(-1), "within its constraints": space.allows(U)}
        for wanted, each in kept.items():
            if not each.all():
                record = records[int(each.int().argmin())]
                given = f"query {record.id} at {list(record.query.x)}"
                raise SettingError(setting, given, f"a history of this problem: {wanted}")
