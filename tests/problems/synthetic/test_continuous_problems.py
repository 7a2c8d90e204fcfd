"""The functions with a continuous fidelity against their formulas."""

import math

import numpy as np
import pytest
import torch
from formulas import FORMULAS, best_by_search, borehole, currin
from refusals import refused

from mfbo_torch import problems
from mfbo_torch.problems import Hartmann3, Hartmann6


def continuous_currin(x, z):
    decay = math.exp(-1 / (2 * x[1]))
    return currin(x, 1) * (1 - (0.9 + 0.1 * z) * decay) / (1 - decay)


def branin(x, z):
    a, b = x
    curve = (5.1 / (4 * math.pi**2) - 0.01 * (1 - z)) * a**2
    line = (5 / math.pi - 0.1 * (1 - z)) * a
    t = 1 / (8 * math.pi) + 0.005 * (1 - z)
    return -((b - curve + line - 6) ** 2) - 10 * (1 - t) * math.cos(a) - 10


def hartmann(cls):
    def f(x, z):
        humps = np.exp(-(np.array(cls._A) * (np.array(x) - 1e-4 * np.array(cls._P)) ** 2).sum(1))
        return float((np.array([1.0, 1.2, 3.0, 3.2]) - 0.1 * (1 - z)) @ humps)

    return f


CASES = {
    problems.ContinuousCurrin: (continuous_currin, lambda z: 0.1 + 0.9 * z**2),
    problems.ContinuousBranin: (branin, lambda z: 0.1 + 0.3 * (z**3 + z**2 + z**1.5)),
    problems.ContinuousHartmann3: (hartmann(Hartmann3), lambda z: 0.1 + 0.225 * (z**3 + z**2 + z**1.6 + z**1.2)),
    problems.ContinuousHartmann6: (hartmann(Hartmann6), lambda z: 0.1 + 0.225 * (z**3 + z**2 + z**1.6 + z**1.2)),
    problems.ContinuousBorehole: (
        lambda x, z: z * borehole(x, 1) + (1 - z) * borehole(x, 0),
        lambda z: 0.1 + 0.9 * z**2,
    ),
}


@pytest.mark.parametrize("cls", CASES)
def test_matches_the_formula(cls):
    problem, (formula, cost) = cls(levels=11), CASES[cls]
    X = problem.space.from_unit(torch.rand(8, problem.space.dim, generator=torch.Generator().manual_seed(1)).double())
    for m in (0, 3, 10):
        found = [problem.evaluate(x, m) for x in X.tolist()]
        assert found == pytest.approx([formula(x, m / 10) for x in X.tolist()], rel=1e-12)
        assert problem.space.costs[m] == pytest.approx(cost(m / 10))
    assert problem.space.costs[-1] == pytest.approx(1.0)
    assert cls().space.num_fidelities == 101


@pytest.mark.parametrize("cls", CASES)
def test_target_is_the_known_function(cls):
    problem = cls(levels=2)
    assert problem.optimizers[0, -1] == 1
    assert best_by_search(problem, 1) == pytest.approx(problem.optimum, abs=1e-6)
    assert problem.evaluate(problem.optimizers[0, :-1].tolist(), 1) == pytest.approx(problem.optimum, rel=1e-6)
    for known in (k for k in FORMULAS if k in cls.__mro__):
        x = problem.space.bounds.mean(0).tolist()
        assert problem.evaluate(x, 1) == pytest.approx(known().evaluate(x, known.num_fidelities - 1))


def test_levels_are_two_or_more():
    refused("levels = 1: must be a whole number from 2 on", problems.ContinuousCurrin, levels=1)
