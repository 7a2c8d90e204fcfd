"""Acquisition functions."""

from mfbo_torch.acquisition import input_constructors as _registered  # noqa: F401  known to BoTorch from here on
from mfbo_torch.acquisition.conditional_mes import ConditionalMaxValueEntropy
from mfbo_torch.acquisition.greedy import greedy_hallucinated_ucb
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.acquisition.hypervolume_improvement import LogExpectedHypervolumeImprovement
from mfbo_torch.acquisition.multi_fidelity_ucb import (
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    select_fidelity,
)
from mfbo_torch.acquisition.optimize import optimize_acqf
from mfbo_torch.models.multi_fidelity.fidelity_column import FidelityColumn

__all__ = [
    "ConditionalMaxValueEntropy",
    "FidelityColumn",
    "HallucinatedUpperConfidenceBound",
    "LogExpectedHypervolumeImprovement",
    "MultiFidelityUpperConfidenceBound",
    "cost_thresholds",
    "greedy_hallucinated_ucb",
    "optimize_acqf",
    "select_fidelity",
]
