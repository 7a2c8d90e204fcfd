"""MF-UCB one play and one arm at a time, in plain Python: what the strategy and the simulator are checked against."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mfbo_torch.problems import MultiFidelityBandit

Function = Callable[[float], float]


def sub_gaussian(scale: float) -> tuple[Function, Function]:
    """ψ and its inverse for rewards of a scale; rewards in [0, 1] have scale 1/2."""
    return lambda e: e * e / (2 * scale**2), lambda y: math.sqrt(y * (2 * scale**2))


def gamma(costs: Sequence[float], zeta: Sequence[float], psi: Function, inverse: Function) -> list[float]:
    """Equation (4): ``M - 1`` thresholds."""
    return [inverse(costs[m] / costs[m + 1] * psi(zeta[m])) for m in range(len(costs) - 1)]


def width(t: int, count: int, rho: float, inverse: Function) -> float:
    """``ψ^{-1}(ρ log t / T)`` with ``1/0 = ∞``."""
    return math.inf if count == 0 else inverse(rho * math.log(t) / count)


def bound(
    t: int, sums: Sequence[float], counts: Sequence[int], zeta: Sequence[float], rho: float, inverse: Function
) -> float:
    """Equation (3) for one arm, whose rewards at each fidelity sum to ``sums``."""
    tried = ((total, count, bias) for total, count, bias in zip(sums, counts, zeta, strict=True) if count)
    return min((total / n + bias + width(t, n, rho, inverse) for total, n, bias in tried), default=math.inf)


def trial(problem: MultiFidelityBandit, capital: float, rho: float = 2.0) -> list[tuple[int, int]]:
    """The arm and the fidelity of every play of one trial (Algorithm 1), the problem's own."""
    K, M = problem.means.shape
    costs, zeta = problem.space.costs, problem.space.zeta or ()
    psi, inverse = sub_gaussian(problem.scale if problem.rewards == "gaussian" else 0.5)
    thresholds = gamma(costs, zeta, psi, inverse)
    sums, counts = [[0.0] * M for _ in range(K)], [[0] * M for _ in range(K)]
    spent, played = 0.0, []
    while True:
        t = len(played) + 1
        upper = [bound(t, sums[k], counts[k], zeta, rho, inverse) for k in range(K)]
        arm = upper.index(max(upper))
        wide = (m for m in range(M - 1) if width(t, counts[arm][m], rho, inverse) >= thresholds[m])
        fidelity = next(wide, M - 1)
        if spent + costs[fidelity] > capital:
            return played
        spent += costs[fidelity]
        sums[arm][fidelity] += problem.observe((arm,), fidelity, t - 1)
        counts[arm][fidelity] += 1
        played.append((arm, fidelity))
