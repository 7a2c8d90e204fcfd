"""The peer of greedy selection."""

import pytest
import torch
from gaussian import draw, factor

from benchmarks.speed.greedy import PaperLazy
from mfbo_torch.ops.greedy import greedy

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("kind", ["rbf", "matern52"])
def test_the_papers_algorithm_picks_the_same(kind):
    cache, X = factor(draw(20, 2), kind=kind, noise=0.05), draw(300, 2, seed=1)
    peer = PaperLazy(X)
    picks = peer.select(cache, 2.0, 7)
    assert picks == greedy(cache, X, 2.0, 7).indices.tolist()
    assert 300 <= peer.refreshes < 7 * 300
    before = peer.refreshes
    asked = torch.cat([draw(20, 2), X[picks]])  # the bounds hold where the picks were asked
    more = factor(asked, kind=kind, noise=0.05)
    assert peer.select(more, 2.0, 7) == greedy(more, X, 2.0, 7).indices.tolist()
    assert peer.refreshes - before < 7 * 300
