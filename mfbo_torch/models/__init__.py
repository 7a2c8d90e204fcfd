"""BoTorch models."""

from mfbo_torch.models.cached import CachedGP
from mfbo_torch.models.per_fidelity import PerFidelityGP

__all__ = ["CachedGP", "PerFidelityGP"]
