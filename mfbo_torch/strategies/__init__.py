"""Strategies: from a history to the next queries."""

from mfbo_torch.strategies.bandit.mf_ucb import MFUCB, UCB
from mfbo_torch.strategies.bandit.successive_elimination import SuccessiveElimination
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.indirect.baselines import QueryEI, QueryMES, QueryUCB
from mfbo_torch.strategies.indirect.cmes import CMES
from mfbo_torch.strategies.indirect.cmets import CMETS
from mfbo_torch.strategies.indirect.shrinking_window import ShrinkingWindow
from mfbo_torch.strategies.multi.boca import BOCA
from mfbo_torch.strategies.multi.gibbon import MFGIBBON
from mfbo_torch.strategies.multi.knowledge_gradient import MFKnowledgeGradient
from mfbo_torch.strategies.multi.mf_gp_ucb import MFGPUCB
from mfbo_torch.strategies.multi.mf_naive import MFNaive
from mfbo_torch.strategies.multi.mf_sko import MFSKO
from mfbo_torch.strategies.single.analytic import GPUCB, ExpectedImprovement, ProbabilityOfImprovement
from mfbo_torch.strategies.single.direct import Direct
from mfbo_torch.strategies.single.gp_bucb import GPBUCB
from mfbo_torch.strategies.single.naive_batch import NaiveRepeat, NaiveTop
from mfbo_torch.strategies.single.q_acquisitions import QLogExpectedImprovement, QUpperConfidenceBound
from mfbo_torch.strategies.single.random_search import RandomSearch
from mfbo_torch.strategies.single.simulation_matching import SimulationMatching

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
