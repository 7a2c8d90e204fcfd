"""Problems to optimise: synthetic functions, real ones on public data, bandits, and the user's own."""

from mfbo_torch.problems.averaged import IndirectProblem
from mfbo_torch.problems.bandit import MultiFidelityBandit, SyntheticBandit
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.classifiers import ClassifierBandit
from mfbo_torch.problems.continuous import (
    ContinuousBorehole,
    ContinuousBranin,
    ContinuousCurrin,
    ContinuousHartmann3,
    ContinuousHartmann6,
)
from mfbo_torch.problems.disease_map import DiseaseMap
from mfbo_torch.problems.electrodes import Electrodes
from mfbo_torch.problems.gp_sample import GPSample
from mfbo_torch.problems.indirect_bandit import IndirectBandit
from mfbo_torch.problems.indirect_branin import IndirectBranin
from mfbo_torch.problems.peptides import Peptides
from mfbo_torch.problems.program import Program
from mfbo_torch.problems.salsa import SALSA
from mfbo_torch.problems.satellite import Satellite
from mfbo_torch.problems.shifted_peak import ShiftedPeak
from mfbo_torch.problems.supernova import Supernova
from mfbo_torch.problems.svm import SVM
from mfbo_torch.problems.swiss_roll import SwissRoll, swiss_roll
from mfbo_torch.problems.synthetic import (
    BadCurrin,
    Borehole,
    Currin,
    Hartmann3,
    Hartmann6,
    Illustration,
    Park,
    SyntheticProblem,
)
from mfbo_torch.problems.user import UserProblem
from mfbo_torch.problems.viola_jones import ViolaJones

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
