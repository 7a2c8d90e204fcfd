"""Acquisition functions."""

from mfbo_torch.acquisition.multi_fidelity_ucb import (
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    select_fidelity,
)

__all__ = ["MultiFidelityUpperConfidenceBound", "cost_thresholds", "select_fidelity"]
