"""Greedy selection, against refactoring after each pick and against BoTorch."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP
from gaussian import draw, factor

from mfbo_torch import CachedGP
from mfbo_torch.errors import SettingError
from mfbo_torch.ops.cache import extend
from mfbo_torch.ops.greedy import greedy
from mfbo_torch.ops.kernels import CORRELATIONS
from mfbo_torch.ops.posterior import mean_variance, reference


def by_refactoring(cache, X: torch.Tensor, width: float, q: int) -> list[int]:
    """The picks if every one of them is added to the factor before the next."""
    picks = []
    for _ in range(q):
        mean, variance = mean_variance(cache, X)
        picks.append(int((mean + width * variance.sqrt()).argmax()))
        cache = extend(cache, X[picks[-1:]], torch.ones(1, dtype=X.dtype))
    return picks


@pytest.mark.parametrize("n", [0, 1, 7, 230])
@pytest.mark.parametrize("width", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("kind", CORRELATIONS)
def test_is_refactoring_after_each_pick(kind, width, n):
    cache, X = factor(draw(n, 2), kind=kind, noise=0.05), draw(60, 2, seed=1)
    found = greedy(cache, X, width, 9)
    assert found.dtype == torch.long
    assert found.tolist() == by_refactoring(cache, X, width, 9)


def test_agrees_with_botorch():
    X, Y = draw(12, 3), draw(12, 3).sin().sum(-1, keepdim=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskGP(X, Y).eval()
        model.likelihood.noise = 1e-2
        choices, current, picks = draw(80, 3, seed=1), model, []
        with torch.no_grad():
            mean = model.posterior(choices.unsqueeze(1)).mean
            for _ in range(6):
                variance = current.posterior(choices.unsqueeze(1)).variance
                picks.append(int((mean + 2 * variance.sqrt()).reshape(-1).argmax()))
                best = slice(picks[-1], picks[-1] + 1)
                current = current.condition_on_observations(choices[best], mean[best].reshape(1, 1))
    assert greedy(CachedGP(model).cache, choices, 2.0, 6).tolist() == picks


def test_pending_points_count():
    cache, X, pending = factor(draw(8, 2)), draw(60, 2, seed=1), draw(3, 2, seed=2)
    cache = extend(cache, pending, torch.ones(3).double())
    assert greedy(cache, X, 2.0, 5).tolist() == by_refactoring(cache, X, 2.0, 5)


def test_in_pieces(monkeypatch):
    cache, X = factor(draw(20, 2)), draw(60, 2, seed=1)
    whole = greedy(cache, X, 2.0, 5)
    monkeypatch.setattr(reference, "CHUNK_BYTES", 20 * 8 * 7)
    assert torch.equal(greedy(cache, X, 2.0, 5), whole)


def test_of_equals_the_first_and_again():
    """One place seven times: the noise leaves something to learn there, so it is picked again."""
    X = draw(1, 2).expand(7, 2)
    assert greedy(factor(draw(0, 2)), X, 1.0, 3).tolist() == [0, 0, 0]


def test_a_width_as_a_tensor():
    cache, X = factor(draw(8, 2)), draw(60, 2, seed=1)
    assert torch.equal(greedy(cache, X, torch.tensor(2.0).double(), 5), greedy(cache, X, 2.0, 5))


def test_single_precision():
    cache, X = factor(draw(8, 2), noise=0.05), draw(60, 2, seed=1)
    assert torch.equal(greedy(cache.to(torch.float32), X.float(), 2.0, 5), greedy(cache, X, 2.0, 5))


@pytest.mark.parametrize("X", [draw(5, 3), draw(2, 5, 2), draw(0, 2), draw(2)], ids=lambda X: str(tuple(X.shape)))
def test_points_of_another_shape(X):
    with pytest.raises(BotorchTensorDimensionError, match="must be m x 2, m at least 1"):
        greedy(factor(draw(4, 2)), X, 1.0, 2)


def test_wrong_settings():
    cache, X = factor(draw(4, 2)), draw(5, 2)
    with pytest.raises(SettingError, match="q = 0: must be a whole number from 1 on"):
        greedy(cache, X, 1.0, 0)
    for width in (-1.0, math.nan, math.inf):
        with pytest.raises(SettingError, match="width"):
            greedy(cache, X, width, 1)
    with pytest.raises(UnsupportedError, match=r"cache of \(3,\) processes: must be of one"):
        greedy(factor(draw(3, 4, 2)), X, 1.0, 1)
    with pytest.raises(UnsupportedError, match="backend"):
        greedy(cache, X, 1.0, 1, backend="fast")
