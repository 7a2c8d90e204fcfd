"""The supernova likelihood against adaptive quadrature."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from mfbo_torch.problems import Supernova
from mfbo_torch.problems.real.data import load
from mfbo_torch.problems.real.supernova import luminosity_distance

COSMOLOGIES = [(70, 0.3, 0.7), (65, 0.3, 0.0), (72, 0.9, 0.8), (60, 0.0, 0.5), (80, 1.0, 1.0), (70, 0.0, 0.0)]


def distance(z, hubble, matter, dark):
    k = 1 - matter - dark
    path = quad(lambda t: 1 / math.sqrt(matter * (1 + t) ** 3 + k * (1 + t) ** 2 + dark), 0, z, epsabs=1e-13)[0]
    if k > 1e-9:
        path = math.sinh(math.sqrt(k) * path) / math.sqrt(k)
    elif k < -1e-9:
        path = math.sin(math.sqrt(-k) * path) / math.sqrt(-k)
    return 299792.458 / hubble * (1 + z) * path


@pytest.mark.parametrize("cosmology", COSMOLOGIES)
@pytest.mark.parametrize(("points", "rel"), [(100, 2e-3), (10**4, 2e-7), (10**6, 1e-9)])
def test_distance_matches_quadrature(cosmology, points, rel):
    z = np.array([0.001, 0.016, 0.5, 1.2345, 1.755])
    expected = [distance(value, *cosmology) for value in z]
    assert luminosity_distance(z, *cosmology, points) == pytest.approx(expected, rel=rel)


def test_milne_universe_has_a_closed_form():
    z = np.array([0.1, 1.0])
    expected = 299792.458 / 70 * (1 + z) * np.sinh(np.log1p(z))
    assert luminosity_distance(z, 70, 0, 0, 10**6) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("cosmology", COSMOLOGIES[:3])
def test_value_is_the_normal_log_likelihood(data_dir, cosmology):
    z, modulus, error = load("supernovae").T
    expected = norm.logpdf(modulus, 5 * np.log10([distance(v, *cosmology) for v in z]) + 25, error).sum()
    assert Supernova().evaluate(cosmology, 2) == pytest.approx(expected, rel=1e-8)


def test_cheaper_grids_are_further_off(data_dir):
    problem = Supernova()
    fine = problem.evaluate((70, 0.9, 0.2), 2)
    assert abs(problem.evaluate((70, 0.9, 0.2), 0) - fine) > abs(problem.evaluate((70, 0.9, 0.2), 1) - fine) > 0


def test_without_a_big_bang_and_beyond_the_antipode_there_is_no_distance(data_dir):
    for fidelity in range(3):
        assert Supernova().evaluate((70, 0.0, 2.0), fidelity) == Supernova.worst == -1e4
    assert luminosity_distance(np.array([1.0, 60.0]), 70, 0.1, 1.3, 1000) is None
    assert luminosity_distance(np.array([1.0, 1.5]), 70, 0.1, 1.3, 1000).min() > 0


def test_the_real_data_prefer_the_concordance_model(real_data_dir, monkeypatch):
    monkeypatch.setenv("MFBO_DATA_DIR", real_data_dir)
    problem = Supernova()
    corners = [(h, m, d) for h in (60, 80) for m in (0, 1) for d in (0, 1)]
    values = [problem.evaluate(x, 1) for x in corners]
    assert problem.worst < min(values) == pytest.approx(-1377.5, abs=0.1)
    assert problem.evaluate((65, 0.3, 0.7), 1) > max(values)
