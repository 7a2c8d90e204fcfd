"""What every problem owes the rest of the package."""

import math
import pickle
from functools import cache

import numpy as np
import pytest
import torch

from mfbo_torch import problems
from mfbo_torch.errors import SettingError


def toy(parameters, fidelity):
    return parameters["width"] * (1 + parameters["rate"]) + fidelity


TOY = {"rate": {"lower": 1e-3, "upper": 1.0, "log": True}, "width": {"lower": 1, "upper": 8, "integer": True}}
ALL_PROBLEMS = {
    "Currin": problems.Currin,
    "BadCurrin": problems.BadCurrin,
    "Park": problems.Park,
    "Borehole": problems.Borehole,
    "Hartmann3": problems.Hartmann3,
    "Hartmann6": problems.Hartmann6,
    "Illustration": problems.Illustration,
    "Currin, negated": lambda: problems.Currin(negate=True),
    "Electrodes": lambda: problems.Electrodes(noise_std=0.0),
    "GPSample": lambda: problems.GPSample([30, 20], noisy=False),
    "SVM on digits": lambda: problems.SVM(sizes=(200, 250)),
    "SVM on magic": lambda: problems.SVM(data="magic", sizes=(100, 200), measured=True),
    "SALSA": lambda: problems.SALSA(sizes=(40, 60, 80)),
    "Supernova": problems.Supernova,
    "MultiFidelityBandit": lambda: problems.MultiFidelityBandit([[0.5, 0.4], [0.1, 0.3]], [0.2, 0.0], [1, 10]),
    "SyntheticBandit": lambda: problems.SyntheticBandit(3),
    "ClassifierBandit": problems.ClassifierBandit,
    "IndirectBranin": lambda: problems.IndirectBranin(num_samples=20, noise=0.0, grid=4),
    "IndirectBranin, known": lambda: problems.IndirectBranin("nonlinear", noise=0.0, known=True),
    "IndirectBandit": lambda: problems.IndirectBandit(noise=0.0),
    "DiseaseMap": lambda: problems.DiseaseMap(side=12, num_units=10, noise=0.0),
    "Satellite": lambda: problems.Satellite(noise=0.0),
    "ShiftedPeak": lambda: problems.ShiftedPeak((0.6, 0.3), noise=0.0),
    "UserProblem": lambda: problems.UserProblem(toy, TOY, [1, 10], maximize=False),
}


@cache
def build(name):
    return ALL_PROBLEMS[name]()


@pytest.fixture(params=ALL_PROBLEMS)
def problem(request, data_dir):
    return build(request.param)


def centre(problem):
    return problem.space.from_unit(torch.full((problem.space.dim,), 0.5, dtype=torch.double)).tolist()


def test_exports_are_there():
    assert all(hasattr(problems, name) for name in problems.__all__)


def test_space_is_valid(problem):
    space = problem.space
    assert space.dim == len(space.parameters) >= 1
    indirect = isinstance(problem, problems.IndirectProblem)
    assert space.num_fidelities >= (1 if space.candidates or indirect else 2)
    assert all(0 < low < high for low, high in zip(space.costs, space.costs[1:], strict=False))
    assert isinstance(problem, problems.Problem)
    assert problem.name in problems.__all__


def test_values_are_finite_and_repeatable_at_every_fidelity(problem):
    for fidelity in range(problem.space.num_fidelities):
        value = problem.evaluate(centre(problem), fidelity)
        assert isinstance(value, float)
        assert math.isfinite(value)
        assert problem.evaluate(np.array(centre(problem)), np.int64(fidelity)) == value
        assert problem.reward(centre(problem), fidelity) == (value if problem.maximize else -value)


def test_target_lies_between_worst_and_optimum(problem):
    reward = problem.reward(centre(problem), problem.space.target)
    if problem.worst is not None:
        assert problem.signed(problem.worst) <= reward
    if problem.optimum is not None:
        assert reward <= problem.signed(problem.optimum)


@pytest.mark.parametrize("fidelity", [-1, "M", 1.0, True, None])
def test_unknown_fidelity_is_refused(problem, fidelity):
    fidelity = problem.space.num_fidelities if fidelity == "M" else fidelity
    with pytest.raises(SettingError, match=rf"^fidelity = .*from 0 to {problem.space.target}$"):
        problem.evaluate(centre(problem), fidelity)


@pytest.mark.parametrize("change", [lambda x: x[1:], lambda x: [*x, 0.5], lambda x: [math.nan, *x[1:]], lambda x: None])
def test_bad_designs_are_refused(problem, change):
    with pytest.raises(SettingError, match=rf"^x = .*{problem.space.dim} finite numbers$"):
        problem.evaluate(change(centre(problem)), 0)


def test_survives_pickling(problem):
    copy = pickle.loads(pickle.dumps(problem))
    assert copy.space == problem.space
    assert copy.evaluate(centre(problem), 0) == problem.evaluate(centre(problem), 0)
