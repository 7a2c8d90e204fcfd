"""Strategies: from a history to the next queries.

References:

.. [Ament2023logei]
    S. Ament, S. Daulton, D. Eriksson, M. Balandat, E. Bakshy. Unexpected Improvements to Expected Improvement for
    Bayesian Optimization. NeurIPS 2023.
.. [Auer2002finite]
    P. Auer, N. Cesa-Bianchi, P. Fischer. Finite-time Analysis of the Multiarmed Bandit Problem.
    Machine Learning 47, 2002.
.. [Azimi2010matching]
    J. Azimi, A. Fern, X. Fern. Batch Bayesian Optimization via Simulation Matching. NeurIPS 2010.
.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
.. [EvenDar2006elimination]
    E. Even-Dar, S. Mannor, Y. Mansour. Action Elimination and Stopping Conditions for the
    Multi-Armed Bandit and Reinforcement Learning Problems. JMLR 7, 2006.
.. [Gibbs2021adaptive]
    I. Gibbs, E. Candès. Adaptive Conformal Inference Under Distribution Shift. NeurIPS 2021.
.. [Huang2006mfsko]
    D. Huang, T. Allen, W. Notz, R. Miller. Sequential Kriging Optimization Using
    Multiple-Fidelity Evaluations. Structural and Multidisciplinary Optimization 32, 2006.
.. [Jones1993direct]
    D. Jones, C. Perttunen, B. Stuckman. Lipschitzian Optimization Without the Lipschitz
    Constant. Journal of Optimization Theory and Applications 79, 1993.
.. [Jones1998ego]
    D. Jones, M. Schonlau, W. Welch. Efficient Global Optimization of Expensive Black-Box
    Functions. Journal of Global Optimization 13, 1998.
.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit
    Optimisation with Multi-fidelity Evaluations. NeurIPS 2016.
.. [Kandasamy2016mfucb]
    K. Kandasamy, G. Dasarathy, J. Schneider, B. Póczos. The Multi-fidelity Multi-armed Bandit.
    NeurIPS 2016.
.. [Kandasamy2017boca]
    K. Kandasamy, G. Dasarathy, J. Schneider, B. Póczos. Multi-fidelity Bayesian Optimisation with Continuous
    Approximations. ICML 2017, arXiv:1703.06240.
.. [Knowles2006parego]
    J. Knowles. ParEGO: A Hybrid Algorithm With On-Line Landscape Approximation for Expensive Multiobjective
    Optimization Problems. IEEE Transactions on Evolutionary Computation 10, 2006.
.. [LeGratiet2014recursive]
    L. Le Gratiet, J. Garnier. Recursive co-kriging model for design of computer experiments with
    multiple levels of fidelity. International Journal for Uncertainty Quantification 4(5), 2014.
.. [Lizotte2008practical]
    D. J. Lizotte. Practical Bayesian Optimization. PhD thesis, University of Alberta, 2008.
.. [Moss2021gibbon]
    H. Moss, D. Leslie, J. González, P. Rayson. GIBBON: General-purpose Information-Based
    Bayesian OptimisatioN. Journal of Machine Learning Research 22, 2021.
.. [Srinivas2010gpucb]
    N. Srinivas, A. Krause, S. Kakade, M. Seeger. Gaussian Process Optimization in the Bandit
    Setting: No Regret and Experimental Design. ICML 2010.
.. [Wang2017mes]
    Z. Wang, S. Jegelka. Max-value Entropy Search for Efficient Bayesian Optimization. ICML 2017.
.. [Wilson2017mc]
    J. Wilson, R. Moriconi, F. Hutter, M. Deisenroth. The Reparameterization Trick for Acquisition
    Functions. NeurIPS Workshop on Bayesian Optimization 2017.
.. [Wu2019mfkg]
    J. Wu, S. Toscano-Palmerin, P. Frazier, A. Wilson. Practical Multi-fidelity Bayesian
    Optimization for Hyperparameter Tuning. UAI 2019.
.. [Yang2019ehvi]
    K. Yang, M. Emmerich, A. Deutz, T. Bäck. Efficient Computation of Expected Hypervolume Improvement Using Box
    Decomposition Algorithms. Journal of Global Optimization 75, 2019.
.. [Zhang2024indirect]
    M. Zhang, S. Bouabid, C. S. Ong, S. Flaxman, D. Sejdinovic. Indirect Query Bayesian
    Optimization with Integrated Feedback. 2024.
"""

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
from mfbo_torch.strategies.multi_objective.mfehvi import MFEHVI
from mfbo_torch.strategies.single.analytic import GPUCB, ExpectedImprovement, ProbabilityOfImprovement
from mfbo_torch.strategies.single.direct import Direct
from mfbo_torch.strategies.single.gp_bucb import GPBUCB
from mfbo_torch.strategies.single.naive_batch import NaiveRepeat, NaiveTop
from mfbo_torch.strategies.single.q_acquisitions import QLogExpectedImprovement, QUpperConfidenceBound
from mfbo_torch.strategies.single.random_search import RandomSearch
from mfbo_torch.strategies.single.simulation_matching import SimulationMatching
from mfbo_torch.strategies.trainings.freeze_thaw import FreezeThaw
from mfbo_torch.utils.init_signature import ShownSignature

__all__ = [
    "BOCA",
    "CMES",
    "CMETS",
    "GPBUCB",
    "GPUCB",
    "MFEHVI",
    "MFGIBBON",
    "MFGPUCB",
    "MFSKO",
    "MFUCB",
    "UCB",
    "Direct",
    "ExpectedImprovement",
    "FreezeThaw",
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

# beside the class, on which results depend: what is shown decides nothing
setattr(Strategy, "__signature__", ShownSignature())  # noqa: B010
