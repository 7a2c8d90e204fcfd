"""DIRECT, dividing rectangles, at the target fidelity."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import direct

from mfbo_torch.history import History, Query
from mfbo_torch.strategies.single.random_search import RandomSearch
from mfbo_torch.utils.validation import number


class _Unknown(Exception):
    """DIRECT wants a value that is not in the history."""

    def __init__(self, query: Query) -> None:
        self.query = query


class Direct(RandomSearch):
    """DIRECT [Jones1993direct]_ at the target fidelity, by SciPy's implementation.

    The algorithm is replayed over the history, and the first value that is not known is the next query. Pending, failed
    and forbidden designs count as the worst value seen, so that DIRECT can go on without them. Where it ends (every
    rectangle it would divide is known, on whole numbers) random designs follow.

    Args:
        eps: Least improvement wanted of a rectangle, relative to the best value, from 0 on.
        locally_biased: Use the locally biased variant.
    """

    takes_choices = False
    heeds_limits = False

    def __init__(self, *, eps: float = 1e-4, locally_biased: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.eps = number("eps", eps, 0)
        self.locally_biased = bool(locally_biased)

    def decide(self, history: History) -> Query:
        target = self.space.target
        records = [r for r in history if r.query.fidelity == target]
        worst = min((r.value for r in records if r.value is not None), default=0.0)
        known: dict[tuple[float, ...], float] = {}
        for r in records:
            known.setdefault(r.query.x, worst if r.value is None else r.value)

        def negated(u: np.ndarray) -> float:
            query = self.query(torch.as_tensor(u), target, stage="division")
            if not self.space.allows(torch.as_tensor(u)):
                return -worst
            if query.x not in known:
                raise _Unknown(query)
            return -known[query.x]

        most = 10 * len(known) + 1000  # on whole numbers DIRECT can divide known designs for ever
        try:
            ends = {"maxfun": most, "maxiter": most, "vol_tol": 0.0, "len_tol": 0.0}
            direct(negated, [(0.0, 1.0)] * self.space.dim, eps=self.eps, locally_biased=self.locally_biased, **ends)
        except _Unknown as unknown:
            return unknown.query
        return super().decide(history)
