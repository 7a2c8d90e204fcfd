"""The widths of confidence bands, against the formulas written out; information, against all sets of small problems."""

import itertools
import math
import re

import numpy as np
import pytest
import torch
from refusals import refused
from scipy.spatial.distance import cdist

from mfbo_torch.confidence import (
    batch_gain_bound,
    box_alpha,
    finite_alpha,
    gp_bucb_beta,
    gp_ucb_beta,
    information_gain,
    linear_initialization,
    matern_initialization,
    mf_gp_ucb_beta,
    practical_beta,
    rbf_initialization,
    rkhs_alpha,
    uncertainty_sampling,
)


@pytest.mark.parametrize("t", [1, 2, 7, 1000])
@pytest.mark.parametrize("dim", [1, 4, 20])
def test_practice(t, dim):
    assert practical_beta(t, dim) == pytest.approx(0.2 * dim * math.log(2 * t), rel=1e-15)


THEORY = [(1, 1, 0.1, 1, 1, 1), (3, 4, 0.05, 2.5, 0.7, 10.0), (1, 1, 0.1, 1, 1e-3, 1.0), (1, 1, 0.1, 1, 1.0, 0.2)]


@pytest.mark.parametrize("t", [1, 13])
@pytest.mark.parametrize(("dim", "M", "delta", "a", "b", "r"), THEORY)
def test_theory(t, dim, M, delta, a, b, r):
    """In small boxes and for small slopes the last term would be negative, and is left out."""
    cover = 2 * dim * math.log(b * r * dim * math.log(6 * M * a * dim / delta))
    expected = 2 * math.log(M * math.pi**2 * t**2 / (2 * delta)) + 4 * dim * math.log(t) + max(0.0, cover)
    assert mf_gp_ucb_beta(t, dim, M, delta=delta, a=a, b=b, r=r) == pytest.approx(expected, rel=1e-14)


def test_a_multiplier_beyond_all_numbers():
    assert rbf_initialization(10, 5).multiplier < rbf_initialization(10, 6).multiplier == math.inf


@pytest.mark.parametrize("t", [1, 13])
@pytest.mark.parametrize("delta", [0.1, 0.5])
def test_widths_of_gp_bucb(t, delta):
    assert finite_alpha(t, 1000, delta) == pytest.approx(2 * math.log(1000 * t**2 * math.pi**2 / (6 * delta)))
    d, a, b, side = 3, 2.5, 0.7, 10.0
    first, root = 2 * math.log(2 * math.pi**2 * t**2 / (3 * delta)), math.sqrt(math.log(4 * d * a / delta))
    expected = first + 2 * d * math.log(t**2 * d * b * side * root)
    assert box_alpha(t, d, delta, a=a, b=b, side=side) == pytest.approx(expected)
    assert box_alpha(t, d, delta, a=a, b=1e-9, side=side) == pytest.approx(first)
    assert box_alpha(t, 1, delta, a=1e-9) == pytest.approx(first)
    expected = first + 2 * d * math.log(t**2 * b * d * side * math.sqrt(4 * a * d / delta))
    assert gp_ucb_beta(t, d, delta, a=a, b=b, r=side) == pytest.approx(expected)
    assert gp_ucb_beta(t, d, delta, a=a, b=1e-9, r=side) == pytest.approx(first)
    expected = 2 * 1.5**2 + 300 * 4.2 * math.log(t / delta) ** 3
    assert rkhs_alpha(t, 4.2, delta, norm=1.5) == pytest.approx(expected)
    # a batch widens the band by so much that the band at its end still holds the one at its begin
    assert gp_bucb_beta(3.0, 0.0) == 3.0
    assert math.sqrt(gp_bucb_beta(3.0, 0.7)) == pytest.approx(math.sqrt(3.0) * math.exp(0.7))


def covariance(m: int, seed: int = 0, dim: int = 2, lengthscale: float = 0.5) -> np.ndarray:
    X = np.random.default_rng(seed).random((m, dim))
    return 1.7 * np.exp(-(cdist(X, X) ** 2) / (2 * lengthscale**2))


def given(K: np.ndarray, S: list[int], noise: float) -> np.ndarray:
    """Covariance after noisy observations at ``S``, repeated ones included."""
    return K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)] + noise * np.eye(len(S)), K[S])


