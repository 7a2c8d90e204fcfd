"""BoTorch models."""

from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.indirect.conditionals import (
    EmpiricalConditional,
    GaussianConditional,
    PolicyConditional,
    UniformConditional,
)
from mfbo_torch.models.indirect.deconditional import DeconditionalGP
from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP

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
