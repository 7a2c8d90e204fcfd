"""Averages against Monte Carlo and quadrature, optima against search, samples against what they should be."""

import math

import numpy as np
import pytest
import torch
from botorch.test_functions import Branin
from gpytorch.kernels import RBFKernel
from refusals import refused
from scipy.integrate import dblquad, quad
from scipy.stats import norm

from mfbo_torch import problems
from mfbo_torch.models import DeconditionalGP, EmpiricalConditional
from mfbo_torch.problems.indirect.branin import DEVIATION, MEAN, TRANSFORMATIONS, branin
from mfbo_torch.problems.indirect.bumps import Bumps


def test_branin_is_botorchs_standardised():
    X = torch.rand(50, 2, dtype=torch.double) * 15 - torch.tensor([5.0, 0.0], dtype=torch.double)
    torch.testing.assert_close(branin(X), (MEAN - Branin().to(X)(X)) / DEVIATION, rtol=1e-12, atol=1e-12)
    side = (torch.arange(600, dtype=torch.double) + 0.5) / 600 * 15
    values = branin(torch.cartesian_prod(side - 5, side))
    assert abs(values.mean().item()) < 1e-4
    assert values.std().item() == pytest.approx(1, abs=1e-3)
    assert problems.IndirectBranin(grid=3, num_samples=5).latent_optimum >= values.max().item()


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("fidelity", [0, 3])
def test_branin_averages_are_those_of_the_samples(transformation, fidelity):
    """Quadrature over truncated windows against draws of the normal that fall into the box."""
    problem = problems.IndirectBranin(transformation, resolutions=4, num_samples=5)
    A = torch.tensor([[0.02, 0.97], [0.5, 0.4]], dtype=torch.double)
    generator = torch.Generator().manual_seed(0)
    drawn = problem.location(A).unsqueeze(1) + problem.widths[fidelity] * torch.randn(
        2, 200_000, 2, generator=generator, dtype=torch.double
    )
    inside = ((drawn > torch.tensor([-5.0, 0.0])) & (drawn < torch.tensor([10.0, 15.0]))).all(-1)
    for a, points, keep in zip(A, drawn, inside, strict=True):
        values = branin(points[keep])
        error = values.std().item() / math.sqrt(keep.sum().item())
        assert problem.averages(a.unsqueeze(0), fidelity).item() == pytest.approx(values.mean().item(), abs=5 * error)


def test_branin_samples_follow_the_windows():
    problem = problems.IndirectBranin(resolutions=2, num_samples=4000)
    X, A = problem.space.feedback.X, problem.space.feedback.A
    assert (X.shape, A.shape) == ((8000, 2), (8000, 3))
    assert torch.equal(X.clamp(torch.tensor([-5.0, 0.0]), torch.tensor([10.0, 15.0])), X)
    for height, width in enumerate(problem.widths):
        middle = (A[:, 2] == height) & ((A[:, :2] - 0.5).abs() < 0.25).all(-1)  # windows that no edge cuts
        rest = (X - problem.location(A[:, :2]))[middle] / width
        assert rest.mean().abs().item() < 0.06
        assert rest.std().item() == pytest.approx(1, abs=0.05)
    assert not torch.equal(problems.IndirectBranin(resolutions=2, num_samples=4000, seed=1).space.feedback.X, X)


def test_branin_heights_have_the_papers_costs_and_noise():
    problem = problems.IndirectBranin(resolutions=7, known=True)
    costs = [0.5 * math.log2(2 ** (height + 1)) for height in range(7)]
    assert problem.space.costs == pytest.approx(costs)
    assert problem.widths == pytest.approx([0.5 / cost for cost in costs])
    assert problem.space.noise_std == pytest.approx([0.5 / cost / DEVIATION for cost in costs])


def test_bumps_average_as_quadrature_does():
    bumps = Bumps.random(5, 2, (0.1, 0.3), 0)
    at = [0.3, 0.8]
    A = torch.tensor([at], dtype=torch.double)

    def f(x, y):
        return bumps(torch.tensor([x, y], dtype=torch.double)).item()

    box, _ = dblquad(f, at[1] - 0.1, at[1] + 0.1, at[0] - 0.1, at[0] + 0.1, epsabs=1e-6)
    assert bumps.box(A, 0.1).item() == pytest.approx(box / 0.04, rel=1e-5)
    line = Bumps(bumps.heights, bumps.centres[:, :1], bumps.scales)
    smooth, _ = quad(lambda x: line(torch.tensor([x])).item() * norm.pdf(x, 0.3, 0.2), -2, 3)
    assert line.gaussian(torch.tensor([[0.3]], dtype=torch.double), 0.2).item() == pytest.approx(smooth, rel=1e-6)


