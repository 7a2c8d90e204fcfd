"""Problems to optimise: synthetic functions, real ones on public data, and the user's own."""

from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.disease_map import DiseaseMap
from mfbo_torch.problems.indirect import IndirectProblem
from mfbo_torch.problems.indirect_bandit import IndirectBandit
from mfbo_torch.problems.indirect_branin import IndirectBranin
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

__all__ = [
    "SALSA",
    "SVM",
    "BadCurrin",
    "Borehole",
    "Currin",
    "DiseaseMap",
    "Hartmann3",
    "Hartmann6",
    "Illustration",
    "IndirectBandit",
    "IndirectBranin",
    "IndirectProblem",
    "Park",
    "Problem",
    "Satellite",
    "ShiftedPeak",
    "Supernova",
    "SwissRoll",
    "SyntheticProblem",
    "UserProblem",
    "swiss_roll",
]
