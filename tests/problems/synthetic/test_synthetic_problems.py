"""The synthetic functions against their formulas, their optima and BoTorch's own checks."""

import math

import numpy as np
import pytest
import torch
from botorch.utils.testing import BaseTestProblemTestCaseMixIn, BotorchTestCase, SyntheticTestFunctionTestCaseMixin
from refusals import refused
from scipy.optimize import minimize

from mfbo_torch.problems import BadCurrin, Borehole, Currin, Hartmann3, Hartmann6, Illustration, Park
from mfbo_torch.space import Space

CLASSES = [Currin, BadCurrin, Park, Borehole, Hartmann3, Hartmann6, Illustration]


class TestAsBoTorchFunctions(BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin):
    functions = [cls(**settings) for cls in CLASSES for settings in ({}, {"negate": True}, {"noise_std": 0.1})]  # noqa: RUF012


def currin(x, m):
    def f(a, b):
        top, bottom = 2300 * a**3 + 1900 * a**2 + 2092 * a + 60, 100 * a**3 + 500 * a**2 + 4 * a + 20
        return (1.0 if b == 0 else 1 - math.exp(-1 / (2 * b))) * top / bottom

    a, b = x
    if m == 1:
        return f(a, b)
    near = f(a + 0.05, b + 0.05) + f(a + 0.05, max(0, b - 0.05)) + f(a - 0.05, b + 0.05)
    return (near + f(a - 0.05, max(0, b - 0.05))) / 4


def bad_currin(x, m):
    return currin(x, 1) * (1 if m == 1 else -1)


def park(x, m):
    a, b, c, d = x
    f = a / 2 * (math.sqrt(1 + (b + c**2) * d / a**2) - 1) + (a + 3 * d) * math.exp(1 + math.sin(c))
    return f if m == 1 else (1 + math.sin(a) / 10) * f - 2 * a**2 + b**2 + c**2 + 0.5


def borehole(x, m):
    x1, x2, x3, x4, x5, x6, x7, x8 = x
    inner = 2 * x7 * x3 / (math.log(x2 / x1) * x1**2 * x8) + x3 / x5
    top, one = (2 * math.pi, 1) if m == 1 else (5, 1.5)
    return top * x3 * (x4 - x6) / (math.log(x2 / x1) * (one + inner))


def hartmann(A, P, M):
    def f(x, m):
        alpha = np.array([1.0, 1.2, 3.0, 3.2]) + (M - 1 - m) * np.array([0.01, -0.01, -0.1, 0.1])
        hump = [
            math.exp(-sum(a * (v - 1e-4 * p) ** 2 for a, p, v in zip(r, q, x, strict=True)))
            for r, q in zip(A, P, strict=True)
        ]
        return float(alpha @ hump)

    return f


def illustration(x, m):
    f = math.exp(-(((x[0] - 0.72) / 0.11) ** 2)) + 0.85 * math.exp(-(((x[0] - 0.27) / 0.14) ** 2))
    return f if m == 1 else f + 0.15 * math.cos(2 * math.pi * (x[0] - 0.27))


FORMULAS = {
    Currin: currin,
    BadCurrin: bad_currin,
    Park: park,
    Borehole: borehole,
    Hartmann3: hartmann(
        [[3, 10, 30], [0.1, 10, 35]] * 2,
        [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]],
        3,
    ),
    Hartmann6: hartmann(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]],
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ],
        4,
    ),
    Illustration: illustration,
}
PAPER_OPTIMA = {Currin: 13.798722, BadCurrin: 13.798722, Borehole: 309.5756, Hartmann3: 3.86278, Hartmann6: 3.32237}


