"""Strategies: from a history to the next queries."""

from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.cmes import CMES
from mfbo_torch.strategies.cmets import CMETS
from mfbo_torch.strategies.direct import Direct
from mfbo_torch.strategies.gibbon import MFGIBBON
from mfbo_torch.strategies.knowledge_gradient import MFKnowledgeGradient
from mfbo_torch.strategies.mf_gp_ucb import MFGPUCB
from mfbo_torch.strategies.mf_naive import MFNaive
from mfbo_torch.strategies.mf_sko import MFSKO
from mfbo_torch.strategies.over_queries import QueryEI, QueryMES, QueryUCB
from mfbo_torch.strategies.random_search import RandomSearch
from mfbo_torch.strategies.shrinking_window import ShrinkingWindow
from mfbo_torch.strategies.single_fidelity import GPUCB, ExpectedImprovement, ProbabilityOfImprovement

__all__ = [
    "CMES",
    "CMETS",
    "GPUCB",
    "MFGIBBON",
    "MFGPUCB",
    "MFSKO",
    "Direct",
    "ExpectedImprovement",
    "MFKnowledgeGradient",
    "MFNaive",
    "ProbabilityOfImprovement",
    "QueryEI",
    "QueryMES",
    "QueryUCB",
    "RandomSearch",
    "ShrinkingWindow",
    "Strategy",
]
