"""BoTorch models."""

from mfbo_torch.models.cached import CachedGP
from mfbo_torch.models.co_kriging import CoKrigingGP
from mfbo_torch.models.conditionals import (
    EmpiricalConditional,
    GaussianConditional,
    PolicyConditional,
    UniformConditional,
)
from mfbo_torch.models.deconditional import DeconditionalGP
from mfbo_torch.models.per_fidelity import PerFidelityGP

__all__ = [
    "CachedGP",
    "CoKrigingGP",
    "DeconditionalGP",
    "EmpiricalConditional",
    "GaussianConditional",
    "PerFidelityGP",
    "PolicyConditional",
    "UniformConditional",
]
