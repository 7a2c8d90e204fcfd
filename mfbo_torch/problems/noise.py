"""The noise of a query: a fixed function of the run's noise stream and the number of the query."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

Kind = Literal["normal", "uniform"]
BLOCK = 1024
"""Number of queries whose noise is drawn at once."""


def block(kind: Kind, trial: int, number: int) -> np.ndarray:
    """The noise of queries ``BLOCK n ... BLOCK (n + 1) - 1`` of a stream: standard normal, or uniform in [0, 1)."""
    rng = np.random.Generator(np.random.Philox(key=[trial, number]))
    return rng.standard_normal(BLOCK) if kind == "normal" else rng.random(BLOCK)


_cached = lru_cache(maxsize=16)(block)


def drawn(trial: int | None, number: int, kind: Kind = "normal") -> float:
    """The noise of one query; without a stream it is that of stream 0."""
    return float(_cached(kind, trial or 0, number // BLOCK)[number % BLOCK])


def generator(trial: int | None, number: int) -> np.random.Generator:
    """For a query that takes more random numbers than one."""
    return np.random.default_rng([trial or 0, number])
