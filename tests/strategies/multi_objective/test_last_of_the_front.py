"""What several objectives ask the target last."""

import pytest
import torch

from mfbo_torch.loop.runner import run
from mfbo_torch.models.multi_fidelity.target import TargetMean, TargetModel
from mfbo_torch.problems import UserProblem
from mfbo_torch.strategies import MFEHVI


def values(x: float, y: float, fidelity: int) -> dict[str, float]:
    off = 0.1 * (1 - fidelity)
    return {"near": (x - 0.2 - off) ** 2 + y**2, "far": (x - 0.9) ** 2 + (y - 0.4 + off) ** 2}


@pytest.fixture(scope="module")
def ended():
    """A run of ten target costs, and its queries of the target after the first design."""
    problem = UserProblem(
        values, {"x": (0.0, 1.0), "y": (0.0, 1.0)}, [1.0, 10.0], objectives={"near": "minimize", "far": "minimize"}
    )
    history = run(problem, MFEHVI(seed=1), 100.0, progress=False)
    return problem, history, [r for r in history if r.query.fidelity and r.query.meta["stage"] == "model"]


def test_the_last_add_most_by_the_means(ended):
    problem, history, asked = ended
    strategy = MFEHVI(seed=1).bind(problem.space, 100.0)
    for record in asked[-2:]:
        before = type(history)(history.records[: record.id])
        snapshots = strategy.snapshots(before)
        goal = strategy._goal(before, snapshots)
        score = strategy._chained(snapshots, goal, TargetMean)
        grid = torch.cartesian_prod(*[torch.linspace(0, 1, 31, dtype=torch.double)] * 2)
        with torch.no_grad():
            found = score(torch.tensor([[record.query.x]], dtype=torch.double))
            assert record.query.meta["model"] == "alone" or found >= score(grid.unsqueeze(-2)).max() - 1e-2
    assert any(record.query.meta["model"] == "integrated" for record in asked[-2:])


def test_a_mean_has_no_variance(ended):
    problem, history, _ = ended
    strategy = MFEHVI(seed=1).bind(problem.space, 100.0)
    rule, snapshot = strategy.rules[0], strategy.snapshots(history)[0]
    model, at = rule.integrated(snapshot), torch.rand(5, 1, 2, dtype=torch.double)
    whole, mean = (kind(model, torch.tensor(2.0).double()).posterior(at) for kind in (TargetModel, TargetMean))
    torch.testing.assert_close(mean.mean, whole.mean)
    assert not mean.variance.any()
    assert (whole.variance > 0).all()
