"""MF-NAIVE: explore the cheapest fidelity, then verify the best of it at the target."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from mfbo_torch.history import History, Query
from mfbo_torch.strategies.common.deduplicate import clear
from mfbo_torch.strategies.single.analytic import GPUCB
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import one_of, whole


class MFNaive(GPUCB):
    r"""Half of the capital at fidelity 0, the rest at the target on its best points [Kandasamy2016mfgpucb]_ (D.1).

    GP-UCB (or uniform random search) queries fidelity 0 for at most ``min(Λ / (2 λ^(1)), 500)`` queries;
    then the target is queried at those points by decreasing fidelity-0 value. The paper prints
    ``max``, but calls 500 a limit "to avoid unnecessary computation", and the larger of the two could
    exceed the capital: it is read as ``min``. When every point has been verified, random designs at
    the target follow. With one fidelity there is nothing to verify: it is GP-UCB (or random search)
    throughout.

    Args:
        explore: ``"gp_ucb"`` or ``"random"``, the search at fidelity 0.
        limit: Most queries at fidelity 0.
        refit_every: Most observations between two fits of the hyper-parameters.
        **settings: Those of :class:`~mfbo_torch.strategies.single.analytic.GPUCB`; ``capital`` is needed.

    Raises:
        SettingError: ``explore`` or ``limit`` is not allowed, or at the first decision: no capital is known.
    """

    heeds_limits = False

    def __init__(self, *, explore: str = "gp_ucb", limit: int = 500, refit_every: int = 50, **settings: Any) -> None:
        super().__init__(refit_every=refit_every, **settings)
        self.explore, self.limit = one_of("explore", explore, ("gp_ucb", "random")), whole("limit", limit)

    @property
    def level(self) -> int:
        return 0

    def budget(self) -> float | None:
        if self.space.num_fidelities == 1:
            return self.capital
        if self.capital is None:
            raise SettingError("capital", None, "known: half of it is spent at fidelity 0")
        return self.capital / 2

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """The GP at fidelity 0, if it is what explores."""
        return None if self.explore == "random" else super().predict(history, X)

    def next_query(self, snapshot: Snapshot) -> Query:
        """Fidelity 0 first, the target afterwards."""
        if self._exploring(snapshot):
            return self._random(snapshot, 0) if self.explore == "random" else super().next_query(snapshot)
        target = self.space.target
        verified = {r.query.x for r in snapshot.records if r.query.fidelity == target}
        found = sorted(snapshot.at(0), key=lambda r: (-(r.value or 0.0), r.id))
        following = next((r for r in found if r.query.x not in verified), None)
        if following is None:
            return self._random(snapshot, target)
        return Query(following.query.x, target, {"stage": "verify", "explored": following.id})

    def _exploring(self, snapshot: Snapshot) -> bool:
        """Whether fidelity 0 is queried next: there is no other, or its share pays for one more."""
        budget = self.budget()
        if self.space.num_fidelities == 1 or budget is None:
            return True
        cheap = [r.cost for r in snapshot.records if r.query.fidelity == 0 and r.decided]
        following = math.fsum([*cheap, snapshot.costs[0]])
        return not cheap or (len(cheap) < self.limit and following <= budget * (1 + 1e-9))

    def _random(self, snapshot: Snapshot, fidelity: int) -> Query:
        generator = snapshot.generator(self.seed)
        u = self.random_design(generator)
        return self.query(clear(u, fidelity, snapshot, generator), fidelity, stage="random")