def told(K: np.ndarray, A: list[int], noise: float) -> float:
    """``½ log det(I + K / σ²)`` from the eigenvalues."""
    return 0.5 * np.log1p(np.maximum(np.linalg.eigvalsh(K[np.ix_(A, A)]), 0) / noise).sum()


@pytest.mark.parametrize("noise", [1e-4, 0.1, 3.0])
def test_information_of_a_set(noise):
    K = covariance(12)
    assert information_gain(torch.from_numpy(K), noise) == pytest.approx(told(K, list(range(12)), noise), rel=1e-9)
    several = noise * (1 + torch.arange(12).double())
    det = np.linalg.slogdet(K + np.diag(several.numpy()))[1] - several.log().sum().item()
    assert information_gain(torch.from_numpy(K), several) == pytest.approx(0.5 * det, rel=1e-9)
    assert information_gain(torch.zeros(0, 0), noise) == 0.0


@pytest.mark.parametrize("noise", [1e-3, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_the_greedy_set_by_refactoring(seed, noise):
    """The most uncertain point is the one that tells most; its information adds up."""
    K, picks = covariance(30, seed), []
    found = uncertainty_sampling(torch.from_numpy(K), noise, 40)
    for t in range(40):
        left = given(K, picks, noise).diagonal() if picks else K.diagonal()
        picks.append(int(np.flatnonzero(left >= left.max() - 1e-11)[0]))
        more = [told(K, [*picks[:t], j], noise) for j in range(30)]
        assert told(K, picks, noise) == pytest.approx(max(more), rel=1e-9)
        assert found.gains[t].item() == pytest.approx(told(K, picks, noise), rel=1e-9)
    assert found.indices.tolist() == picks


def test_of_equals_the_first():
    assert uncertainty_sampling(torch.eye(3).double(), 0.1, 4).indices.tolist() == [0, 1, 2, 0]
    assert uncertainty_sampling(torch.eye(3).double(), 0.1, 0).indices.tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_lemma_1(seed):
    """A batch shrinks no deviation by more than the exponential of its information."""
    rng = np.random.default_rng(seed)
    noise, K = 10 ** rng.uniform(-3, 0), covariance(25, seed, lengthscale=rng.uniform(0.05, 1))
    fed, batch = (rng.integers(0, 25, size).tolist() for size in (rng.integers(1, 8), rng.integers(1, 10)))
    before, after = given(K, fed, noise), given(K, fed + batch, noise)
    gain = information_gain(torch.from_numpy(before[np.ix_(batch, batch)]), noise)
    assert gain == pytest.approx(told(K, fed + batch, noise) - told(K, fed, noise), rel=1e-6)
    assert np.sqrt(before.diagonal() / after.diagonal()).max() <= math.exp(gain) * (1 + 1e-9)
    assert gain <= batch_gain_bound(torch.from_numpy(before), noise, len(batch) + 1) * (1 + 1e-9)
    bounds = [batch_gain_bound(torch.from_numpy(left), noise, 5) for left in (before, after)]
    assert bounds[1] <= bounds[0] * (1 + 1e-9)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 2.0])
@pytest.mark.parametrize("batch", [1, 2, 4, 5])
def test_the_bound_holds_for_all_batches(batch, noise):
    """Against every multiset of six points; no looser than the usual factor."""
    K = covariance(6, seed=3)
    sets = itertools.combinations_with_replacement(range(6), batch - 1)
    most = max(told(K, list(A), noise) for A in sets)
    bound = batch_gain_bound(torch.from_numpy(K), noise, batch)
    greedy = uncertainty_sampling(torch.from_numpy(K), noise, batch - 1).gains
    assert most <= bound * (1 + 1e-9)
    assert bound <= (greedy[-1].item() if batch > 1 else 0.0) / (1 - 1 / math.e)


@pytest.mark.parametrize("rounds", [3, 8, 20])
def test_lemma_2(rounds):
    """After uncertainty sampling a batch has its share of what that many rounds could tell, at most."""
    K, noise, size = covariance(5, seed=1), 0.2, 3
    left = given(K, uncertainty_sampling(torch.from_numpy(K), noise, rounds).indices.tolist(), noise)
    after = max(told(left, list(A), noise) for A in itertools.combinations_with_replacement(range(5), size))
    assert after <= size / rounds * batch_gain_bound(torch.from_numpy(K), noise, rounds + 1)


