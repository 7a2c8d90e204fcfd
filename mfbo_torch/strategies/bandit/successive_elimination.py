"""Successive elimination at the target fidelity."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mfbo_torch.confidence.concentration import anytime_width
from mfbo_torch.history import History, Query
from mfbo_torch.strategies.bandit.base import ArmStrategy, Plays, means
from mfbo_torch.utils.validation import number


class SuccessiveElimination(ArmStrategy):
    r"""Plays the arms in turn and leaves those that are surely not the best [EvenDar2006elimination]_ (Sec. 3.1).

    An arm has left while its upper bound lies below the largest lower bound, both at
    :math:`\bar X_k \pm \psi^{-1}(\log(2 K T_k (T_k + 1) / \delta) / T_k)`; of the others the least played
    one, the lowest of several, is next. The best arm stays in with probability ``1 - δ``.

    Args:
        delta: ``δ``, in (0, 1).
    """

    def __init__(self, *, delta: float = 0.05, **settings: Any) -> None:
        super().__init__(**settings)
        self.delta = number("delta", delta, above=0, below=1)
        self._table = torch.zeros(0, dtype=torch.double)

    def decide(self, history: History) -> Query:
        plays = Plays(*(table[-1] for table in self.plays(history)))
        arm = least_played(means(plays), self.widths(plays.asked), plays.asked)
        return self.play(int(arm), self.space.target)

    def widths(self, plays: Tensor) -> Tensor:
        """The half-widths after given numbers of plays, read off a table (computed alike on every device)."""
        most = int(plays.max())
        if most >= len(self._table):
            counts = torch.arange(max(1024, 2 ** (most + 1).bit_length()), dtype=torch.double)
            self._table = anytime_width(counts, self.num_arms, self.tail, self.delta)
        return self._table.to(plays.device)[plays.long()]


def least_played(mean: Tensor, widths: Tensor, plays: Tensor) -> Tensor:
    """The least played arm that has not left, from ``... x K`` means, half-widths and plays."""
    best = (mean - widths).amax(-1, keepdim=True)
    return torch.where(mean + widths >= best, plays, torch.inf).argmin(-1)
