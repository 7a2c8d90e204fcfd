"""Metrics of a run: regret, and the capital spent."""

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
