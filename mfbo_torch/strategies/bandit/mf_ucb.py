"""MF-UCB: upper confidence bounds over arms with several fidelities, and UCB at the target alone."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mfbo_torch.confidence.concentration import Tail, switching_thresholds
from mfbo_torch.history import History, Query
from mfbo_torch.space import checked_zeta
from mfbo_torch.strategies.bandit.base import ArmStrategy, Plays, means, warn_if_contradicted
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.validation import number


class Rule(NamedTuple):
    """Equation (3) and the switching rule over the ``L`` fidelities that are played, the target last.

    The last ``zeta`` is 0, the last ``gamma`` minus infinity: the target is always wide enough. ``tail`` is ψ.
    """

    fidelities: tuple[int, ...]
    zeta: Tensor
    gamma: Tensor
    tail: Tail
    rho: float

    def level(self, t: int) -> float:
        """``ρ log t``; at ``t = 1``, where nothing has been played, the least positive number, as ``1/0 = ∞``."""
        return max(self.rho * math.log(t), sys.float_info.min)

    def widths(self, level: Tensor, plays: Tensor) -> Tensor:
        """``ψ^{-1}(ρ log t / T)``, infinite for what was never played."""
        return self.tail.inverse(level / plays)


class UpperConfidenceBounds(ArmStrategy):
    """An arm with the largest upper confidence bound, at the lowest fidelity that has more to tell.

    Args:
        rho: ``ρ``. The theory needs more than 4; smaller values explore less and do better in practice.
    """

    def __init__(self, *, rho: float = 2.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.rho = number("rho", rho, above=0)
        self._rule: Memo[Rule] = Memo()

    @property
    def rule(self) -> Rule:
        """What decides; the same for every history."""
        return self._rule(self.space, self.make_rule)

    @abstractmethod
    def make_rule(self) -> Rule:
        """The rule for the space at hand."""

    def decide(self, history: History) -> Query:
        rule = self.rule
        chosen = list(rule.fidelities)
        plays = Plays(*(table[chosen] for table in self.plays(history)))
        if len(chosen) > 1:
            warn_if_contradicted(plays, rule.zeta, rule.tail)
        bounds, widths = self.bounds(plays)
        arm = int(bounds.argmax())
        first = int((widths[:, arm] >= rule.gamma).to(torch.uint8).argmax())
        return self.play(arm, rule.fidelities[first])

    def bounds(self, plays: Plays) -> tuple[Tensor, Tensor]:
        r"""Upper bounds of the arms, ``K``, and widths at each fidelity that is played, ``L x K``.

        :math:`B_k = \min_m \bar X_k^{(m)} + \zeta^{(m)} + \psi^{-1}(\rho \log t / T_k^{(m)})`
        [Kandasamy2016mfucb]_ (Eq. 3) with :math:`1/0 = \infty`, ``t`` the number of the coming play.
        """
        rule = self.rule
        t = 1 + int(plays.asked.sum())
        widths = rule.widths(torch.tensor(rule.level(t), dtype=torch.double), plays.asked)
        return (means(plays) + rule.zeta.unsqueeze(-1) + widths).amin(0), widths


class MFUCB(UpperConfidenceBounds):
    r"""MF-UCB [Kandasamy2016mfucb]_ (Algorithm 1).

    Plays :math:`I_t = \operatorname{argmax}_k B_k` (Eq. 3), the lowest of several, at the lowest fidelity with
    :math:`\psi^{-1}(\rho \log t / T^{(m)}_{I_t}) \ge \gamma^{(m)}` (Eq. 4), the target if there is none. Warns with a
    :class:`~mfbo_torch.strategies.bandit.base.ZetaWarning` if observations contradict ``zeta``.

    Args:
        zeta: ``M`` bounds on :math:`|\mu_k^{(M)} - \mu_k^{(m)}|`, decreasing to 0 at the target; the
            problem's if not given.

    Raises:
        SettingError: ``zeta`` does not decrease to 0, or nobody knows it.
    """

    def __init__(self, *, zeta: Sequence[float] | None = None, **settings: Any) -> None:
        self.zeta = zeta
        super().__init__(**settings)

    def make_rule(self) -> Rule:
        space = self.space
        zeta = space.zeta if self.zeta is None else checked_zeta(self.zeta, space.num_fidelities)
        if zeta is None:
            raise SettingError("zeta", None, f"{space.num_fidelities} numbers that decrease to 0, the target's")
        bounds = torch.tensor(zeta, dtype=torch.double)
        gamma = torch.cat([switching_thresholds(space.costs, zeta, self.tail), bounds.new_full((1,), -math.inf)])
        return Rule(tuple(range(len(zeta))), bounds, gamma, self.tail, self.rho)


class UCB(UpperConfidenceBounds):
    r"""UCB at the target fidelity: :math:`\operatorname{argmax}_k \bar X_k + \psi^{-1}(\rho \log t / T_k)`.

    With rewards in [0, 1] and ``ρ = 4`` it is UCB1 [Auer2002finite]_; what was played at other
    fidelities is left out.
    """

    def make_rule(self) -> Rule:
        zeta = torch.zeros(1, dtype=torch.double)
        return Rule((self.space.target,), zeta, torch.full_like(zeta, -math.inf), self.tail, self.rho)
