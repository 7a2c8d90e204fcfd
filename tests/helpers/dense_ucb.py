"""Upper confidence bounds on a grid by dense algebra."""

import math

import numpy as np
import pytest
import torch

from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query
from mfbo_torch.space import Space

PRIOR = Prior("matern52", lengthscale=[0.2, 0.3], outputscale=2.0, noise=0.01, mean=0.5)
GRID = torch.cartesian_prod(torch.linspace(-1, 3, 12), torch.linspace(0, 5, 11)).double()
FINITE = Space.finite(GRID, (1.0,))


def wavy(query: Query) -> float:
    return math.sin(2.0 * query.x[0]) + math.cos(1.3 * query.x[1])


def covariance(A: np.ndarray, B: np.ndarray, prior: Prior = PRIOR) -> np.ndarray:
    """Matérn 5/2 by its formula."""
    r = np.sqrt(5) * np.sqrt((((A[:, None] - B) / np.array(prior.lengthscales)) ** 2).sum(-1))
    return prior.outputscale * (1 + r + r**2 / 3) * np.exp(-r)


def scores(history: History, beta: float, space: Space = FINITE, out: tuple[str, ...] = ("pending",)) -> np.ndarray:
    """``μ + β^½ σ`` at the candidates: mean from the values, deviation also from the pending queries."""
    X = space.unit_candidates.numpy()
    places = {x: i for i, x in enumerate(space.candidates)}
    known = [r for r in history if r.status == "done"]
    i = [places[r.query.x] for r in known]
    j = i + [places[r.query.x] for r in history if r.status in out]
    mean = np.full(len(X), PRIOR.mean)
    if i:
        gram = covariance(X[i], X[i]) + PRIOR.noise * np.eye(len(i))
        mean = PRIOR.mean + covariance(X, X[i]) @ np.linalg.solve(gram, [r.value - PRIOR.mean for r in known])
    gram = covariance(X[j], X[j]) + PRIOR.noise * np.eye(len(j))
    cross = covariance(X, X[j])
    variance = PRIOR.outputscale - (cross * np.linalg.solve(gram, cross.T).T).sum(-1)
    return mean + math.sqrt(beta) * np.sqrt(np.maximum(variance, 0.0))


def check_largest(query: Query, history: History, beta: float) -> None:
    expected = scores(history, beta)
    assert expected[FINITE.candidates.index(query.x)] == pytest.approx(expected.max(), abs=1e-9)


def asked(history: History, queries: list[Query]) -> History:
    for query in queries:
        history = history.asked(query, 1.0)
    return history