def test_the_shifted_peak_is_shifted():
    problem = problems.ShiftedPeak()
    x = problem.space.inputs
    assert x[problem.latent(x).argmax()].item() == pytest.approx(1.5, abs=0.02)
    assert x[problem.averages(x, 0).argmax()].item() == pytest.approx(-1.0, abs=0.05)
    assert problem.latent_optimum == pytest.approx(problem.latent(x).max().item(), abs=1e-3)
    assert problems.ShiftedPeak((0.6, 0.3, 0.1)).space.costs == pytest.approx((1, 2, 6))


def test_the_bandits_policy_is_learned():
    problem, known = problems.IndirectBandit(num_samples=4000), problems.IndirectBandit(known=True)
    A = problem.space.choices
    learned = torch.from_numpy(problem.space.feedback.probabilities.predict_proba(A.numpy()))
    assert (learned - problem.policy(A)).abs().max().item() < 0.2
    assert (learned - problem.policy(A)).abs().mean().item() < 0.02
    torch.testing.assert_close(known.space.feedback.probabilities(A), known.policy(A))
    torch.testing.assert_close(known.policy(A).sum(-1), torch.ones(50, dtype=torch.double))
    assert problem.latent(problem.space.inputs).max().item() == problem.latent_optimum


def test_units_average_their_people():
    problem = problems.DiseaseMap(side=10, num_units=6)
    weights = problem.weights(problem.space.choices)
    assert torch.equal(weights, problem.shares)
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights), dtype=torch.double))
    assert ((weights > 0).sum(0) == 1).all()  # every pixel is in one unit
    unit = weights[0] > 0
    mean = np.average(problem.incidence[unit].numpy(), weights=problem.population[unit].numpy())
    assert problem.evaluate(problem.space.choices[0].tolist(), 0) == pytest.approx(mean)
    assert problem.averages(problem.space.choices[:1], 0).item() == pytest.approx(mean)
    assert problem.latent(problem.pixels).max().item() == problem.latent_optimum == 1.0


def test_the_satellites_optimum():
    problem = problems.Satellite()
    assert problem.latent(problem.space.inputs).max().item() <= problem.latent_optimum + 1e-9
    fine, coarse = (problem.averages(problem.space.inputs, m).max().item() for m in (3, 0))
    assert coarse < fine < problem.latent_optimum


def test_noise_is_drawn():
    problem = problems.ShiftedPeak(noise=0.5)
    values = torch.tensor([problem.observe([0.0], 0, number) for number in range(400)])
    assert values.std().item() == pytest.approx(0.5, rel=0.15)
    assert values.mean().item() == pytest.approx(problem.evaluate([0.0], 0), abs=4 * 0.5 / math.sqrt(400))


def test_downscaling_a_swiss_roll():
    """The conditional mean process recovers positions that slice means alone do not tell."""
    roll = problems.swiss_roll(200, 40)
    member = torch.cdist(roll.A, roll.queries).argmin(-1)
    for slice_, mean in enumerate(roll.means[:, 0]):
        assert roll.position[member == slice_].mean().item() == pytest.approx(mean.item(), abs=0.3)
    kernel = RBFKernel()
    kernel.lengthscale = 0.2 * roll.queries[:, 0].diff().min().item()  # slices are no neighbours of each other
    conditional = EmpiricalConditional(roll.X, roll.A, covar_module=kernel, regularization=1e-8)
    model = DeconditionalGP(roll.queries, roll.means, conditional).fit(optimizer_kwargs={"options": {"maxiter": 50}})
    with torch.no_grad():
        found, _ = model.latent_mean_variance(roll.X)
    errors = [(guess - roll.position).square().mean().sqrt() for guess in (roll.means[member, 0], found)]
    assert errors[0] > 1.5
    assert errors[1] < 0.1


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: problems.IndirectBranin("round"), "transformation"),
        (lambda: problems.IndirectBranin(resolutions=0), "resolutions"),
        (lambda: problems.IndirectBranin(noise=-1.0), "noise"),
        (lambda: problems.IndirectBranin(grid=0), "grid"),
        (lambda: problems.IndirectBranin(num_samples=0), "num_samples"),
        (lambda: problems.ShiftedPeak(()), "widths"),
        (lambda: problems.ShiftedPeak((0.1, 0.2)), "widths"),
        (lambda: problems.Satellite((8.0, 8.0)), "footprints"),
        (lambda: problems.IndirectBandit(num_arms=0), "num_arms"),
        (lambda: problems.DiseaseMap(num_units=True), "num_units"),
        (lambda: problems.swiss_roll(0), "num_points"),
    ],
)
def test_bad_settings(make, setting):
    refused(f"^{setting} = ", make)
