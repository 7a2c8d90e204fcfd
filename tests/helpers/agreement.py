"""Whether a model agrees with the plain loops, and with another model."""

import dense
import numpy as np
import pytest
import torch
from tolerances import TOLERANCES

from mfbo_torch.models import PerFidelityGP

LINKS = ("recursive", "independent")
COUNTS = [(7,), (7, 4), (6, 5, 3), (7, 5, 4, 3), (5, 0, 3), (0, 4), (6, 0), (0, 0, 3)]


def prior_variance(model: PerFidelityGP) -> float:
    """The largest prior variance of any fidelity."""
    levels = dense.fidelities(model)
    top = range(len(levels))
    return max(sum(dense.weight(levels, m, k) ** 2 * levels[k].outputscale for k in top) for m in top)


def assert_agrees(
    model: PerFidelityGP, X: torch.Tensor, mean: np.ndarray, covariance: np.ndarray, tolerance: float
) -> None:
    """The joint posterior is as expected, relative to the prior."""
    with torch.no_grad():
        posterior = model.posterior(X)
    variance = prior_variance(model)
    assert posterior.mean.squeeze(-1).numpy() == pytest.approx(mean, abs=tolerance * variance**0.5, rel=tolerance)
    found = posterior.distribution.covariance_matrix.detach().numpy()
    assert found == pytest.approx(covariance, abs=tolerance * variance)


def assert_dense(model: PerFidelityGP, X: torch.Tensor, pending: torch.Tensor | None = None) -> None:
    """The joint posterior is that of the plain loops; ``pending`` conditions the deviations of the loops."""
    levels, points = dense.fidelities(model), dense.as_points(X)
    out = [] if pending is None else dense.as_points(pending)
    mean = np.array([dense.mean(levels, x, m) for x, m in points])
    covariance = np.array([[dense.covariance(levels, a, b, out) for b in points] for a in points])
    assert_agrees(model, X, mean, covariance, TOLERANCES[torch.double])


def same(a: PerFidelityGP, b: PerFidelityGP, tolerance: float = 1e-9) -> None:
    """Two models say the same."""
    X = dense.points(a.num_fidelities, 9)
    with torch.no_grad():
        first, second = a.posterior(X), b.posterior(X)
    assert torch.allclose(first.mean, second.mean, rtol=tolerance, atol=tolerance)
    one, other = (each.distribution.covariance_matrix for each in (first, second))
    assert torch.allclose(one, other, rtol=0, atol=tolerance)
