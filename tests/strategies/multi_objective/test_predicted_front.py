"""The front of a known function is found, also where a few designs show a part of it only."""

import pytest
import torch

from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies.multi_objective.predicted_front import predicted_front


def every(U):
    return torch.ones(len(U), dtype=torch.bool)


def zdt1(U):
    """Of which the front is x2 = x3 = x4 = 0: f1 from 0 to 1, f2 from 1 to 0."""
    g = 1 + 3 * U[:, 1:].sum(-1)
    return -torch.stack([U[:, 0], g * (1 - (U[:, 0] / g).sqrt())], -1)


def test_a_front_is_followed_along_a_parameter():
    space = Space([Parameter(f"x{i}", 0, 1) for i in range(4)], costs=[1])
    seen = torch.zeros(2, 4, dtype=torch.double)
    seen[1, 0] = 0.05
    designs, values, _ = predicted_front(space, seen, zdt1, every, 0)
    torch.testing.assert_close(values, zdt1(designs))
    assert designs[:, 1:].abs().max() < 1e-9
    assert values.amin(0).tolist() < [-0.9, -0.9]
    assert values.amax(0).min() > -0.05


def test_last_digits_put_nothing_on_it():
    """The first objective hardly depends on the second parameter, which ruins the second objective."""
    space = Space([Parameter("a", 0, 1), Parameter("b", 0, 1)], costs=[1])

    def values(U):
        return -torch.stack([U[:, 0] - 1e-3 * U[:, 1], 1 - U[:, 0] + 100 * U[:, 1]], -1)

    designs, *_ = predicted_front(space, torch.zeros(1, 2, dtype=torch.double), values, every, 0)
    assert designs[:, 1].max() < 0.05


def test_constraints_and_finite_spaces_are_kept():
    values = zdt1
    bounded = Space([Parameter(f"x{i}", 0, 1) for i in range(3)], costs=[1], constraints=("x0 + x1 >= 0.6",))
    designs, *_ = predicted_front(bounded, torch.full((1, 3), 0.5, dtype=torch.double), values, every, 0)
    assert bounded.allows(designs).all()
    finite = Space.finite(torch.rand(30, 3, generator=torch.Generator().manual_seed(0)), [1.0])
    designs, *_ = predicted_front(finite, finite.unit_candidates[:1], values, every, 0)
    assert (torch.cdist(designs, finite.unit_candidates).amin(-1) < 1e-9).all()


def test_an_ordinary_value_is_that_of_a_good_quarter_and_only_likely_designs_count():
    space = Space([Parameter(f"x{i}", 0, 1) for i in range(2)], costs=[1])
    designs, values, ordinary = predicted_front(
        space, torch.zeros(1, 2, dtype=torch.double), lambda U: -U, lambda U: U.amin(-1) > 0.5, 0
    )
    assert designs.amin() > 0.5
    assert values.amax() > -0.6
    assert ordinary.tolist() == pytest.approx([-0.625, -0.625], abs=0.01)
    *_, ordinary = predicted_front(
        space, torch.zeros(1, 2, dtype=torch.double), lambda U: -U, lambda U: U.amin(-1) > 2, 0
    )
    assert ordinary.tolist() == pytest.approx([-0.25, -0.25], abs=0.01)
