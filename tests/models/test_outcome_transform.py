"""The map that shortens long tails."""

import pytest
import torch

from mfbo_torch.models.outcome_transform import Warp, fitted, last_outlier, separated

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
    assert fitted(normal) == Warp()
    assert fitted(torch.rand(100).double()) == Warp()
    up, down = fitted(normal.exp() ** 2), fitted(-(normal.exp() ** 2))
    assert (up.below, up.above) == (0.0, 1.0)
    assert (down.below, down.above) == (256.0, 0.0)
    assert fitted(1e6 + 1e-6 * normal.exp() ** 2).above == 1.0
    assert fitted(normal[:5].exp() ** 2) == Warp(), "too few to tell"
    assert fitted(torch.ones(20).double()) == Warp(), "nothing varies"
    assert fitted(normal.exp() ** 2, [torch.tensor([1e6]).double()]) == Warp(), "the others are in another unit"


@pytest.mark.parametrize("far", [20.0, 900.0, 1e7, 1e30])
def test_a_few_losses_that_explode_do_not_hide_the_others(far):
    torch.manual_seed(0)
    losses = torch.cat([0.1 * torch.randn(50).exp(), torch.tensor([far] * 2)]).double()
    mapped = fitted(-losses)(-losses)
    assert mapped[:50].std() > 0.2 * mapped.std(), "what is left to see is about the others as well"
    assert fitted(losses).above == 1.0, "a peak is not taken for a mishap"


def test_other_fidelities_may_explode():
    torch.manual_seed(0)
    cheap, target = torch.randn(30).double(), torch.randn(5).double()
    assert fitted(cheap, [target]) == Warp()
    assert fitted(cheap, [torch.cat([target, target.new_tensor([-1e6])])]).below > 0


def test_which_values_are_explosions():
    first = [0.0, 1.0, 2.0, 3.0]
    assert last_outlier(first, [-18.0, 40.0, 2.0]) is None
    assert last_outlier(first, [-50.0, 1.0, -400.0]) == 0, "ten times as far as all before"
    assert last_outlier(first, [-50.0, 1.0, -600.0, 0.0]) == 2
    assert last_outlier(first, []) is None
    assert last_outlier([1.0, 1.0], [-5.0]) is None, "equal values tell nothing of what is far"


def test_which_values_are_torn_from_the_others():
    bulk = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert not separated(bulk)
    assert not separated([-30.0, *bulk])
    assert separated([-60.0, *bulk])
    assert separated([-60.0, -70.0, -1e9, *bulk])
    assert not separated([60.0, *bulk]), "above is what is looked for"
    assert not separated([-60.0] * 7 + bulk), "more than half"
    assert not separated([1.0] * 8)
    assert not separated([0.0] + [1.0] * 8), "equal values tell nothing of what is far"


def test_moments_are_quantiles():
    warp = Warp(1.0, 2.0, 0.0, 1.0)
    mean, deviation = warp.moments(torch.tensor([0.0, 2.0]).double(), torch.tensor([0.1, 0.5]).double())
    assert torch.allclose(mean, warp.inverse(torch.tensor([0.0, 2.0]).double()))
    assert (deviation > 0).all()
    assert deviation[1] > 0.5 * 2.0
