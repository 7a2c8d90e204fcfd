r"""Multi-fidelity bandits with known means: arms to play again and again, each time for a noisy reward."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mfbo_torch.confidence.concentration import decays_fast, tail_of
from mfbo_torch.history import History
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.noise import Kind, block, drawn
from mfbo_torch.space import Parameter, Space, checked_costs, checked_zeta
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import one_of, whole

REWARDS: dict[str, Kind] = {"gaussian": "normal", "bernoulli": "uniform"}
"""The kinds of rewards, and the noise that each is made of."""


class MultiFidelityBandit(Problem):
    r"""``K`` arms whose reward at fidelity ``m`` has a mean within :math:`\zeta^{(m)}` of the target's.

    The parameter is ``arm``, ``0 ... K - 1``. A play costs that of its fidelity, and earns the mean of the arm at the
    target whatever the fidelity [Kandasamy2016mfucb]_ (Sec. 2). :meth:`evaluate` tells the mean, :meth:`observe` draws
    a reward: the one of query ``t`` is a fixed function of ``(trial, t, arm, fidelity)``.

    Args:
        means: :math:`\mu_k^{(m)}`, ``K x M``, the target last; within ``zeta``, and in [0, 1] with Bernoulli rewards.
        zeta: ``M`` bounds on :math:`|\mu_k^{(M)} - \mu_k^{(m)}|`, decreasing to 0.
        costs: ``M`` increasing costs.
        rewards: ``"gaussian"`` or ``"bernoulli"``.
        scale: Standard deviation of Gaussian rewards, 1 if not given.
        trial: Which stream of rewards; a run takes its seed if not given.

    Warns:
        UserWarning: ζ decays slower than Assumption 1 asks, and regret bounds get worse with ``M``.
    """

    def __init__(
        self,
        means: Sequence[Sequence[float]],
        zeta: Sequence[float],
        costs: Sequence[float],
        rewards: Literal["gaussian", "bernoulli"] = "gaussian",
        scale: float | None = None,
        *,
        trial: int | None = None,
    ) -> None:
        one_of("rewards", rewards, REWARDS)
        self.rewards = rewards
        self.tail = tail_of("gaussian" if rewards == "gaussian" else "bounded", scale)
        self.scale = 1.0 if scale is None else float(scale)
        self.trial = trial
        costs = checked_costs(costs)
        self.means = _table(means, len(costs))
        bounds = checked_zeta(zeta, self.means.shape[1])
        self.space = Space((Parameter("arm", 0, len(self.means) - 1, integer=True),), costs, zeta=bounds)
        excess = (self.means - self.means[:, -1:]).abs() - torch.tensor(bounds, dtype=torch.double)
        if excess.max() > 1e-12:
            arm, m = divmod(int(excess.argmax()), len(bounds))
            wanted = f"within zeta = {bounds[m]:g} of the target's {self.means[arm, -1]:g}"
            raise SettingError(f"means[{arm}][{m}]", self.means[arm, m].item(), wanted)
        if rewards == "bernoulli" and (self.means.min() < 0 or self.means.max() > 1):
            wrong = self.means[(self.means < 0) | (self.means > 1)][0].item()
            raise SettingError("means", wrong, "between 0 and 1 where rewards is 'bernoulli'")
        if not decays_fast(bounds, self.tail):
            warnings.warn(f"zeta = {list(bounds)} decays slower than Assumption 1 of MF-UCB asks", stacklevel=2)
        self.optimum = self.means[:, -1].max().item()
        self.worst = self.means[:, -1].min().item()

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The mean of the arm at the fidelity."""
        return self.means[played(self, x, fidelity)].item()

    def observe(self, x: Sequence[float], fidelity: int, number: int) -> float:
        """The reward of query ``number``."""
        mean = torch.tensor(self.evaluate(x, fidelity), dtype=torch.double)
        noise = torch.tensor(drawn(self.trial, number, REWARDS[self.rewards]), dtype=torch.double)
        return self.outcome(mean, noise).item()

    def noise(self, trials: Sequence[int], number: int) -> Tensor:
        """The noise of plays ``BLOCK n ... BLOCK (n + 1) - 1`` of some trials, ``R x BLOCK``, on the CPU."""
        return torch.from_numpy(np.stack([block(REWARDS[self.rewards], trial, number) for trial in trials]))

    def outcome(self, mean: Tensor, noise: Tensor) -> Tensor:
        """Rewards from means and noise, elementwise: normal or uniform numbers turned into what is seen."""
        if self.rewards == "gaussian":
            return mean + self.scale * noise
        return (noise < mean).to(mean.dtype)

    def pseudo_rewards(self, history: History) -> Tensor:
        """The target's mean of each arm played [Kandasamy2016mfucb]_ (``q_t`` of Eq. 1)."""
        arms = torch.tensor([round(r.query.x[0]) for r in history], dtype=torch.long)
        return self.means[arms, -1]

    def at_target(self) -> MultiFidelityBandit:
        """The same arms at the target alone, as a method that knows no other fidelity sees them."""
        scale = self.scale if self.rewards == "gaussian" else None
        top = self.space.costs[-1:]
        return MultiFidelityBandit(self.means[:, -1:].tolist(), (0.0,), top, self.rewards, scale, trial=self.trial)


