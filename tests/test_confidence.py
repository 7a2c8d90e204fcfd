"""The widths of confidence bands, against the formulas written out."""

from __future__ import annotations

import math

import pytest

from mfbo_torch.confidence import mf_gp_ucb_beta, practical_beta
from mfbo_torch.errors import SettingError


@pytest.mark.parametrize("t", [1, 2, 7, 1000])
@pytest.mark.parametrize("dim", [1, 4, 20])
def test_practice(t, dim):
    assert practical_beta(t, dim) == pytest.approx(0.2 * dim * math.log(2 * t), rel=1e-15)


def test_first_width_is_positive():
    assert practical_beta(1, 3) == pytest.approx(0.6 * math.log(2))


@pytest.mark.parametrize("t", [1, 13])
@pytest.mark.parametrize(("dim", "M", "delta", "a", "b", "r"), [(1, 1, 0.1, 1, 1, 1), (3, 4, 0.05, 2.5, 0.7, 10.0)])
def test_theory(t, dim, M, delta, a, b, r):
    cover = 2 * dim * math.log(b * r * dim * math.log(6 * M * a * dim / delta))
    expected = 2 * math.log(M * math.pi**2 * t**2 / (2 * delta)) + 4 * dim * math.log(t) + max(0.0, cover)
    assert mf_gp_ucb_beta(t, dim, M, delta=delta, a=a, b=b, r=r) == pytest.approx(expected, rel=1e-14)


def test_theory_grows():
    widths = [mf_gp_ucb_beta(t, 2, 3) for t in range(1, 50)]
    assert widths == sorted(widths)
    assert mf_gp_ucb_beta(5, 2, 3, delta=0.01) > mf_gp_ucb_beta(5, 2, 3, delta=0.1)


@pytest.mark.parametrize(("b", "r"), [(1e-3, 1.0), (1.0, 0.2)])
def test_small_boxes_and_slopes_add_nothing(b, r):
    """The last term is left out where it is negative."""
    expected = 2 * math.log(math.pi**2 * 9 / 0.2) + 4 * math.log(3)
    assert mf_gp_ucb_beta(3, 1, 1, delta=0.1, b=b, r=r) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("setting", "call"),
    [
        ("t", lambda: practical_beta(0, 2)),
        ("t", lambda: mf_gp_ucb_beta(0, 2, 3)),
        ("delta", lambda: mf_gp_ucb_beta(1, 2, 3, delta=0.0)),
        ("delta", lambda: mf_gp_ucb_beta(1, 2, 3, delta=1.0)),
        ("delta", lambda: mf_gp_ucb_beta(1, 2, 3, delta=math.nan)),
    ],
)
def test_bad_settings(setting, call):
    with pytest.raises(SettingError) as caught:
        call()
    assert caught.value.setting == setting
