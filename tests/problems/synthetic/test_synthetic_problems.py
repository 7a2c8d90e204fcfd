"""The synthetic functions against their formulas, their optima and BoTorch's own checks."""

import numpy as np
import pytest
import torch
from botorch.utils.testing import BaseTestProblemTestCaseMixIn, BotorchTestCase, SyntheticTestFunctionTestCaseMixin
from formulas import FORMULAS, best_by_search, park
from refusals import refused

from mfbo_torch.problems import BadCurrin, Borehole, Currin, Hartmann3, Hartmann6, Illustration, Park

CLASSES = [Currin, BadCurrin, Park, Borehole, Hartmann3, Hartmann6, Illustration]


class TestAsBoTorchFunctions(BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin):
    functions = [cls(**settings) for cls in CLASSES for settings in ({}, {"negate": True}, {"noise_std": 0.1})]  # noqa: RUF012


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
    assert problem.worst <= -best_by_search(problem, -1) <= problem.worst + 0.01 * problem.optimum


@pytest.mark.parametrize("cls", CLASSES)
def test_negation_flips_everything_but_the_reward(cls):
    problem, negated = cls(), cls(negate=True)
    x = problem.space.bounds.mean(0).tolist()
    assert (negated.maximize, negated.is_minimization_problem) == (False, True)
    assert negated.evaluate(x, 0) == -problem.evaluate(x, 0)
    assert negated.reward(x, 0) == problem.reward(x, 0)
    assert (negated.optimum, negated.worst) == (-problem.optimum, -problem.worst)


def test_costs_names_and_bounds():
    assert Hartmann6().space.costs == (1, 10, 100, 1000)
    assert Currin(costs=(2, 3)).space.costs == (2, 3)
    refused(r"^costs = \[1\]: must be 2 numbers", Currin, costs=[1])
    assert [p.name for p in Borehole().space.parameters] == ["rw", "r", "Tu", "Hu", "Tl", "Hl", "L", "Kw"]
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
