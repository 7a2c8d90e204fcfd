"""Widths of confidence bands, and the information gains that widen them.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian Process Bandit
    Optimization. ICML 2012.
.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit Optimisation with
    Multi-fidelity Evaluations. NeurIPS 2016.
.. [Kandasamy2016mfucb]
    K. Kandasamy, G. Dasarathy, J. Schneider, B. Póczos. The Multi-fidelity Multi-armed Bandit. NeurIPS 2016.
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
