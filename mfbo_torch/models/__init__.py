"""BoTorch models."""

from mfbo_torch.models.per_fidelity import PerFidelityGP

__all__ = ["PerFidelityGP"]
