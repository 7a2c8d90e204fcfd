"""What a cheap fidelity is asked for while few values of the target tell how these follow from it."""

import itertools

import pytest
import torch

from mfbo_torch.history import History, Query
from mfbo_torch.space import Space
from mfbo_torch.strategies import MFGPUCB
from mfbo_torch.strategies.common.initial_design import sobol

BOX = dict.fromkeys("abcde", (0.0, 1.0))


def cheap(x):
    return -sum((part - 0.4) ** 2 for part in x)


def observed(at_target):
    """Ten designs at the cheap fidelity, two of which, with nearly the same value there, have these at the target."""
    designs = sorted((tuple(u.tolist()) for u in sobol(5, 10, 0)), key=cheap)
    pairs = [(abs(cheap(a) - cheap(b)), a, b) for a, b in itertools.pairwise(designs)]
    _, *two = min(pairs)
    history = History()
    for x, m, value in [*((x, 0, cheap(x)) for x in designs), *zip(two, (1, 1), at_target, strict=True)]:
        history = history.asked(Query(x, m, {"stage": "initial"}), (1.0, 10.0)[m])
        history = history.updated(history.records[-1].done(value))
    return history


@pytest.mark.parametrize("at_target", [(-1.0, -1.6), (-1.6, -1.0)])
def test_two_values_of_the_target_do_not_end_cheap_queries(at_target):
    """A slope fitted to two designs that are alike below may be anything, also nothing."""
    rule = MFGPUCB(space=Space(BOX, costs=(1, 10)), capital=100.0).rule
    snapshot = rule.snapshot(observed(at_target))
    chain, u = rule.model(snapshot), torch.full((1, 5), 0.4, dtype=torch.double)
    assert rule.level(chain, u, snapshot).fidelity == 0
    assert rule.integrated(snapshot).slopes[0] > chain.slopes[0]
