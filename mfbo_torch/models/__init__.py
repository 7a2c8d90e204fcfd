"""BoTorch models.

References:

.. [Chau2021deconditional]
    S. L. Chau, S. Bouabid, D. Sejdinovic. Deconditional Downscaling with Gaussian Processes.
    NeurIPS 2021.

.. [Kennedy2000multifidelity]
    M. C. Kennedy, A. O'Hagan. Predicting the output from a complex computer code when fast
    approximations are available. Biometrika 87(1), 2000.


.. [Rasmussen2006gpml]
    C. E. Rasmussen, C. K. I. Williams. Gaussian Processes for Machine Learning. MIT Press 2006.
"""

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
