"""Acquisition functions."""

from mfbo_torch.acquisition import input_constructors as _registered  # noqa: F401
from mfbo_torch.acquisition.multi_fidelity_ucb import (
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    select_fidelity,
)

__all__ = ["MultiFidelityUpperConfidenceBound", "cost_thresholds", "select_fidelity"]
