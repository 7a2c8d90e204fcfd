"""Values that differ, and the units they are seen in."""

import statistics

import pytest
import torch

from mfbo_torch.utils.standardize import shift_scale, varies


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.double).unsqueeze(-1)


@pytest.mark.parametrize("scale", [1.0, 1e9, 1e-9])
@pytest.mark.parametrize("offset", [0.0, 3.0, -1e8])
def test_values_that_differ(scale, offset):
    Y = scale * (offset + column(1.0, 4.0, -2.0, 0.5))
    assert varies(Y)
    assert varies(Y[:2])
    shift, spread = shift_scale(Y)
    assert spread == pytest.approx(scale * statistics.stdev([1.0, 4.0, -2.0, 0.5]), rel=1e-6)
    assert shift == pytest.approx(scale * (offset + 0.875), rel=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.double], ids=str)
@pytest.mark.parametrize("value", [0.0, 1.0, 1.1, 0.1, -1e-9, 1e9])
@pytest.mark.parametrize("n", [1, 2, 3, 1000])
def test_values_that_are_equal(n, value, dtype):
    Y = torch.full((n, 1), value, dtype=dtype)
    assert not varies(Y)
    shift, scale = shift_scale(Y)
    assert shift == pytest.approx(value, rel=1e-6)
    assert scale == pytest.approx(abs(value) or 1.0, rel=1e-6)


def test_values_that_differ_by_rounding_or_by_more_in_any_units():
    assert not varies(column(0.3, 0.1 + 0.2))
    assert not varies(column(1e9, 1e9 * (1 + 4e-16)))
    assert varies(column(1e8, 1e8 + 1e-5))
    assert varies(1e200 * column(1.0, 4.0, -2.0, 0.5))
    assert varies(1e-200 * column(1.0, 4.0, -2.0, 0.5))


def test_too_few_values():
    assert shift_scale(column()) == (0.0, 1.0)
    assert shift_scale(column(), 3.0) == (0.0, 3.0)
    assert shift_scale(column(), 0.5) == (0.0, 1.0)
    two = column(1.0, 3.0)
    assert shift_scale(two) == (2.0, pytest.approx(2**0.5))
    assert shift_scale(two, few=2) == (2.0, 3.0)
    assert shift_scale(two, 5.0, few=2) == (2.0, 5.0)
    assert shift_scale(column(-0.1, 0.3), few=2) == (pytest.approx(0.1), pytest.approx(0.3))
    assert shift_scale(column(-2.0, -2.0, -2.0), 0.1, few=2) == (-2.0, 2.0)
