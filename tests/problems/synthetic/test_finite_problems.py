"""Problems on a finite set: draws of a process, and the simulated electrodes."""

import math
import re

import pytest
import torch
from refusals import refused

from mfbo_torch.confidence.prior import Prior
from mfbo_torch.problems import Electrodes, GPSample, Peptides
from mfbo_torch.problems.synthetic.electrodes import MODES

PRIOR = Prior("matern32", [0.3, 0.5], outputscale=2.0, noise=0.04)


def test_grid():
    problem = GPSample([5, 3], PRIOR)
    assert len(problem.space.candidates) == 15
    assert problem.space.candidates[:4] == ((0.0, 0.0), (0.0, 0.5), (0.0, 1.0), (0.25, 0.0))
    assert (problem.optimum, problem.worst) == (problem.values.max(), problem.values.min())
    exact = GPSample([30], noisy=False)
    assert exact.evaluate(exact.space.candidates[7], 0) == exact.values[7].item()


def test_draws_have_the_covariance_of_the_prior():
    draws = torch.stack([GPSample([4, 3], PRIOR, seed=seed).values for seed in range(3000)])
    X = GPSample([4, 3], PRIOR).space.unit_candidates
    expected = PRIOR.covariance(X, X)
    assert (draws.mT @ draws / 3000 - expected).abs().max() < 4 * math.sqrt(2 / 3000) * PRIOR.outputscale
    assert draws.mean(0).abs().max() < 4 * math.sqrt(PRIOR.outputscale / 3000)


def test_seeds():
    assert torch.equal(GPSample([9], seed=3).values, GPSample([9], seed=3).values)
    assert not torch.equal(GPSample([9], seed=3).values, GPSample([9], seed=4).values)
    assert not torch.equal(Electrodes(1).values, Electrodes(2).values)


@pytest.mark.parametrize(
    ("problem", "noise"), [(GPSample([30], Prior(noise=0.04)), 0.2), (Electrodes(noise_std=0.3), 0.3)]
)
def test_noise(problem, noise):
    x = problem.space.candidates[7]
    found = torch.tensor([problem.observe(x, 0, number) for number in range(2000)], dtype=torch.double)
    assert found.mean().item() == pytest.approx(problem.value(x), abs=4 * noise / math.sqrt(2000))
    assert found.std().item() == pytest.approx(noise, rel=0.1)
    assert problem.observe(x, 0, 0) == found[0].item()
    assert problem.evaluate(x, 0) == problem.value(x)


def test_other_designs_are_refused():
    for problem, x in ((GPSample([30]), (0.5,)), (Electrodes(), (1, 1, 1, 1)), (Electrodes(), (0, 0.5, 1, 1))):
        refused("a candidate of the space", problem.evaluate, x, 0)


def test_electrodes():
    """The response by its formula at one pair, and the pairs that there are."""
    problem = Electrodes(seed=5)
    assert len(problem.space.candidates) == 27 * 26
    assert all(x[:2] != x[2:] for x in problem.space.candidates)
    generator = torch.Generator().manual_seed(5)
    centres = torch.randperm(702, generator=generator)[:MODES].tolist()
    heights = (0.3 + 0.7 * torch.rand(MODES, generator=generator, dtype=torch.double)).tolist()
    x = problem.space.candidates[100]
    expected = 0.0
    for k, h in zip(centres, heights, strict=True):
        gaps = [(a - b) / w for a, b, w in zip(x, problem.space.candidates[k], (1, 0.7, 1, 0.7), strict=True)]
        expected += h * math.exp(-0.5 * sum(g * g for g in gaps))
    assert problem.value(x) == pytest.approx(expected, rel=1e-9)


def test_peptides():
    """Twenty amino acids at nine places; nearly linear in the features, and mostly so in those of the anchors."""
    one, other = Peptides(seed=1), Peptides(seed=2)
    features = torch.tensor(one.space.candidates, dtype=torch.double)
    assert features.shape == (1000, 45)
    assert len(features.reshape(-1, 5).unique(dim=0)) == 20
    assert one.space == other.space
    assert not torch.equal(one.values, other.values)
    weights = torch.linalg.lstsq(features, one.values.unsqueeze(-1)).solution
    assert 0.17 < (one.values - (features @ weights).squeeze(-1)).std() < 0.23
    strength = weights.reshape(9, 5).norm(dim=-1)
    assert strength[[1, 8]].min() > strength[[0, 2, 3, 4, 5, 6, 7]].max()


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: GPSample([]), "sizes"),
        (lambda: GPSample([10, 1]), "sizes"),
        (lambda: GPSample([10], seed=-1), "seed"),
        (lambda: GPSample([10], Prior(mean=1.0)), "prior.mean"),
        (lambda: GPSample([10], Prior(lengthscale=[0.1, 0.2])), "prior.lengthscale"),
        (lambda: Electrodes(seed=-1), "seed"),
        (lambda: Electrodes(noise_std=-1.0), "noise_std"),
        (lambda: Peptides(seed=-1), "seed"),
    ],
)
def test_bad_settings(make, setting):
    refused(rf"^{re.escape(setting)} = ", make)
