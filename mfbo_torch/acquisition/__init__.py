"""Acquisition functions."""

from mfbo_torch.acquisition import input_constructors  # noqa: F401  (registers them with BoTorch)
from mfbo_torch.acquisition.conditional_mes import ConditionalMaxValueEntropy
from mfbo_torch.acquisition.multi_fidelity_ucb import (
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    select_fidelity,
)

__all__ = ["ConditionalMaxValueEntropy", "MultiFidelityUpperConfidenceBound", "cost_thresholds", "select_fidelity"]
