"""What an evaluation needs of a cluster, for each fidelity."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from mfbo_torch.loop import Kind
from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.validation import number, one_of, whole

KINDS: tuple[str, ...] = get_args(Kind)
"""The names of the executors."""
_OF = {
    "cpus": ("ray", "slurm", "submitit"),
    "gpus": ("ray", "slurm", "submitit"),
    "memory": ("ray", "slurm"),
    "time": ("slurm", "submitit"),
    "partition": ("slurm",),
    "sbatch": ("slurm",),
}
"""The executors that know each resource."""
_CLOCK = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")


@dataclass(frozen=True)
class Resources:
    """What one evaluation needs.

    Attributes:
        cpus: Cores.
        gpus: GPUs; Ray also shares one, as in ``0.5``.
        memory: Gigabytes.
        time: Seconds after which the scheduler ends its job, at least 60; also ``"H:MM:SS"`` or ``"D-HH:MM:SS"``.
        partition: The partition of Slurm.
        sbatch: Further options of ``sbatch`` by name, such as ``{"account": "physics"}``.
    """

    cpus: int = 1
    gpus: float = 0
    memory: float | None = None
    time: float | None = None
    partition: str | None = None
    sbatch: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole("executor.cpus", self.cpus)
        number("executor.gpus", self.gpus, 0)
        if self.memory is not None:
            number("executor.memory", self.memory, above=0, wanted="a number of gigabytes above 0")
        if isinstance(self.time, str) and (clock := _CLOCK.fullmatch(self.time)):
            days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
            object.__setattr__(self, "time", ((24 * days + hours) * 60 + minutes) * 60 + seconds)
        if self.time is not None:
            wanted = "a number of seconds from 60 on, or H:MM:SS: clusters count minutes"
            number("executor.time", self.time, 60, wanted=wanted)
        if self.partition is not None and not (isinstance(self.partition, str) and self.partition):
            raise SettingError("executor.partition", self.partition, "the name of a partition")
        if not isinstance(self.sbatch, Mapping):
            raise SettingError("executor.sbatch", self.sbatch, "a mapping of sbatch's options")


@dataclass(frozen=True)
class Placement:
    """An executor, and the resources of evaluations on it; the setting ``executor``."""

    kind: str
    resources: Resources = Resources()
    fidelities: Mapping[int, Resources] = field(default_factory=dict)
    """Those of fidelities that differ."""

    def of(self, fidelity: int | None) -> Resources:
        """The resources of an evaluation."""
        return self.resources if fidelity is None else self.fidelities.get(fidelity, self.resources)

    @property
    def all(self) -> list[Resources]:
        """Every kind of resources that an evaluation may have."""
        return [self.resources, *self.fidelities.values()]

    @classmethod
    def read(cls, setting: str | Mapping[str, Any]) -> Placement:
        """That of a plain word, ``"ray"``, or of ``{"kind": "slurm", "time": 3600, "fidelities": {1: {"gpus": 1}}}``.

        A fidelity has what is said for it, and the rest from what is said for all; so with each option of ``sbatch``.
        """
        given: Mapping[str, Any] = setting if isinstance(setting, Mapping) else {"kind": setting}
        if "kind" not in given:
            wanted = f"a mapping with kind, one of {', '.join(KINDS)}"
            raise SettingError("executor", dict(given), wanted)
        kind: Any = one_of("executor", given["kind"], KINDS)
        common = _resources(kind, {k: v for k, v in given.items() if k not in ("kind", "fidelities")}, Resources())
        each = given.get("fidelities") or {}
        if not isinstance(each, Mapping):
            raise SettingError("executor.fidelities", each, "a mapping of fidelity to its resources")
        found = {}
        for m, own in each.items():
            if not re.fullmatch("[0-9]{1,9}", str(m)) or not isinstance(own, Mapping):
                raise SettingError("executor.fidelities", {m: own}, "fidelities, 0 the cheapest, each with a mapping")
            found[int(m)] = _resources(kind, own, common)
        return cls(kind, common, found)

    def check(self, fidelities: int) -> None:
        """Refuse resources of a fidelity that a problem does not have."""
        if beyond := [m for m in self.fidelities if m >= fidelities]:
            raise SettingError("executor.fidelities", beyond[0], f"a fidelity from 0 to {fidelities - 1}")


def _resources(kind: str, given: Mapping[Any, Any], common: Resources) -> Resources:
    known = [f.name for f in fields(Resources) if kind in _OF[f.name]]
    for name in given:
        if name not in known:
            names = f"one of {', '.join(['kind', *known, 'fidelities'] if known else ['kind'])} for {kind}"
            raise SettingError(f"executor.{name}", given[name], f"{names}{did_you_mean(str(name), known)}")
    if isinstance(own := given.get("sbatch"), Mapping):
        given = {**given, "sbatch": {**common.sbatch, **own}}
    found = replace(common, **given)
    if kind != "ray" and found.gpus != int(found.gpus):
        raise SettingError("executor.gpus", found.gpus, f"a whole number for {kind}; Ray alone shares a GPU")
    return found
