"""Block sizes of the kernels: one table, ``tiles.json``, that ``python -m benchmarks.gpu --tiles`` writes anew."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

PAD = 128
"""Rows and columns of factors are padded to multiples of it, which all blocks divide."""
FP_FUSION = True
"""Products and sums contract to fused operations, whatever the version's default."""
TABLE = Path(__file__).with_name("tiles.json")


@dataclass(frozen=True)
class Tiles:
    """Block sizes of one launch: points to predict, rows of the factor and columns at a time, and how it is compiled.
    ``num_stages`` is loads under way, ``registers`` the most of a thread: by default all, as left alone the assembler
    spills for occupancy."""

    points: int
    rows: int
    columns: int
    num_warps: int
    num_stages: int
    registers: int = 255

    @property
    def options(self) -> dict[str, Any]:
        """How to compile."""
        return {
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "maxnreg": min(self.registers, 2**16 // (32 * self.num_warps)),
            "enable_fp_fusion": FP_FUSION,
        }


def load(table: Path = TABLE) -> dict[tuple[str, torch.dtype], Tiles]:
    """The table: by the way of the covariances or the launch, and the precision; the same for every architecture."""
    found = json.loads(table.read_text())
    return {(way, getattr(torch, kind)): Tiles(*sizes) for way, row in found.items() for kind, sizes in row.items()}


TILES = load()
