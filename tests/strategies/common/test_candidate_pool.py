"""Designs whose joint posterior is known: their variances beside points in flight are those of the models."""

import pytest
import torch
from torch.testing import assert_close

from mfbo_torch.models import CoKrigingGP, PerFidelityGP
from mfbo_torch.strategies.common.candidate_pool import Pool, joint_of
from mfbo_torch.strategies.common.deduplicate import are_clear


def points(n: int, seed: int) -> torch.Tensor:
    U = torch.rand(n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return torch.cat([U, torch.arange(n).remainder(3).unsqueeze(-1)], -1)


def models() -> dict[str, PerFidelityGP | CoKrigingGP]:
    X = points(24, 0)
    Y = (3 * X[:, :1]).sin() + X[:, 1:2] * (1 + X[:, 2:] / 4)
    chain = PerFidelityGP(X, Y, 3).fit(optimizer_kwargs={"options": {"maxiter": 20}})
    return {"recursive": chain, "co-kriging": CoKrigingGP(chain)}


@pytest.mark.parametrize("name", ["recursive", "co-kriging"])
def test_variances_beside_points_in_flight_are_those_of_the_model(name):
    model, pool = models()[name], Pool(points(12, 1)[:, :-1])
    strange = points(5, 2)
    flying = torch.cat([strange[:2], torch.cat([pool.designs[[3, 7, 3]], torch.tensor([[0.0], [2.0], [1.0]])], -1)])
    flying = torch.cat([flying, strange[2:]])
    for count in (1, 4, len(flying), 2):  # one after another, and from the start again
        mean, variance = pool.moments(name, joint_of(model), flying[:count])
        wanted_mean, wanted = model.hallucinate(flying[:count]).mean_variance(pool.designs)
        assert_close(mean, wanted_mean.detach(), rtol=1e-8, atol=1e-8)
        assert_close(variance, wanted.detach(), rtol=1e-6, atol=1e-9)


def test_designs_clear_of_what_was_queried():
    pool, taken = Pool(points(12, 1)[:, :-1]), points(9, 2)[:, :-1]
    taken[[1, 4, 8]] = pool.designs[[0, 5, 7]]
    observed, others = torch.arange(9) < 3, taken.flip(0)
    for some in (taken[:2], taken[:5], taken[:3], others[:4], taken, taken[:0]):  # one after another, and anew
        for fidelity in (0, 1):
            clear = pool.clear(fidelity, some, observed[: len(some)])
            assert torch.equal(clear, are_clear(pool.designs, some, observed[: len(some)]))
    assert not pool.clear(0, taken, observed)[[0, 5, 7]].any()
