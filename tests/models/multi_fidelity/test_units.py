"""The units of the fidelities where there are few values."""

import torch

from mfbo_torch.models import PerFidelityGP
from mfbo_torch.models.multi_fidelity.chain import units


def wave(X):
    return 10 * (6 * X).sin()


def test_few_values_that_are_alike_do_not_make_a_unit():
    """Two neighbours at the target must not shrink what the fidelity below has learned."""
    low = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
    for gap in (0.1, 0.01):
        high = torch.tensor([[0.1], [0.1 + gap]], dtype=torch.double)
        X = torch.cat([torch.cat([part, torch.full_like(part, m)], -1) for m, part in enumerate((low, high))])
        model = PerFidelityGP(X, wave(X[:, :1]), 2)
        assert model.scale[1] == model.scale[0]
        mean, _ = model.fit().mean_variance(torch.tensor([[0.26], [0.78]], dtype=torch.double))
        assert (mean[:, 1] - wave(torch.tensor([0.26, 0.78]))).abs().max() < 0.1


def test_enough_values_are_their_own_unit():
    Y = torch.tensor([[0.0], [10.0], [20.0], [3.0], [4.0], [5.0], [6.0]], dtype=torch.double)
    X = torch.cat([torch.rand(7, 1, dtype=torch.double), torch.tensor([[0.0]] * 3 + [[1.0]] * 4)], -1)
    shift, scale = units(X, Y, [False, True], "recursive")
    assert torch.equal(scale, torch.stack([Y[:3].std(), Y[3:].std()]))
    assert torch.equal(shift, torch.stack([Y[:3].mean(), Y[3:].mean()]))
    assert torch.equal(units(X[:-1], Y[:-1], [False, True], "recursive")[1][1], Y[:3].std())
    assert torch.equal(units(X[:-1], Y[:-1], [False, False], "independent")[1][1], Y[:-1].std())
