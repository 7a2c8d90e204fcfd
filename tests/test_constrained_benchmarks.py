"""The constrained test functions with a cheapened fidelity."""

from __future__ import annotations

import pytest
import torch
from botorch.test_functions import synthetic

from benchmarks.constrained.problems import NAMES, Cheapened
from benchmarks.constrained.run import CAPITALS, COLUMNS, METHODS, Job, execute
from mfbo_torch.strategies import RandomSearch


@pytest.mark.parametrize("name", NAMES)
def test_the_target_is_botorchs_function(name):
    problem, function = Cheapened(name), getattr(synthetic, name)()
    X = problem.space.from_unit(torch.rand(50, problem.space.dim, generator=torch.Generator().manual_seed(0)).double())
    for x, feasible, value in zip(X, function.is_feasible(X), function(X), strict=True):
        target, cheap = (problem.evaluate(x.tolist(), level) for level in (1, 0))
        assert target.value == pytest.approx(value.item())
        assert all(o.met for o in target.judged(problem.space.limits).outcomes.values()) == bool(feasible)
        assert cheap.value != target.value


def test_a_run_is_told_by_capital(monkeypatch):
    monkeypatch.setitem(METHODS, "random", lambda seed: RandomSearch(seed=seed))
    rows = execute(Job("ConstrainedHartmann", "random", 0, CAPITALS))
    assert [row[3] for row in rows] == list(CAPITALS)
    assert all(len(row) == len(COLUMNS) and row[6] == row[3] for row in rows)
