"""Widths of confidence bands, and the information gains that widen them.

References:

.. [Nemhauser1978submodular]
    G. L. Nemhauser, L. A. Wolsey, M. L. Fisher. An analysis of approximations for maximizing submodular set functions
    I. Mathematical Programming 14, 1978.
"""

from mfbo_torch.confidence.information import GreedySet, batch_gain_bound, information_gain, uncertainty_sampling
from mfbo_torch.confidence.initialization import (
    Initialization,
    linear_initialization,
    matern_initialization,
    rbf_initialization,
)
from mfbo_torch.confidence.widths import (
    box_alpha,
    finite_alpha,
    gp_bucb_beta,
    gp_ucb_beta,
    mf_gp_ucb_beta,
    practical_beta,
    rkhs_alpha,
)

__all__ = [
    "GreedySet",
    "Initialization",
    "batch_gain_bound",
    "box_alpha",
    "finite_alpha",
    "gp_bucb_beta",
    "gp_ucb_beta",
    "information_gain",
    "linear_initialization",
    "matern_initialization",
    "mf_gp_ucb_beta",
    "practical_beta",
    "rbf_initialization",
    "rkhs_alpha",
    "uncertainty_sampling",
]