@pytest.mark.parametrize("cls", CLASSES)
def test_matches_the_formula_at_every_fidelity(cls):
    problem = cls()
    U = torch.rand(20, problem.space.dim, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    X = problem.space.from_unit(U)
    for m in range(problem.space.num_fidelities):
        expected = torch.tensor([FORMULAS[cls](x, m) for x in X.tolist()], dtype=torch.double)
        actual = problem(torch.cat([X, torch.full((20, 1), float(m), dtype=torch.double)], dim=-1))
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
        assert problem.evaluate(X[0].tolist(), m) == pytest.approx(expected[0].item(), rel=1e-12)


def best_by_search(problem, sign):
    """Largest value of ``sign`` times the target by L-BFGS-B from the best of many random points."""
    bounds = problem.space.bounds
    U = torch.rand(4096, problem.space.dim, dtype=torch.double, generator=torch.Generator().manual_seed(2))

    def value(U):
        X = bounds[0] + U * (bounds[1] - bounds[0])
        return sign * problem(torch.cat([X, torch.full_like(X[..., :1], problem.space.target)], dim=-1))

    def negative_with_gradient(u):
        u = torch.tensor(u, requires_grad=True)
        f = -value(u.clamp(0, 1))
        return f.item(), torch.autograd.grad(f, u)[0].numpy()

    starts = U[value(U).topk(10).indices].numpy()
    box = [(0, 1)] * problem.space.dim
    tight = {"ftol": 1e-15, "gtol": 1e-9}
    return -min(minimize(negative_with_gradient, s, jac=True, bounds=box, options=tight).fun for s in starts)


@pytest.mark.parametrize("cls", CLASSES)
def test_optimum_is_attained_and_not_beaten(cls):
    problem = cls()
    *x, fidelity = cls._optimizers[0]
    assert fidelity == problem.space.target
    assert problem.evaluate(x, problem.space.target) == pytest.approx(problem.optimum, rel=1e-13)
    assert best_by_search(problem, 1) == pytest.approx(problem.optimum, abs=1e-6)
    assert problem.optimum == pytest.approx(PAPER_OPTIMA.get(cls, problem.optimum), abs=1e-4)


@pytest.mark.parametrize("cls", CLASSES)
def test_worst_is_a_lower_bound_and_not_far_below(cls):
    problem = cls()
    least = -best_by_search(problem, -1)
    assert problem.worst <= least <= problem.worst + 0.01 * problem.optimum


@pytest.mark.parametrize("cls", CLASSES)
def test_negation_flips_everything_but_the_reward(cls):
    problem, negated = cls(), cls(negate=True)
    x = problem.space.bounds.mean(0).tolist()
    assert (negated.maximize, negated.is_minimization_problem) == (False, True)
    assert negated.evaluate(x, 0) == -problem.evaluate(x, 0)
    assert negated.reward(x, 0) == problem.reward(x, 0)
    assert (negated.optimum, negated.worst) == (-problem.optimum, -problem.worst)


def test_default_and_own_costs():
    assert Hartmann6().space.costs == (1, 10, 100, 1000)
    assert Currin(costs=(2, 3)).space.costs == (2, 3)
    refused(r"^costs = \[1\]: must be 2 numbers", Currin, costs=[1])


def test_borehole_has_its_physical_parameters():
    names = [parameter.name for parameter in Borehole().space.parameters]
    assert names == ["rw", "r", "Tu", "Hu", "Tl", "Hl", "L", "Kw"]
    assert isinstance(Borehole().space, Space)


def test_outside_the_bounds_is_refused():
    with pytest.raises(ValueError, match="within the bounds"):
        Currin().evaluate([1.5, 0.5], 1)


def test_noise_is_added_where_asked_for():
    problem = Park(noise_std=1.0)
    values = [problem.observe([0.5] * 4, 1, number) for number in range(400)]
    assert np.std(values) == pytest.approx(1, abs=0.15)
    assert np.mean(values) == pytest.approx(Park().evaluate([0.5] * 4, 1), abs=0.2)
    assert problem.evaluate([0.5] * 4, 1) == Park().evaluate([0.5] * 4, 1)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_gradients_are_finite_on_the_edges(cls, dtype):
    problem = cls().to(dtype=dtype)
    d = problem.space.dim
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1e-30, 1.0], dtype=dtype)] * min(d, 4)).reshape(-1, min(d, 4))
    U = torch.cat([corners, torch.full((len(corners), d - corners.shape[1]), 0.5, dtype=dtype)], dim=-1)
    X = problem.bounds[0, :-1] + U * (problem.bounds[1, :-1] - problem.bounds[0, :-1])
    for m in range(problem.space.num_fidelities):
        x = X.clone().requires_grad_()
        value = problem(torch.cat([x, torch.full_like(x[:, :1], m)], dim=-1))
        assert value.isfinite().all()
        assert torch.autograd.grad(value.sum(), x)[0].isfinite().all()


def test_park_is_continuous_where_the_papers_form_divides_by_zero():
    edge, near = Park().evaluate([0, 0.3, 0.4, 0.5], 1), park((1e-9, 0.3, 0.4, 0.5), 1)
    assert edge == pytest.approx(near, abs=1e-7)
    assert Park().evaluate([0, 0, 0, 0], 1) == 0


def test_illustration_keeps_its_promises():
    problem = Illustration()
    grid = torch.linspace(0, 1, 2001, dtype=torch.double).unsqueeze(-1)
    cheap, target = (problem(torch.cat([grid, torch.full_like(grid, m)], dim=-1)) for m in (0, 1))
    assert (cheap - target).abs().max().item() == pytest.approx(problem.zeta, abs=1e-4)
    assert abs(grid[cheap.argmax()] - grid[target.argmax()]).item() > 0.3
    assert 0.1 < grid[target.argmax()].item() < 0.9
