"""MF-GP-UCB as published: known ζ, γ and processes, the width of the theorem, the protocol of the experiments."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from strategy_table import SPACE, loop, toy
from ucb_runs import strategy

from mfbo_torch.confidence import mf_gp_ucb_beta
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import calibrated_beta

PRIOR = Prior("matern52", [0.3, 0.5], outputscale=2.0, noise=0.01, mean=0.5)


def decided(history: History) -> list[dict]:
    return [r.query.meta for r in history if r.query.meta["stage"] == "model"]


def test_what_is_known_stays_also_where_the_space_knows_it():
    for zeta in ([0.7], [0.7, 0.0]):
        metas = decided(loop(strategy("independent", zeta=zeta, gamma=[0.2]), toy(SPACE), 20))
        assert metas
        assert all(m["zeta"] == [0.7, 0.0] and m["gamma"] == [0.2] and "check" not in m for m in metas)
    space = replace(SPACE, zeta=(0.3, 0.0))
    assert decided(loop(strategy("independent", space), toy(space), 14))[0]["zeta"] == [0.3, 0.0]
    assert decided(loop(strategy("independent", space, zeta=[0.9]), toy(space), 14))[0]["zeta"] == [0.9, 0.0]


def test_width_of_theorem_10():
    for t, meta in enumerate(decided(loop(strategy("independent", beta="theory", zeta=[1.0]), toy(SPACE), 16)), 1):
        assert meta["beta"] == pytest.approx(mf_gp_ucb_beta(t, 2, 2), rel=1e-12)


@pytest.mark.parametrize("settings", [{"link": "independent"}, {"link": "recursive", "hedge": False}])
def test_calibrated_width(settings):
    history = loop(strategy(**settings, beta="calibrated"), toy(SPACE), 16)
    noted = [(r.id, r.query.meta["beta"]) for r in history.records if "beta" in r.query.meta]
    assert noted
    assert all(beta == calibrated_beta(history.records[:i]) for i, beta in noted)


def test_a_known_process_is_that_of_dense_algebra():
    asks, history = strategy("independent", prior=PRIOR), loop(strategy("independent", prior=PRIOR), toy(SPACE), 14)
    at = torch.rand(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    mean, variance = asks.rule.model(asks.snapshot(history)).mean_variance(at)
    for m in range(2):
        records = history.select("done", m)
        X, y = asks.unit_points(records)[:, :-1], torch.tensor([r.value for r in records]).double() - PRIOR.mean
        K = PRIOR.covariance(X, X) + PRIOR.noise * torch.eye(len(X)).double()
        cross = PRIOR.covariance(at, X)
        assert torch.allclose(mean[:, m], PRIOR.mean + cross @ torch.linalg.solve(K, y), atol=1e-8)
        left = PRIOR.outputscale - (cross * torch.linalg.solve(K, cross.mT).mT).sum(-1)
        assert torch.allclose(variance[:, m], left, atol=1e-8)


def test_the_protocol_to_the_letter():
    """All of the initial capital, half of it at the lowest fidelity; fits after it and every 25 queries."""
    asks = strategy("independent", capital=400.0, initial_capital=20.0, strict=True)
    assert asks.rule.counts(asks.snapshot(History())) == [40, 10]
    history = loop(asks, toy(SPACE), 52)
    assert len(decided(history)) == 2
    for extra, size in ((0, 50), (24, 50), (25, 75), (49, 75), (50, 100)):
        assert asks.rule.fit_size(history.records[:50] + history.records[-1:] * extra) == size
    query = asks.ask(history)[0]
    u = SPACE.to_unit(torch.tensor([query.x], dtype=torch.double))
    model = asks.rule.model(asks.snapshot(history))

    def phi(points: torch.Tensor) -> np.ndarray:
        mean, variance = model.mean_variance(points)
        bounds = mean + query.meta["beta"] ** 0.5 * variance.sqrt() + torch.tensor(query.meta["zeta"]).double()
        return bounds.amin(-1).detach().numpy()

    grid = torch.rand(4000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    assert phi(u)[0] >= phi(grid).max() - 1e-2 * np.ptp(phi(grid))
