"""Multi-fidelity, batch and indirect-query Bayesian optimisation on BoTorch."""

from mfbo_torch.acquisition import (
    HallucinatedUpperConfidenceBound,
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    greedy_hallucinated_ucb,
    select_fidelity,
)
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Record
from mfbo_torch.journal import Journal
from mfbo_torch.models import CachedGP, PerFidelityGP
from mfbo_torch.optimizer import Optimizer
from mfbo_torch.prior import Prior
from mfbo_torch.problems import UserProblem
from mfbo_torch.runner import run
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import GPBUCB, MFGPUCB, MFUCB

__version__ = "0.1.0"
__all__ = [
    "GPBUCB",
    "MFGPUCB",
    "MFUCB",
    "CachedGP",
    "HallucinatedUpperConfidenceBound",
    "History",
    "Journal",
    "MultiFidelityUpperConfidenceBound",
    "Optimizer",
    "Parameter",
    "PerFidelityGP",
    "Prior",
    "Query",
    "Record",
    "SettingError",
    "Space",
    "UserProblem",
    "cost_thresholds",
    "greedy_hallucinated_ucb",
    "run",
    "select_fidelity",
]
