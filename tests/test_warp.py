"""The map that shortens long tails."""

from __future__ import annotations

import pytest
import torch

from mfbo_torch.warp import Warp, fitted

Y = torch.linspace(-30, 50, 41, dtype=torch.double)


@pytest.mark.parametrize("warp", [Warp(), Warp(2, 3, 1, 0), Warp(2, 3, 0, 1), Warp(-1, 0.5, 1, 1)])
def test_it_is_monotone_and_can_be_undone(warp):
    Z = warp(Y)
    assert (Z.diff() > 0).all()
    assert torch.allclose(warp.inverse(Z), Y, atol=1e-9)
    step = 1e-6
    slope = (warp(Y + step) - warp(Y - step)) / (2 * step)
    away = (Y - warp.centre).abs() > 1e-3
    assert torch.allclose(warp.log_slope(Y).exp()[away], slope[away], rtol=1e-6)


def test_the_identity_changes_no_bit():
    assert torch.equal(Warp()(Y), Y)
    assert torch.equal(Warp().inverse(Y), Y)
    assert torch.equal(Warp().log_slope(Y), torch.zeros_like(Y))


def test_which_tails_are_shortened():
    torch.manual_seed(0)
    normal = torch.randn(100).double()
    none = torch.zeros(0).double()
    assert fitted(normal, none) == Warp()
    assert fitted(torch.rand(100).double(), none) == Warp()
    up, down = fitted(normal.exp() ** 2, none), fitted(-(normal.exp() ** 2), none)
    assert (up.below, up.above) == (0.0, 1.0)
    assert (down.below, down.above) == (1.0, 0.0)
    assert fitted(1e6 + 1e-6 * normal.exp() ** 2, none).above == 1.0
    assert fitted(normal[:5].exp() ** 2, none) == Warp(), "too few to tell"
    assert fitted(torch.ones(20).double(), none) == Warp(), "nothing varies"
    assert fitted(normal.exp() ** 2, torch.tensor([1e6]).double()) == Warp(), "the others are in another unit"


def test_moments_are_quantiles():
    warp = Warp(1.0, 2.0, 0.0, 1.0)
    mean, deviation = warp.moments(torch.tensor([0.0, 2.0]).double(), torch.tensor([0.1, 0.5]).double())
    assert torch.allclose(mean, warp.inverse(torch.tensor([0.0, 2.0]).double()))
    assert (deviation > 0).all()
    assert deviation[1] > 0.5 * 2.0
