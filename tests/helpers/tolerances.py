"""How far a result may be from the exact one, by precision: one table for every test."""

import torch

TOLERANCES = {torch.float64: 1e-9, torch.float32: 2e-4}
"""Relative to the prior deviation (means) or the prior variance (variances, covariances)."""
