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
from .minimization import Result, maximize, minimize
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
from .outcomes import Observation
from .prior import Prior
from .problems import UserProblem
from .runner import run
from .space import Parameter, Space
from .strategies import CMES, CMETS, GPBUCB, MFGPUCB, MFUCB, ShrinkingWindow
from .version import __version__ as __version__

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
    "Observation",
    "Optimizer",
    "Parameter",
    "PerFidelityGP",
    "PolicyConditional",
    "Prior",
    "Query",
    "Recommendation",
    "Record",
    "Result",
    "SettingError",
    "ShrinkingWindow",
    "Space",
    "UniformConditional",
    "UserProblem",
    "acquisition",
    "confidence",
    "cost_thresholds",
    "greedy_hallucinated_ucb",
    "maximize",
    "minimize",
    "models",
    "ops",
    "problems",
    "run",
    "select_fidelity",
    "strategies",
]
