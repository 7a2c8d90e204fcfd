"""What the failures of a history teach."""

from __future__ import annotations

import torch

from mfbo_torch.history import Status
from mfbo_torch.models.feasibility import Feasibility, Structure, likeliest
from mfbo_torch.strategies.common.fit_schedule import refit_size
from mfbo_torch.strategies.common.settled import Settled
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.memo import Memo


class Failures:
    """Models of feasibility; what is kept between decisions saves time and changes no result.

    Args:
        refit_every: Most records between two choices of a structure; there is one after each failure too.
    """

    def __init__(self, refit_every: int) -> None:
        self.refit_every = refit_every
        self._settled = Settled()
        self._structure: Memo[Structure] = Memo()
        self._feasibility: Memo[Feasibility] = Memo()

    def feasibility(self, snapshot: Snapshot, fidelity: int) -> Feasibility | None:
        """The model of all records that are done or have failed, at every fidelity; ``None`` while none has failed. One
        that was stopped says neither.

        Args:
            snapshot: The space, and what was queried so far.
            fidelity: The one whose evaluations are spoken of.
        """
        if not snapshot.history.tally.failed:
            return None
        return self._feasibility((self._settled(snapshot), fidelity), lambda: self._fitted(snapshot, fidelity))

    def _fitted(self, snapshot: Snapshot, fidelity: int) -> Feasibility:
        ended = [r for r in snapshot.records if r.status in (Status.DONE, Status.FAILED)]
        failed = [i for i, r in enumerate(ended) if r.status == Status.FAILED]
        points = snapshot.points(ended)
        succeeded = torch.tensor([r.status == Status.DONE for r in ended])
        size = max(failed[-1] + 1, refit_size(len(ended), self.refit_every))
        seen = points[:size], succeeded[:size]
        structure = self._structure([part.tolist() for part in seen], lambda: likeliest(*seen))
        return Feasibility(points, succeeded, fidelity, structure)
