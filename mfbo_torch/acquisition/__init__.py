"""Acquisition functions."""

from mfbo_torch.acquisition.multi_fidelity_ucb import MultiFidelityUpperConfidenceBound, select_fidelity

__all__ = ["MultiFidelityUpperConfidenceBound", "select_fidelity"]
