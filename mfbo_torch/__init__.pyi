from . import acquisition, confidence, models, ops, problems, strategies
from .acquisition import (
    ConditionalMaxValueEntropy,
    HallucinatedUpperConfidenceBound,
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    greedy_hallucinated_ucb,
    select_fidelity,
)
from .confidence.prior import Prior
from .history import History, Observation, Query, Recommendation, Record
from .history.storage.journal import Journal
from .loop.early_failures import Hopeless
from .loop.minimize import Result, maximize, minimize
from .loop.optimizer import Optimizer
from .loop.runner import run
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
from .problems import UserProblem
from .space import IndirectSpace, Parameter, Space
from .strategies import CMES, CMETS, GPBUCB, MFEHVI, MFGPUCB, MFUCB, FreezeThaw, ShrinkingWindow
from .tracking import Callback
from .utils.errors import SettingError
from .utils.version import __version__ as __version__

__all__ = [
    "CMES",
    "CMETS",
    "GPBUCB",
    "MFEHVI",
    "MFGPUCB",
    "MFUCB",
    "CachedGP",
    "Callback",
    "CoKrigingGP",
    "ConditionalMaxValueEntropy",
    "DeconditionalGP",
    "EmpiricalConditional",
    "FreezeThaw",
    "GaussianConditional",
    "HallucinatedUpperConfidenceBound",
    "History",
    "Hopeless",
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
