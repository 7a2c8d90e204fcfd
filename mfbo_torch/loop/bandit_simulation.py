r"""Many trials of a bandit strategy at once, decision for decision what it does one play at a time.

The bound of an arm that is not played grows with :math:`\log t` alone, and rounding keeps that order, so its bound some
steps ahead is an upper limit until then. Per trial only the arms with the largest limits are followed; while the best
of them exceeds the limit of all others it is the best of all, else that trial's arms are looked through anew.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import count

import torch
from torch import Tensor

from mfbo_torch.history import payable
from mfbo_torch.loop.run_options import check_capital
from mfbo_torch.metrics import Regret, regret_at
from mfbo_torch.problems.bandit.bandit import MultiFidelityBandit
from mfbo_torch.problems.noise import BLOCK
from mfbo_torch.strategies.bandit.base import ArmStrategy, Plays, warn_if_contradicted
from mfbo_torch.strategies.bandit.mf_ucb import Rule, UpperConfidenceBounds
from mfbo_torch.strategies.bandit.successive_elimination import SuccessiveElimination, least_played
from mfbo_torch.utils.device import usable_device
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import seeds

AHEAD = 128
"""Number of plays that the limits of the other arms hold for."""


class Simulation:
    """The plays of ``R`` trials: ``R x N`` ``arms`` and ``fidelities``, -1 after the end of a trial."""

    def __init__(self, problem: MultiFidelityBandit, capital: float, codes: Tensor) -> None:
        num_fidelities = problem.space.num_fidelities
        self.problem, self.capital = problem, capital
        self.arms = codes.div(num_fidelities, rounding_mode="floor")
        self.fidelities = torch.where(codes < 0, codes, codes % num_fidelities)

    def plays(self) -> Tensor:
        """Plays of each arm at each fidelity, ``R x K x M``."""
        shape = self.problem.means.shape
        cells = torch.where(self.arms < 0, shape.numel(), self.arms * shape[1] + self.fidelities)
        counts = torch.stack([torch.bincount(row, minlength=shape.numel() + 1)[:-1] for row in cells.long()])
        return counts.reshape(-1, *shape)

    def regret(self, capital: Tensor | Sequence[float]) -> Regret:
        r"""Pseudo-regret at ``g`` amounts of capital, ``R x g`` [Kandasamy2016mfucb]_ (Eq. 1)."""
        costs, top = torch.tensor([*self.problem.space.costs, torch.inf], dtype=torch.double), self.problem.means[:, -1]
        paid = costs[self.fidelities.long()]  # -1: never paid for
        return regret_at(capital, paid, top.max() - top[self.arms.long()], top.max())


@torch.no_grad()
def simulate(
    problem: MultiFidelityBandit,
    strategy: ArmStrategy,
    capital: float,
    trials: int | Sequence[int] = 20,
    *,
    device: str = "cpu",
) -> Simulation:
    """Spend a capital in each of many trials.

    Trial ``i`` makes the decisions of ``run`` with the problem's ``trial=i``: the same operations on the same
    numbers in the same order. A trial ends before the first play that does not fit.

    Args:
        problem: The arms.
        strategy: An MF-UCB, UCB or successive elimination.
        capital: What each trial may spend.
        trials: How many, counted from 0, or which.
        device: Where to compute, such as ``"cpu"`` or ``"cuda"``.
    """
    streams = seeds("trials", trials)
    if not isinstance(problem, MultiFidelityBandit):
        raise SettingError("problem", type(problem).__name__, "a MultiFidelityBandit, whose means are known")
    capital = check_capital(problem, capital)
    strategy = strategy.bind(problem.space, capital)
    players = _players(strategy, len(streams), usable_device("device", device))
    costs = torch.tensor(problem.space.costs, dtype=torch.double, device=device)
    means = problem.means.to(device).reshape(-1)
    alive = torch.arange(len(streams), device=device)
    counts = torch.zeros(len(streams), len(costs), dtype=torch.double, device=device)
    done: list[Tensor] = []
    check = since = 0
    for t in count():
        i = t % BLOCK
        if i == 0:
            noise = problem.noise([streams[row] for row in alive.tolist()], t // BLOCK).to(device).T.contiguous()
            codes = torch.empty(BLOCK, len(alive), dtype=torch.long, device=device)
            kept = torch.full((BLOCK, len(streams)), -1, dtype=torch.int32)
            done.append(kept)
        arm, fidelity = players.choose(t + 1)
        if t >= check:
            spent = (counts * costs).sum(-1)
            fits = spent + costs[fidelity] <= payable(capital)
            if not fits.all():
                players.warn()
                rows = fits.nonzero().squeeze(-1)
                if not len(rows):
                    break
                alive, arm, fidelity, spent, counts = (x[rows] for x in (alive, arm, fidelity, spent, counts))
                codes, noise = codes[:, rows], noise[:, rows]
                players.keep(rows)
            check = t + max(1, int((capital - spent.max().item()) / costs[-1].item()))
        code = arm * len(costs) + fidelity
        players.tell(problem.outcome(means[code], noise[i]))
        codes[i] = code
        if t + 1 >= check or i == BLOCK - 1:
            played = codes[since : i + 1]
            kept[since : i + 1, alive.cpu()] = played.to("cpu", torch.int32)
            for m in range(len(costs)):
                counts[:, m] += (played % len(costs) == m).sum(0)
            since = (i + 1) % BLOCK
    played = torch.cat(done).T
    return Simulation(problem, capital, played[:, : int((played >= 0).sum(1).max())].contiguous())


class _Players(ABC):
    """``R`` trials of one strategy: they choose their plays and take in the rewards."""

    @abstractmethod
    def choose(self, t: int) -> tuple[Tensor, Tensor]:
        """Arms and fidelities of play ``t``, ``R`` each."""

    @abstractmethod
    def tell(self, rewards: Tensor) -> None:
        """Take in the ``R`` rewards of what was chosen last."""

    def keep(self, rows: Tensor) -> None:
        """Go on with some of the trials only. Where every play costs the same all of them end together."""
        raise NotImplementedError

    def warn(self) -> None:
        """Warn if observations contradict the assumptions of the strategy."""
        return


class _Bounds(_Players):
    """MF-UCB or UCB.

    ``table`` has sums, plays and ``mean + ζ`` (0 before the first play) of every arm, ``3 x L x R x K``; ``near`` has
    those of the candidates, ``3 x L x R x C``, and is up to date between searches. Fidelities are entered one after
    another, so only the first ``depth`` can hold a play or get the next one.
    """

    def __init__(self, rule: Rule, num_arms: int, trials: int, device: torch.device) -> None:
        self.rule = rule._replace(zeta=rule.zeta.to(device), gamma=rule.gamma.to(device))
        self.num_arms, self.device, self.depth = num_arms, device, min(2, len(rule.zeta))
        self.fidelities = torch.tensor(rule.fidelities, device=device)
        self.table = torch.zeros(3, len(rule.zeta), trials, num_arms, dtype=torch.double, device=device)
        self.near = self.table[..., :0]
        self.arms = torch.zeros(trials, 0, dtype=torch.long, device=device)
        self.limit = torch.full((trials,), -torch.inf, dtype=torch.double, device=device)
        self.rows = torch.arange(trials, device=device)
        self.start = self.horizon = 0
        self.warned = False

    def choose(self, t: int) -> tuple[Tensor, Tensor]:
        if t <= self.num_arms:  # infinite bounds: each arm once, the lowest first
            self.place = torch.full_like(self.rows, t - 1)
            self.level = torch.zeros_like(self.rows)
            return self.place, self.fidelities[self.level]
        if t > self.horizon:
            self._look_ahead(t)
        now = self.levels[t - self.start]
        best, place, widths = self._best(now)
        if t > self.start:
            stale = best <= self.limit
            if stale.any():
                rows = stale.nonzero().squeeze(-1)
                self._settle(rows)
                if self._search(rows, now, self.arms.shape[1]):
                    self.horizon = t
                _, place, widths = self._best(now)
        self.place = self.rows * self.arms.shape[1] + place
        wide = widths.flatten(1)[:, self.place] >= self.rule.gamma[: self.depth].unsqueeze(-1)
        self.level = wide.to(torch.uint8).argmax(0)
        return self.arms.view(-1)[self.place], self.fidelities[self.level]

    def _look_ahead(self, t: int) -> None:
        """New limits for all trials, and as many candidates as leave no arm with the bound of one outside."""
        self._settle(self.rows)
        self.start, self.horizon = t, t + AHEAD
        levels = [self.rule.level(s) for s in range(t, self.horizon + 1)]
        self.levels = torch.tensor(levels, dtype=torch.double, device=self.device)
        size = min(4 * math.isqrt(self.num_arms), self.num_arms)
        limits = self._bounds(self.table[1:, : self.depth, self.rows], self.levels[-1])
        size = int((limits >= limits.topk(size).values[:, -1:]).sum(1).max())
        self.near = self.table.new_zeros(*self.table.shape[:3], size)
        self.arms = torch.zeros(len(self.rows), size, dtype=torch.long, device=self.device)
        self._search(self.rows, self.levels[0], size)

    def _bounds(self, table: Tensor, now: Tensor) -> Tensor:
        return (table[1] + self.rule.widths(now, table[0])).amin(0)

    def _best(self, now: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The largest bound among each trial's candidates, its place, and the widths, ``depth x R x C``."""
        widths = self.rule.widths(now, self.near[1, : self.depth])
        best, place = (self.near[2, : self.depth] + widths).amin(0).max(-1)
        return best, place, widths

    def _search(self, rows: Tensor, now: Tensor, size: int) -> bool:
        """The arms with the largest limits become candidates; whether one that is left out has as good a limit."""
        table = self.table[1:, : self.depth, rows]
        limits = self._bounds(table, self.levels[-1])
        limits.scatter_(-1, self._bounds(table, now).argmax(-1, keepdim=True), torch.inf)
        top = limits.topk(min(size + 1, self.num_arms))
        arms = top.indices[:, :size].sort(-1).values
        self.arms[rows] = arms
        self.near[:, :, rows] = self.table[:, :, rows.unsqueeze(-1), arms]
        if self.num_arms == size:
            return False
        self.limit[rows] = top.values[:, -1]
        return bool((top.values[:, -2] == top.values[:, -1]).any())

    def _settle(self, rows: Tensor) -> None:
        """Bring the table up to date."""
        self.table[:, :, rows.unsqueeze(-1), self.arms[rows]] = self.near[:, :, rows]

    def tell(self, rewards: Tensor) -> None:
        rows, size = self.arms.shape
        if not size:  # still the first play of each arm
            arm = int(self.place[0])
            self.table[0, 0, :, arm], self.table[1, 0, :, arm] = rewards, 1.0
            self.table[2, 0, :, arm] = rewards + self.rule.zeta[0]
            return
        cell = self.level * (rows * size) + self.place
        sums, plays, values = self.near.view(3, -1)
        sums.index_add_(0, cell, rewards)
        plays.index_add_(0, cell, torch.ones_like(rewards))
        values.index_copy_(0, cell, sums[cell] / plays[cell] + self.rule.zeta[self.level])
        if self.depth < len(self.rule.zeta):
            self.depth = max(self.depth, min(int(self.level.max()) + 2, len(self.rule.zeta)))

    def keep(self, rows: Tensor) -> None:
        size = self.arms.shape[1]
        self.table, self.near = self.table[:, :, rows], self.near[:, :, rows]
        self.arms, self.limit, self.level = self.arms[rows], self.limit[rows], self.level[rows]
        self.place = self.place[rows]
        self.rows = torch.arange(len(rows), device=self.device)
        if size:
            self.place = self.place % size + self.rows * size

    def warn(self) -> None:
        if len(self.rule.zeta) > 1 and not self.warned:
            self._settle(self.rows)
            sums, plays, _ = self.table.transpose(1, 2)
            self.warned = warn_if_contradicted(Plays(plays, plays, sums), self.rule.zeta, self.rule.tail)


