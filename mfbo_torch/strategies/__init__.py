"""Strategies: from a history to the next queries."""

from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.boca import BOCA
from mfbo_torch.strategies.cmes import CMES
from mfbo_torch.strategies.cmets import CMETS
from mfbo_torch.strategies.direct import Direct
from mfbo_torch.strategies.gibbon import MFGIBBON
from mfbo_torch.strategies.gp_bucb import GPBUCB
from mfbo_torch.strategies.knowledge_gradient import MFKnowledgeGradient
from mfbo_torch.strategies.mf_gp_ucb import MFGPUCB
from mfbo_torch.strategies.mf_naive import MFNaive
from mfbo_torch.strategies.mf_sko import MFSKO
from mfbo_torch.strategies.mf_ucb import MFUCB, UCB
from mfbo_torch.strategies.monte_carlo import QLogExpectedImprovement, QUpperConfidenceBound
from mfbo_torch.strategies.naive_batch import NaiveRepeat, NaiveTop
from mfbo_torch.strategies.over_queries import QueryEI, QueryMES, QueryUCB
from mfbo_torch.strategies.random_search import RandomSearch
from mfbo_torch.strategies.shrinking_window import ShrinkingWindow
from mfbo_torch.strategies.simulation_matching import SimulationMatching
from mfbo_torch.strategies.single_fidelity import GPUCB, ExpectedImprovement, ProbabilityOfImprovement
from mfbo_torch.strategies.successive_elimination import SuccessiveElimination

__all__ = [
    "BOCA",
    "CMES",
    "CMETS",
    "GPBUCB",
    "GPUCB",
    "MFGIBBON",
    "MFGPUCB",
    "MFSKO",
    "MFUCB",
    "UCB",
    "Direct",
    "ExpectedImprovement",
    "MFKnowledgeGradient",
    "MFNaive",
    "NaiveRepeat",
    "NaiveTop",
    "ProbabilityOfImprovement",
    "QLogExpectedImprovement",
    "QUpperConfidenceBound",
    "QueryEI",
    "QueryMES",
    "QueryUCB",
    "RandomSearch",
    "ShrinkingWindow",
    "SimulationMatching",
    "Strategy",
    "SuccessiveElimination",
]
