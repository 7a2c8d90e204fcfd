from . import acquisition, confidence, models, ops, problems, strategies
from .acquisition import (
    ConditionalMaxValueEntropy,
    HallucinatedUpperConfidenceBound,
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    greedy_hallucinated_ucb,
    select_fidelity,
)
from .errors import SettingError
from .history import History, Query, Recommendation, Record
from .indirect import IndirectSpace
from .journal import Journal
from .models import (
    CachedGP,
    CoKrigingGP,
    DeconditionalGP,
    EmpiricalConditional,
    GaussianConditional,
    PerFidelityGP,
    PolicyConditional,
    UniformConditional,
)
from .optimizer import Optimizer
from .prior import Prior
from .problems import UserProblem
from .runner import run
from .space import Parameter, Space
from .strategies import CMES, CMETS, GPBUCB, MFGPUCB, MFUCB, ShrinkingWindow

__version__: str
__all__ = [
    "CMES",
    "CMETS",
    "GPBUCB",
    "MFGPUCB",
    "MFUCB",
    "CachedGP",
    "CoKrigingGP",
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
    "acquisition",
    "confidence",
    "cost_thresholds",
    "greedy_hallucinated_ucb",
    "models",
    "ops",
    "problems",
    "run",
    "select_fidelity",
    "strategies",
]