class _Design(NamedTuple):
    """One of the four problems: target means evenly over ``span``, or normal where it is ``None``."""

    arms: int
    costs: tuple[float, ...]
    zeta: tuple[float, ...]
    rewards: Literal["gaussian", "bernoulli"]
    scale: float | None
    span: tuple[float, float] | None
    capital: float


DESIGNS = {
    1: _Design(500, (1, 10, 100), (0.2, 0.1, 0.0), "gaussian", 0.2, (0.0, 1.0), 5e5),
    2: _Design(500, (1, 5, 20, 50), (1.0, 0.5, 0.2, 0.0), "gaussian", 1.0, None, 2.5e5),
    3: _Design(200, (1, 10), (0.2, 0.0), "bernoulli", None, (0.1, 0.9), 1e5),
    4: _Design(1000, (1, 3, 10, 30, 100), (0.5, 0.2, 0.1, 0.05, 0.0), "bernoulli", None, (0.1, 0.9), 1e6),
}


class SyntheticBandit(MultiFidelityBandit):
    r"""The four problems of Fig. 2 [Kandasamy2016mfucb]_: arms, costs, kind of rewards and capital as there.

    The means and ζ are our own, since the paper prints neither. Target means, in random order, are

    1. 500 evenly spaced in [0, 1], ζ = (0.2, 0.1), rewards of deviation 0.2;
    2. 500 standard normal ones, ζ = (1, 0.5, 0.2), rewards of deviation 1;
    3. 200 evenly spaced in [0.1, 0.9], ζ = 0.2, Bernoulli;
    4. 1,000 evenly spaced in [0.1, 0.9], ζ = (0.5, 0.2, 0.1, 0.05), Bernoulli;

    and at every fidelity below the mean of each arm is off by an amount uniform in :math:`\pm\zeta^{(m)}`, drawn
    independently, then (Bernoulli) moved into [0, 1], which brings it no farther. The ``capital`` is the largest in the
    figure.

    Args:
        number: 1 to 4.
        seed: Seed of the means.
        trial: Which stream of rewards; a run takes its seed if not given.
    """

    def __init__(self, number: int = 1, *, seed: int = 0, trial: int | None = None) -> None:
        design = DESIGNS[whole("number", number, 1, len(DESIGNS))]
        rng = np.random.default_rng([whole("seed", seed, 0), number])
        K = design.arms
        target = np.sort(rng.standard_normal(K)) if design.span is None else np.linspace(*design.span, K)
        means = target[:, None] + rng.uniform(-1.0, 1.0, (K, len(design.zeta))) * design.zeta
        if design.rewards == "bernoulli":
            means = means.clip(0.0, 1.0)
        self.number, self.capital = number, design.capital
        rows = means[rng.permutation(K)].tolist()
        super().__init__(rows, design.zeta, design.costs, design.rewards, design.scale, trial=trial)


def played(problem: Problem, x: Sequence[float], fidelity: int) -> tuple[int, int]:
    """The arm and the fidelity of a query; a ``SettingError`` where there is no such one."""
    (arm,), level = problem.checked(x, fidelity)
    last = problem.space.parameters[0].upper
    return whole("arm", round(arm) if arm == round(arm) else arm, 0, round(last)), level


def _table(means: Sequence[Sequence[float]], num_fidelities: int) -> Tensor:
    try:
        table = torch.tensor([[float(mean) for mean in row] for row in means], dtype=torch.double)
    except (TypeError, ValueError):
        table = torch.zeros(0)
    if table.dim() != 2 or table.shape[1] != num_fidelities or not table.isfinite().all():
        wrong = "a table" if table.dim() != 2 or table.shape[1] != num_fidelities else "not finite"
        raise SettingError("means", wrong, f"a K x {num_fidelities} table of finite numbers, a column for each cost")
    if len(table) < 2:
        raise SettingError("means", table.tolist(), "those of at least two arms")
    return table
