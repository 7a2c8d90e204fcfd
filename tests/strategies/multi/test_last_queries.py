"""What the default asks the target last."""

import torch

from mfbo_torch.loop.runner import run
from mfbo_torch.problems import UserProblem
from mfbo_torch.strategies import MFGPUCB


def value(x: float, y: float, fidelity: int) -> float:
    return -((x - 0.3) ** 2) - (y - 0.6 - 0.1 * (1 - fidelity)) ** 2 - 0.2 * (1 - fidelity) * x


def last(capital: float, **settings):
    """The run, and what its queries of the target noted after the first design."""
    problem = UserProblem(value, {"x": (0.0, 1.0), "y": (0.0, 1.0)}, [1.0, 10.0])
    history = run(problem, MFGPUCB(seed=1, **settings), capital, progress=False)
    return problem, history, [r for r in history if r.query.fidelity and r.query.meta["stage"] == "model"]


def surest(record) -> bool:
    return record.query.meta["model"] == "integrated" and record.query.meta.get("beta") == 0.0


def test_the_last_take_the_largest_mean():
    problem, history, asked = last(100.0)
    assert any(surest(record) for record in asked[-2:])
    assert not any(surest(record) for record in asked[:-2])
    strategy = MFGPUCB(seed=1).bind(problem.space, 100.0)
    record = next(record for record in asked[-2:] if surest(record))
    before = type(history)(history.records[: record.id])
    grid = torch.cartesian_prod(*[torch.linspace(0, 1, 41, dtype=torch.double)] * 2)
    model = strategy.rule.integrated(strategy.rule.snapshot(before))
    with torch.no_grad():
        mean = model.mean_variance(grid)[0][:, -1]
        there = model.mean_variance(torch.tensor([record.query.x], dtype=torch.double))[0][0, -1]
    assert there >= mean.max() - 1e-6


def test_one_of_a_short_capital_does():
    _, _, asked = last(90.0)
    assert surest(asked[-1])
    assert not any(surest(record) for record in asked[:-1] if "model" in record.query.meta)


def test_without_a_hedge_none_does():
    _, _, asked = last(100.0, hedge=False)
    assert not any(surest(record) for record in asked if "model" in record.query.meta)


def test_why_says_so():
    from mfbo_torch.strategies.explanation import Explanation

    problem, history, asked = last(100.0)
    record = next(record for record in asked[-2:] if surest(record))
    assert "there what is expected" in str(Explanation(record, history, problem.space))
