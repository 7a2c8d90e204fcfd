"""Problems to optimise: synthetic functions, real ones on public data, and the user's own."""

from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.electrodes import Electrodes
from mfbo_torch.problems.gp_sample import GPSample
from mfbo_torch.problems.salsa import SALSA
from mfbo_torch.problems.supernova import Supernova
from mfbo_torch.problems.svm import SVM
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
    "Electrodes",
    "GPSample",
    "Hartmann3",
    "Hartmann6",
    "Illustration",
    "Park",
    "Problem",
    "Supernova",
    "SyntheticProblem",
    "UserProblem",
]
