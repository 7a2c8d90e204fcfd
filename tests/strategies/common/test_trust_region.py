"""How far the chains of the default are believed."""

import pytest
import torch
from botorch.acquisition import PosteriorMean, UpperConfidenceBound
from botorch.models import SingleTaskGP

from mfbo_torch import MFGPUCB, Space
from mfbo_torch.history import History, Query
from mfbo_torch.loop.runner import run
from mfbo_torch.models import CachedGP
from mfbo_torch.problems import Borehole
from mfbo_torch.strategies.common.trust_region import FIRST, LEAST, MOST, Trusted, half_width


def told(*z: float, model: str = "linked") -> History:
    """Queries whose values were so many deviations from what was predicted."""
    history = History()
    for i, off in enumerate(z):
        query = Query((0.1 * i,), 0, {"model": model, "mean": 1.0, "spread": 0.5})
        history = history.asked(query, 1.0)
        history = history.updated(history.records[-1].done(1.0 + 0.5 * off))
    return history


def test_the_width_follows_the_predictions():
    assert half_width(told(), ("linked",)) == FIRST
    assert half_width(told(0.1, -1.9), ("linked",)) == pytest.approx(2 * FIRST)
    assert half_width(told(0.1, 1.9, 2.1), ("linked",)) == pytest.approx(FIRST)
    assert half_width(told(*[9.0] * 9), ("linked",)) == LEAST
    assert half_width(told(*[0.0] * 9), ("linked",)) == MOST
    assert half_width(told(*[9.0] * 9, model="alone"), ("linked",)) == FIRST


def test_points_move_into_the_nearest_cube():
    generator = torch.Generator().manual_seed(0)
    designs = torch.rand(5, 3, generator=generator, dtype=torch.double)
    X = torch.rand(40, 1, 3, generator=generator, dtype=torch.double)
    model = SingleTaskGP(designs, designs.sum(-1, keepdim=True))
    trusted = Trusted(PosteriorMean(model), designs, 0.1)
    moved = trusted.moved(X)
    for x, found in zip(X[:, 0].tolist(), moved[:, 0].tolist(), strict=True):
        centre = min(designs.tolist(), key=lambda c: max(abs(a - b) for a, b in zip(x, c, strict=True)))
        for value, own, middle in zip(found, x, centre, strict=True):
            assert value == pytest.approx(min(max(own, middle - 0.1), middle + 0.1))
    assert torch.equal(trusted(X), trusted.inner(moved))
    with torch.no_grad():
        assert torch.equal(trusted.moved(moved), moved)


def test_on_arrays_as_with_torch():
    designs = torch.rand(9, 3, dtype=torch.double)
    gp = CachedGP(SingleTaskGP(designs, designs.square().sum(-1, keepdim=True)))
    trusted = Trusted(UpperConfidenceBound(gp, 2.0), designs[:4], 0.1)
    X = torch.rand(30, 1, 3, dtype=torch.double, requires_grad=True)
    values = trusted(X)
    (slopes,) = torch.autograd.grad(values.sum(), X)
    found, gradient = trusted.fused().with_gradient(X.detach().squeeze(-2).numpy())
    assert found == pytest.approx(values.detach().numpy())
    assert gradient == pytest.approx(slopes.squeeze(-2).numpy(), abs=1e-9)


def test_no_chain_of_the_default_looks_farther():
    """In many dimensions every query of a chain is within the width of its time of a design observed before."""
    problem = Borehole()
    space: Space = problem.space
    history = run(problem, MFGPUCB(seed=3), 4 * space.costs[-1], progress=False)
    U, seen = space.to_unit(torch.tensor([r.query.x for r in history], dtype=torch.double)), 0
    for i, record in enumerate(history):
        if record.query.meta.get("model") not in ("linked", "integrated"):
            continue
        width = half_width(history.records[:i], ("linked", "integrated"))
        assert (U[:i] - U[i]).abs().amax(-1).min() <= width + 1e-9
        seen += 1
    assert seen > 5
