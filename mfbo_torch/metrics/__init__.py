"""How good a run was: regret, and what it cost."""

from mfbo_torch.metrics.regret import (
    Regret,
    average_regret,
    best_values,
    capital_spent,
    cumulative_regret,
    instant_regret,
    paid_for,
    query_costs,
    regret_at,
    simple_regret,
)

__all__ = [
    "Regret",
    "average_regret",
    "best_values",
    "capital_spent",
    "cumulative_regret",
    "instant_regret",
    "paid_for",
    "query_costs",
    "regret_at",
    "simple_regret",
]
