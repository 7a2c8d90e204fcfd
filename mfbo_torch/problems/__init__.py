"""Problems to optimise: synthetic functions, real ones on public data, bandits, and the user's own.

References:

.. [Golovin2017vizier]
    D. Golovin et al. Google Vizier: A Service for Black-Box Optimization. KDD 2017.
.. [Kandasamy2020dragonfly]
    K. Kandasamy et al. Tuning Hyperparameters without Grad Students: Scalable and Robust Bayesian Optimisation with
    Dragonfly. Journal of Machine Learning Research 21, 2020; github.com/dragonfly/dragonfly.
.. [Law2018malaria]
    H. C. L. Law, D. Sejdinovic, E. Cameron, T. C. D. Lucas, S. Flaxman, K. Battle, K. Fukumizu. Variational
    Learning on Aggregate Outputs with Gaussian Processes. NeurIPS 2018.
.. [Viola2001cascade]
    P. Viola, M. Jones. Rapid object detection using a boosted cascade of simple features. CVPR 2001.
"""

from mfbo_torch.problems.bandit.bandit import MultiFidelityBandit, SyntheticBandit
from mfbo_torch.problems.bandit.classifiers import ClassifierBandit
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.indirect.bandit import IndirectBandit
from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.problems.indirect.branin import IndirectBranin
from mfbo_torch.problems.indirect.disease_map import DiseaseMap
from mfbo_torch.problems.indirect.satellite import Satellite
from mfbo_torch.problems.indirect.shifted_peak import ShiftedPeak
from mfbo_torch.problems.indirect.swiss_roll import SwissRoll, swiss_roll
from mfbo_torch.problems.real.salsa import SALSA
from mfbo_torch.problems.real.supernova import Supernova
from mfbo_torch.problems.real.svm import SVM
from mfbo_torch.problems.real.viola_jones import ViolaJones
from mfbo_torch.problems.synthetic.continuous import (
    ContinuousBorehole,
    ContinuousBranin,
    ContinuousCurrin,
    ContinuousHartmann3,
    ContinuousHartmann6,
)
from mfbo_torch.problems.synthetic.electrodes import Electrodes
from mfbo_torch.problems.synthetic.gp_sample import GPSample
from mfbo_torch.problems.synthetic.multi_fidelity import (
    BadCurrin,
    Borehole,
    Currin,
    Hartmann3,
    Hartmann6,
    Illustration,
    Park,
    SyntheticProblem,
)
from mfbo_torch.problems.synthetic.peptides import Peptides
from mfbo_torch.problems.user.function import UserProblem
from mfbo_torch.problems.user.program import Program

__all__ = [
    "SALSA",
    "SVM",
    "BadCurrin",
    "Borehole",
    "ClassifierBandit",
    "ContinuousBorehole",
    "ContinuousBranin",
    "ContinuousCurrin",
    "ContinuousHartmann3",
    "ContinuousHartmann6",
    "Currin",
    "DiseaseMap",
    "Electrodes",
    "GPSample",
    "Hartmann3",
    "Hartmann6",
    "Illustration",
    "IndirectBandit",
    "IndirectBranin",
    "IndirectProblem",
    "MultiFidelityBandit",
    "Park",
    "Peptides",
    "Problem",
    "Program",
    "Satellite",
    "ShiftedPeak",
    "Supernova",
    "SwissRoll",
    "SyntheticBandit",
    "SyntheticProblem",
    "UserProblem",
    "ViolaJones",
    "swiss_roll",
]
