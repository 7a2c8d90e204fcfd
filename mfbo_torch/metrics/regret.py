r"""Regret of a history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mfbo_torch.history import History, Status, payable
from mfbo_torch.utils.errors import SettingError


class Regret(NamedTuple):
    r"""Cumulative regret and its two parts [Kandasamy2016mfgpucb]_ (Eq. 2): ``played``,
    :math:`\sum_t \lambda_t (f_* - q_t)` over the queries that the capital pays for, and ``residual``, that of the rest
    of the capital, which earns the least."""

    total: Tensor
    played: Tensor
    residual: Tensor


def _target_values(history: History, target: int) -> Tensor:
    """Values at the target, ``-inf`` where a record is at another fidelity, has none or is not feasible."""
    rows = [
        r.value
        if r.query.fidelity == target and r.status == Status.DONE and r.value is not None and r.feasible
        else -math.inf
        for r in history
    ]
    return torch.tensor(rows, dtype=torch.double)


def query_costs(history: History) -> Tensor:
    """Cost of each of the ``n`` records, shape ``n``."""
    return torch.tensor([r.cost for r in history], dtype=torch.double)


def capital_spent(history: History) -> Tensor:
    """Capital spent after each of the ``n`` records, shape ``n``."""
    return query_costs(history).cumsum(0)


def paid_for(spent: Tensor, capital: Tensor | Sequence[float]) -> Tensor:
    """The number of first queries that each of ``g`` amounts of capital pays for, ``... x g``, where ``spent`` is the
    capital spent after each query, ``... x n``, as :func:`capital_spent` gives it."""
    amounts = payable(torch.as_tensor(capital, dtype=torch.double))
    return torch.searchsorted(spent, amounts.expand(*spent.shape[:-1], -1).contiguous(), right=True)


def regret_at(capital: Tensor | Sequence[float], costs: Tensor, instant: Tensor, idle: float | Tensor) -> Regret:
    """Cumulative regret at ``g`` amounts of capital, ``... x g``, of queries with costs and instantaneous regrets
    ``... x n``; ``idle`` is the regret of a unit of capital that is not spent."""
    spent = costs.cumsum(-1)
    within = paid_for(spent, capital)
    none = spent.new_zeros(*spent.shape[:-1], 1)
    lost = (costs * instant).cumsum(-1)
    played, used = (torch.cat([none, sums], -1).gather(-1, within) for sums in (lost, spent))
    residual = (torch.as_tensor(capital, dtype=torch.double) - used) * idle
    return Regret(played + residual, played, residual)


def best_values(history: History, target: int) -> Tensor:
    """Largest value at the target after each of the ``n`` records; ``-inf`` before the first."""
    found = _target_values(history, target)
    return found.cummax(0).values if len(found) else found


def instant_regret(history: History, target: int, optimum: float, worst: float) -> Tensor:
    """Instantaneous regret ``r_t = f* - q_t``, shape ``n``, with ``q_t`` the value at the target fidelity and ``worst``
    (the paper's ``-B``) below it and where the evaluation failed [Kandasamy2016mfgpucb]_ (Sec. 2)."""
    found = _target_values(history, target)
    return optimum - torch.where(found.isinf(), torch.full_like(found, worst), found)


def simple_regret(history: History, target: int, optimum: float, worst: float) -> Tensor:
    """Simple regret ``S = f* - max_t q_t`` after each record, shape ``n`` [Kandasamy2016mfgpucb]_; ``f* - worst``
    before the first value at the target fidelity."""
    regret = instant_regret(history, target, optimum, worst)
    return regret.cummin(0).values if len(regret) else regret


def cumulative_regret(history: History, target: int, optimum: float, worst: float, capital: float) -> float:
    """Cumulative regret ``R(Λ) = Λ f* - [Σ λ q_t + (Λ - Σ λ) worst]`` over the first queries whose costs sum to at most
    ``capital``; unused capital earns ``worst`` [Kandasamy2016mfgpucb]_ (Eq. 2)."""
    instant = instant_regret(history, target, optimum, worst)
    return regret_at([capital], query_costs(history), instant, optimum - worst).total.item()


def average_regret(history: History, target: int, optimum: float, worst: float, capital: float) -> float:
    """Cumulative regret per unit of capital, ``R(Λ) / Λ``; a ``SettingError`` unless ``capital`` is above 0."""
    if not capital > 0:
        raise SettingError("capital", capital, "a number above 0")
    return cumulative_regret(history, target, optimum, worst, capital) / capital
