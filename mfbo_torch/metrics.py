r"""Regret of a history.

References:

.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit
    Optimisation with Multi-fidelity Evaluations. NeurIPS 2016.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mfbo_torch.history import History, Status


def _target_values(history: History, target: int) -> Tensor:
    """Values at the target, ``-inf`` where a record is at another fidelity or has none."""
    rows = [
        r.value if r.query.fidelity == target and r.status == Status.DONE and r.value is not None else -math.inf
        for r in history
    ]
    return torch.tensor(rows, dtype=torch.double)


def capital_spent(history: History) -> Tensor:
    """Capital spent after each of the ``n`` records, shape ``n``."""
    return torch.tensor([r.cost for r in history], dtype=torch.double).cumsum(0)


def best_values(history: History, target: int) -> Tensor:
    """Largest value at the target after each of the ``n`` records; ``-inf`` before the first."""
    found = _target_values(history, target)
    return found.cummax(0).values if len(found) else found


def instant_regret(history: History, target: int, optimum: float, worst: float) -> Tensor:
    """Instantaneous regret ``r_t = f* - q_t``, shape ``n`` [Kandasamy2016mfgpucb]_ (Sec. 2).

    ``q_t`` is the value at the target fidelity and ``worst`` (the paper's ``-B``) below it
    and where the evaluation failed.
    """
    found = _target_values(history, target)
    return optimum - torch.where(found.isinf(), torch.full_like(found, worst), found)


def simple_regret(history: History, target: int, optimum: float, worst: float) -> Tensor:
    """Simple regret ``S = f* - max_t q_t`` after each record, shape ``n`` [Kandasamy2016mfgpucb]_.

    It is ``f* - worst`` before the first value at the target fidelity.
    """
    regret = instant_regret(history, target, optimum, worst)
    return regret.cummin(0).values if len(regret) else regret


def cumulative_regret(history: History, target: int, optimum: float, worst: float, capital: float) -> float:
    """Cumulative regret ``R(Λ)`` [Kandasamy2016mfgpucb]_ (Eq. 2).

    ``R(Λ) = Λ f* - [Σ λ q_t + (Λ - Σ λ) worst]`` over the first queries whose costs sum to at
    most ``capital``; unused capital earns ``worst``.
    """
    spent = capital_spent(history)
    within = spent <= capital * (1 + 1e-12)
    costs = torch.tensor([r.cost for r in history], dtype=torch.double)[within]
    regret = instant_regret(history, target, optimum, worst)[within]
    residual = capital - costs.sum().item()
    return (costs * regret).sum().item() + residual * (optimum - worst)


def average_regret(history: History, target: int, optimum: float, worst: float, capital: float) -> float:
    """Cumulative regret per unit of capital, ``R(Λ) / Λ``."""
    return cumulative_regret(history, target, optimum, worst, capital) / capital