class _Elimination(_Players):
    """Successive elimination: sums, plays, means and half-widths of every arm, ``R x K``."""

    def __init__(self, strategy: SuccessiveElimination, trials: int, device: torch.device) -> None:
        self.strategy, self.target = strategy, strategy.space.target
        self.sums, self.plays, self.means = torch.zeros(3, trials, strategy.num_arms, dtype=torch.double, device=device)
        self.widths = torch.full_like(self.sums, torch.inf)

    def choose(self, t: int) -> tuple[Tensor, Tensor]:
        self.arm = least_played(self.means, self.widths, self.plays).unsqueeze(-1)
        return self.arm.squeeze(-1), torch.full_like(self.arm.squeeze(-1), self.target)

    def tell(self, rewards: Tensor) -> None:
        sums = self.sums.gather(-1, self.arm) + rewards.unsqueeze(-1)
        plays = self.plays.gather(-1, self.arm) + 1.0
        self.sums.scatter_(-1, self.arm, sums)
        self.plays.scatter_(-1, self.arm, plays)
        self.means.scatter_(-1, self.arm, sums / plays)
        self.widths.scatter_(-1, self.arm, self.strategy.widths(plays))


def _players(strategy: ArmStrategy, trials: int, device: torch.device) -> _Players:
    if isinstance(strategy, UpperConfidenceBounds):
        return _Bounds(strategy.rule, strategy.num_arms, trials, device)
    if isinstance(strategy, SuccessiveElimination):
        return _Elimination(strategy, trials, device)
    raise SettingError("strategy", type(strategy).__name__, "MFUCB, UCB or SuccessiveElimination")
