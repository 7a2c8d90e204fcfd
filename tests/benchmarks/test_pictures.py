"""The pictures of the benchmarks show what they say."""

import re

import numpy as np
import pytest
from pictures import history, saved, texts
from toy import Hill

from benchmarks.figures import averages, pictures, tour
from mfbo_torch.history import History, Query
from mfbo_torch.problems import ShiftedPeak, SyntheticBandit
from mfbo_torch.strategies import CMES


def test_queries_by_value_counts_every_query_and_none(tmp_path):
    problem = Hill()
    h = history(problem)
    figure = pictures.queries_by_value(h, problem, bins=4)
    (axes,) = figure.axes
    values = np.array([problem.evaluate(r.query.x, 1) for r in h])
    edges = np.linspace(values.min(), values.max(), 5)
    for m, bars in enumerate(axes.containers):
        chosen = [v for v, r in zip(values, h, strict=True) if r.query.fidelity == m]
        assert [bar.get_height() for bar in bars] == list(np.histogram(chosen, edges)[0])
    assert sum(bar.get_height() for bars in axes.containers for bar in bars) == len(h)
    assert saved(figure, tmp_path)
    (axes,) = pictures.queries_by_value(History(), Hill()).axes
    assert sum(bar.get_height() for bars in axes.containers for bar in bars) == 0


@pytest.mark.parametrize("optimum", [0.2, 0.9])
def test_illustration(tmp_path, optimum):
    x = np.linspace(0, 1, 101)
    f1, f2 = np.sin(6 * x), np.sin(6 * x) + 0.1
    width = 0.1 + 0.3 * x
    queries = [(0.1, 0.5, 0), (0.6, -0.4, 0), (0.3, 1.0, 1)]
    figure = pictures.illustration(x, [f1, f2], [f1 + 0.5, f2 + width], queries, (0.25, 0), width, 0.2, optimum)
    upper, lower = figure.axes
    phi = next(line for line in upper.lines if line.get_label() == r"$\varphi$")
    assert phi.get_ydata() == pytest.approx(np.minimum(f1 + 0.5, f2 + width))
    crosses = [line for line in upper.lines if line.get_marker() == "x"]
    assert [len(line.get_xdata()) for line in crosses] == [2, 1]
    stars = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "*"]
    assert [line.get_xdata()[0] for line in stars] == [0.25, 0.25]
    assert r"$x_\star$" in texts(upper)
    assert r"$\gamma^{(1)}$" in texts(lower)
    assert any(list(line.get_ydata()) == list(width) for line in lower.lines)
    assert saved(figure, tmp_path)


def test_plays_per_arm():
    problem = SyntheticBandit(3)
    plays = problem.means.clone().fill_(1.0)
    plays[:, 1] = 0
    figure = pictures.plays_per_arm({"one": plays, "other": 2 * plays + 1}, problem)
    one, other = figure.axes
    assert one.get_title(loc="left") == "one"
    assert len(one.collections) == 1  # no play at the target, no dots
    assert len(other.collections) == 2
    assert other.collections[0].get_offsets()[:, 1].tolist() == [3.0] * 200


def test_averages_are_drawn_over_what_they_average():
    problem, past = ShiftedPeak((0.3, 0.1)), History()
    for x in (-2.0, 0.0, 1.5):
        past = past.asked(Query((x,), 0), problem.space.costs[0])
        past = past.updated(past.records[-1].done(problem.reward((x,), 0)))
    left, right = averages.posteriors(CMES(space=problem.space), past, problem).axes
    bars = left.containers[0]
    assert bars.lines[0].get_xdata().tolist() == pytest.approx([-2.0, 0.0, 1.5])
    (segments,) = bars.lines[2]
    assert segments.get_segments()[1][:, 0].tolist() == pytest.approx([-0.3, 0.3])
    assert sum(line.get_label() == "truth" for line in (*left.lines, *right.lines)) == 2


def test_the_tour_shows_what_its_blocks_draw():
    text = tour.PAGE.read_text("utf-8")
    drawn, shown = re.findall(r'savefig\("(.*?)"\)', text), re.findall(r"^!\[.*\]\(tour/(.*)\)$", text, re.MULTILINE)
    files = [*tour.PAGE.with_suffix("").iterdir()]
    assert drawn == shown
    assert sorted(shown) == sorted(file.name for file in files)
    assert all(file.stat().st_size <= tour.LARGEST for file in files)
    assert all(len(block.splitlines()) <= 10 for block in tour.blocks())
