"""Multi-fidelity, batch and indirect-query Bayesian optimisation on BoTorch."""

from mfbo_torch.acquisition import (
    ConditionalMaxValueEntropy,
    HallucinatedUpperConfidenceBound,
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    greedy_hallucinated_ucb,
    select_fidelity,
)
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Recommendation, Record
from mfbo_torch.indirect import IndirectSpace
from mfbo_torch.journal import Journal
from mfbo_torch.models import (
    CachedGP,
    DeconditionalGP,
    EmpiricalConditional,
    GaussianConditional,
    PerFidelityGP,
    PolicyConditional,
    UniformConditional,
)
from mfbo_torch.optimizer import Optimizer
from mfbo_torch.prior import Prior
from mfbo_torch.problems import UserProblem
from mfbo_torch.runner import run
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import CMES, CMETS, GPBUCB, MFGPUCB, MFUCB, ShrinkingWindow

__version__ = "0.1.0"
__all__ = [
    "CMES",
    "CMETS",
    "GPBUCB",
    "MFGPUCB",
    "MFUCB",
    "CachedGP",
    "ConditionalMaxValueEntropy",
    "DeconditionalGP",
    "EmpiricalConditional",
    "GaussianConditional",
    "HallucinatedUpperConfidenceBound",
    "History",
    "IndirectSpace",
    "Journal",
    "MultiFidelityUpperConfidenceBound",
    "Optimizer",
    "Parameter",
    "PerFidelityGP",
    "PolicyConditional",
    "Prior",
    "Query",
    "Recommendation",
    "Record",
    "SettingError",
    "ShrinkingWindow",
    "Space",
    "UniformConditional",
    "UserProblem",
    "cost_thresholds",
    "greedy_hallucinated_ucb",
    "run",
    "select_fidelity",
]
