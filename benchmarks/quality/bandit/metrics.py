r"""Regret of multi-fidelity bandits: measured, and between which bounds.

References:

.. [Kandasamy2016mfucb]
    K. Kandasamy, G. Dasarathy, J. Schneider, B. Póczos. The Multi-fidelity Multi-armed Bandit.
    NeurIPS 2016.

.. [Lai1985efficient]
    T. Lai, H. Robbins. Asymptotically Efficient Adaptive Allocation Rules. Advances in Applied
    Mathematics 6, 1985.
"""

import math

import torch
from torch import Tensor

from mfbo_torch.confidence.concentration import switching_thresholds
from mfbo_torch.history import History
from mfbo_torch.metrics import Regret, query_costs, regret_at
from mfbo_torch.problems.bandit.bandit import MultiFidelityBandit

OPTIMAL = -1
"""Where :func:`partition` puts the optimal arms."""


def pseudo_regret(history: History, problem: MultiFidelityBandit, capital: float) -> Regret:
    """Pseudo-regret of the first plays whose costs sum to at most ``capital``, scalars."""
    best = problem.means[:, -1].max()
    found = regret_at([capital], query_costs(history), best - problem.pseudo_rewards(history), best)
    return Regret(*(part.squeeze(0) for part in found))


def plays(history: History, problem: MultiFidelityBandit) -> Tensor:
    """Plays of each arm at each fidelity, ``K x M``, pending and failed ones included."""
    counts = torch.zeros_like(problem.means, dtype=torch.long)
    for record in history:
        counts[round(record.query.x[0]), record.query.fidelity] += 1
    return counts


def gaps(problem: MultiFidelityBandit) -> Tensor:
    r""":math:`\Delta_k^{(m)} = \mu_* - \mu_k^{(m)} - \zeta^{(m)}`, ``K x M`` [Kandasamy2016mfucb]_ (Sec. 2)."""
    return problem.means[:, -1].max() - problem.means - torch.tensor(problem.space.zeta, dtype=torch.double)


def thresholds(problem: MultiFidelityBandit) -> Tensor:
    """``γ`` of the problem, ``M - 1`` numbers [Kandasamy2016mfucb]_ (Eq. 4)."""
    return switching_thresholds(problem.space.costs, problem.space.zeta or (), problem.tail)


def partition(problem: MultiFidelityBandit) -> Tensor:
    r"""The fidelity that tells each arm from the optimum, ``K`` whole numbers [Kandasamy2016mfucb]_ (Sec. 4).

    The lowest with :math:`\Delta_k^{(m)} > 2 \gamma^{(m)}`, else the target; :data:`OPTIMAL` for the optimal arms.
    """
    gap = gaps(problem)
    told = torch.cat([gap[:, :-1] > 2 * thresholds(problem), gap[:, -1:] > -torch.inf], dim=1)
    return torch.where(gap[:, -1] > 0, told.to(torch.uint8).argmax(1), OPTIMAL)


def expected_plays(problem: MultiFidelityBandit, n: float, rho: float) -> Tensor:
    r"""What Lemma 5 bounds the plays of each arm by after ``n`` plays, ``K x M`` [Kandasamy2016mfucb]_ (Table 1).

    :math:`\rho \log n / \psi(\gamma^{(\ell)})` below the arm's own fidelity ``m`` (see :func:`partition`),
    :math:`\rho \log n / \psi(\Delta_k^{(m)} / 2)` there, and 0 above, where it stands for a constant. An
    optimal arm's plays at the target are not bounded: infinity.
    """
    gap, own = gaps(problem), partition(problem)
    psi = problem.tail.psi
    below = torch.cat([rho * math.log(n) / psi(thresholds(problem)), torch.tensor([torch.inf])])
    there = rho * math.log(n) / psi(gap / 2)
    level = torch.where(own == OPTIMAL, gap.shape[1], own).unsqueeze(-1)
    fidelity = torch.arange(gap.shape[1])
    return torch.where(fidelity < level, below.expand_as(gap), torch.where(fidelity == level, there, 0.0))


def upper_bound(problem: MultiFidelityBandit, capital: float, rho: float) -> float:
    r"""Theorem 2 with its factors [Kandasamy2016mfucb]_ (Eq. 7).

    :math:`\sum_k \Delta_k^{(M)} \sum_m \lambda^{(m)} T_k^{(m)}` with the plays of :func:`expected_plays` after
    ``n = Λ / λ^(1)``, more than which no capital pays for, and :math:`\lambda^{(M)} \mu_*` for the residual. What
    does not grow with the capital is left out; the theorem wants ``ρ > 4``. At most :math:`\Lambda \mu_*`.
    """
    costs = torch.tensor(problem.space.costs, dtype=torch.double)
    n = max(capital / problem.space.costs[0], 1.0)
    gap = gaps(problem)[:, -1]
    wrong = gap > 0
    paid = (expected_plays(problem, n, rho)[wrong] * costs).sum(1)
    best = problem.means[:, -1].max()
    return min((gap[wrong] * paid).sum() + costs[-1] * best, capital * best).item()


def telling(problem: MultiFidelityBandit) -> Tensor:
    r""":math:`L_m(k) = \{\ell < m : \Delta_k^{(\ell)} > 0\} \cup \{m\}`, ``K x M`` [Kandasamy2016mfucb]_ (Theorem 4).

    ``m`` is the arm's own fidelity (see :func:`partition`). The optimal arms have none.
    """
    gap, own = gaps(problem), partition(problem).unsqueeze(-1)
    fidelity = torch.arange(gap.shape[1])
    return ((fidelity < own) & (gap > 0)) | (fidelity == own)


def meets(problem: MultiFidelityBandit) -> Tensor:
    """Whether MF-UCB meets the lower bound on an arm, ``K`` [Kandasamy2016mfucb]_ (Sec. 4.2).

    That is where the arm's own fidelity is alone in :func:`telling`; false for the optimal arms.
    """
    return telling(problem).sum(1) == 1


def lower_bound(problem: MultiFidelityBandit, capital: float, everywhere: bool = False) -> float:
    r"""Theorem 4, of the leading term for large capital [Kandasamy2016mfucb]_.

    :math:`\log(\Lambda / \lambda^{(M)}) \sum_k \Delta_k^{(M)} \min_{\ell \in L_m(k)} \lambda^{(\ell)} /
    \mathrm{KL}(\theta_k^{(\ell)} \| \mu_* - \zeta^{(\ell)})` over the arms that are not optimal, with the sets of
    :func:`telling`, or ``everywhere`` with all fidelities where :math:`\Delta_k^{(\ell)} > 0`, which is at most as
    much. The paper has :math:`(\Delta_k^{(\ell)})^2 / c` with an unspecified constant for the divergence from the
    lowest mean at which the arm could be optimal, which is what its argument [Lai1985efficient]_ gives.
    """
    gap, mean = gaps(problem), problem.means
    if problem.rewards == "gaussian":
        divergence = problem.tail.psi(gap)
    else:
        other = (mean + gap).clamp(0.0, 1.0)
        entropy = torch.special.xlogy
        divergence = entropy(mean, mean / other) + entropy(1 - mean, (1 - mean) / (1 - other))
    costs = torch.tensor(problem.space.costs, dtype=torch.double)
    among = gap > 0 if everywhere else telling(problem)
    price = torch.where(among, costs / divergence, torch.inf).amin(1)
    wrong = gap[:, -1] > 0
    n = max(capital / problem.space.costs[-1], 1.0)
    return math.log(n) * (gap[wrong, -1] * price[wrong]).sum().item()
