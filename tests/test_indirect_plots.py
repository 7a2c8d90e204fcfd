"""The pictures of indirect queries show what they say."""

from __future__ import annotations

import pytest
import torch

from benchmarks.indirect import plots
from mfbo_torch.history import History, Query
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import DiseaseMap, IndirectBandit, IndirectBranin, Satellite, ShiftedPeak
from mfbo_torch.strategies import CMES, CMETS
from mfbo_torch.utils.errors import SettingError


def asked(problem, points, fidelity=0):
    history = History()
    for x in points:
        history = history.asked(Query(tuple(x), fidelity), problem.space.costs[fidelity])
        history = history.updated(history.records[-1].done(problem.reward(x, fidelity)))
    return history


@pytest.mark.parametrize("truth", [True, False])
def test_one_dimension(truth):
    problem = ShiftedPeak((0.3, 0.1))
    figure = plots.posteriors(
        CMES(space=problem.space), asked(problem, [[-2.0], [0.0], [1.5]]), problem if truth else None
    )
    left, right = figure.axes
    bars = left.containers[0]
    assert bars.lines[0].get_xdata().tolist() == pytest.approx([-2.0, 0.0, 1.5])
    (segments,) = bars.lines[2]
    assert segments.get_segments()[1][:, 0].tolist() == pytest.approx([-0.3, 0.3])
    assert sum(line.get_label() == "truth" for line in (*left.lines, *right.lines)) == 2 * truth


@pytest.mark.parametrize(
    ("problem", "points"),
    [
        (Satellite(), [[20.0, 30.0], [60.0, 70.0]]),
        (DiseaseMap(side=8, num_units=6), None),
        (IndirectBranin(num_samples=40, grid=5), None),
        (IndirectBranin(known=True), [[0.2, 0.3], [0.6, 0.9]]),
    ],
    ids=["footprints", "units", "samples", "windows"],
)
def test_two_dimensions(problem, points):
    points = problem.space.choices[:2].tolist() if points is None else points
    figure = plots.posteriors(CMES(space=problem.space), asked(problem, points), problem)
    left, right = figure.axes[:2]
    assert len(left.patches) == 2
    assert right.lines[0].get_xdata().tolist() == pytest.approx([x[0] for x in points])


def test_what_queries_average_over():
    """Means and covariances against those of the windows, of the weights and of many samples."""
    satellite = Satellite()
    centre, covariance = plots.windows(CMES(space=satellite.space), asked(satellite, [[20.0, 30.0]]).done)
    torch.testing.assert_close(centre, torch.tensor([[20.0, 30.0]], dtype=torch.double))
    torch.testing.assert_close(covariance, 16.0**2 * torch.eye(2, dtype=torch.double).unsqueeze(0))
    units = DiseaseMap(side=8, num_units=6)
    x = units.space.choices[2]
    centre, covariance = plots.windows(CMES(space=units.space), asked(units, [x.tolist()]).done)
    torch.testing.assert_close(centre[0], x)
    share = units.shares[2].unsqueeze(-1)
    torch.testing.assert_close(covariance[0], ((units.pixels - x) * share).mT @ (units.pixels - x))
    branin = IndirectBranin(num_samples=800)
    centre, covariance = plots.windows(CMES(space=branin.space), asked(branin, [[0.5, 0.5]]).done)
    assert (centre - torch.tensor([2.5, 7.5])).abs().max().item() < 0.4
    assert covariance[0].diagonal().tolist() == pytest.approx([0.5, 0.5], rel=0.25)


def test_the_tree():
    problem, strategy = IndirectBranin(resolutions=3, known=True), CMETS()
    history = run(problem, strategy, 5, progress=False)
    box, counts = plots.tree(strategy.bind(problem.space), history).axes
    leaves = strategy.bind(problem.space).tree(history).leaves
    assert len(box.patches) == len(history) + len(leaves)
    assert [bar.get_width() for bar in counts.patches] == [
        sum(r.query.fidelity == m for r in history) for m in range(3)
    ]


def test_refusals():
    bandit, peak = IndirectBandit(), ShiftedPeak()
    with pytest.raises(SettingError, match=r"^history"):
        plots.posteriors(CMES(space=peak.space), History())
    with pytest.raises(SettingError, match=r"^space = '2 parameters, inputs of width 10'"):
        plots.posteriors(CMES(space=bandit.space), asked(bandit, [[0.0, 0.0]]))
    with pytest.raises(SettingError, match=r"^space = '1 parameters': must be two"):
        plots.tree(CMETS(space=peak.space), History())