def test_table_1():
    """The formulas of the table, term by term."""
    B, eta, d, nu, epsilon = 10, 2.0, 3, 1.5, 0.4
    L = math.log(B)
    share = (math.log(eta) + math.log(d) + 2 * L) / (2 * L - 1)
    linear = linear_initialization(B, d, eta)
    assert linear == (math.ceil(math.e * share * eta * d * (B - 1) * L), math.exp(2 / math.e))
    assert matern_initialization(B, nu, epsilon) == (math.ceil((nu * 9) ** (1 / 0.6)), math.e)
    share = (math.e / d) * (math.log(eta) + (d + 1) * L) / (2 * L - 1)
    rounds = math.ceil(share**d * eta * (B - 1) * L**d)
    assert rbf_initialization(B, d, eta) == (rounds, math.exp((2 * d / math.e) ** d))
    assert linear_initialization(10, 1, 0.011).rounds == rbf_initialization(10, 1, 1e-9).rounds == 3
    for one in (linear_initialization(1, d), matern_initialization(1), rbf_initialization(1, d)):
        assert one.rounds == 0


@pytest.mark.parametrize("batch", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("dim", [1, 2, 4])
def test_table_1_bounds_what_is_left(batch, scale, dim):
    """With ``γ_T`` at its bound, ``(B - 1) / T · γ_T`` is at most the logarithm of the multiplier."""
    for found, gamma in (
        (linear_initialization(batch, dim, scale), lambda T: scale * dim * math.log(T + 1)),
        (matern_initialization(batch, scale, 0.6), lambda T: scale * T**0.6),
        (rbf_initialization(batch, dim, scale), lambda T: scale * math.log(T + 1) ** dim),
    ):
        assert (batch - 1) / found.rounds * gamma(found.rounds) <= math.log(found.multiplier) * (1 + 1e-12)


SQUARE = torch.eye(3).double()


@pytest.mark.parametrize(
    ("setting", "call"),
    [
        ("t", lambda: practical_beta(0, 2)),
        ("t", lambda: mf_gp_ucb_beta(0, 2, 3)),
        ("delta", lambda: mf_gp_ucb_beta(1, 2, 3, delta=0.0)),
        ("delta", lambda: mf_gp_ucb_beta(1, 2, 3, delta=1.0)),
        ("t", lambda: finite_alpha(0, 10)),
        ("size", lambda: finite_alpha(1, 0)),
        ("delta", lambda: finite_alpha(1, 10, 1.0)),
        ("dim", lambda: box_alpha(1, 0)),
        ("a", lambda: box_alpha(1, 1, a=0.0)),
        ("b", lambda: box_alpha(1, 1, b=-1.0)),
        ("gain", lambda: rkhs_alpha(1, -1.0)),
        ("alpha", lambda: gp_bucb_beta(-1.0, 0.0)),
        ("gain", lambda: gp_bucb_beta(1.0, -0.1)),
        ("covariance", lambda: information_gain(torch.ones(2, 3), 0.1)),
        ("noise", lambda: information_gain(SQUARE, 0.0)),
        ("noise", lambda: information_gain(SQUARE, torch.tensor([0.1, 0.1, -0.1]))),
        ("covariance", lambda: uncertainty_sampling(torch.ones(3), 0.1, 2)),
        ("noise", lambda: uncertainty_sampling(SQUARE, 0.0, 2)),
        ("batch", lambda: batch_gain_bound(SQUARE, 0.1, 0)),
        ("batch", lambda: linear_initialization(0, 1)),
        ("dim", lambda: rbf_initialization(2, 0)),
        ("eta", lambda: linear_initialization(2, 1, 0.0)),
        ("nu", lambda: matern_initialization(2, -1.0)),
        ("epsilon", lambda: matern_initialization(2, 1.0, 1.0)),
    ],
)
def test_bad_settings(setting, call):
    refused(rf"^{re.escape(setting)} = ", call)
