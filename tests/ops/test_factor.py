"""The factor of given covariances, grown and not grown."""

import torch
from gaussian import draw

from mfbo_torch.ops.factor import factorize, hallucinated, observed


def covariance(n: int) -> torch.Tensor:
    root = draw(n, n)
    return root @ root.mT + 0.1 * torch.eye(n, dtype=torch.double)


def test_posterior_of_a_gaussian_vector():
    K, r = covariance(9), draw(6, seed=1)
    factor = factorize(K[:6, :6], r)
    mean, variance = factor.mean_variance(K[6:, :6], draw(3, seed=2), K.diagonal()[6:])
    weights = torch.linalg.solve(K[:6, :6], K[:6, 6:])
    assert torch.allclose(mean, draw(3, seed=2) + weights.mT @ r, rtol=0, atol=1e-11)
    exact = K[6:, 6:] - K[6:, :6] @ weights
    assert torch.allclose(variance, exact.diagonal(), rtol=0, atol=1e-11)
    assert torch.allclose(factor.mean_covariance(K[6:, :6], draw(3, seed=2), K[6:, 6:])[1], exact, rtol=0, atol=1e-11)


def test_growing_is_factoring_all():
    K, r = covariance(10), draw(8, seed=1)
    whole = factorize(K[:8, :8], r)
    grown = observed(factorize(K[:0, :0], r[:0]), K[:5, :0], K[:5, :5], r[:5])
    grown = observed(grown, K[5:8, :5], K[5:8, 5:8], r[5:])
    for name in ("inverse", "residuals", "alpha"):
        assert torch.allclose(getattr(grown, name), getattr(whole, name), rtol=0, atol=1e-10)
    pending = hallucinated(factorize(K[:5, :5], r[:5]), K[5:8, :5], K[5:8, 5:8])
    assert torch.allclose(pending.inverse, whole.inverse, rtol=0, atol=1e-10)
    assert torch.equal(pending.mean(K[8:, :8], r[:2]), factorize(K[:5, :5], r[:5]).mean(K[8:, :5], r[:2]))
