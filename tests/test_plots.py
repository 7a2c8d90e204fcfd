import math

import numpy as np
import pytest
from toy import Hill, NoOptimum, Plain, Walk

from mfbo_torch import plots
from mfbo_torch.history import History, Query
from mfbo_torch.problems import Hartmann6, SyntheticBandit
from mfbo_torch.runner import run


def history(problem, capital=60.0, strategy=None):
    return run(problem, strategy or Walk(), capital, progress=False)


def texts(axes):
    found = [text.get_text() for text in axes.texts]
    return found + [text.get_text() for text in axes.get_legend().get_texts()] if axes.get_legend() else found


def saved(figure, tmp_path):
    figure.savefig(tmp_path / "a.png")
    return (tmp_path / "a.png").stat().st_size


def test_progress_shows_values_in_the_users_sign(tmp_path):
    problem = Hill(maximize=False, trouble="raise")
    h = history(problem)
    figure = plots.progress(h, problem, "Walk")
    upper, lower = figure.axes
    best = min(-r.value for r in h.done if r.query.fidelity == 1)
    assert figure.get_suptitle() == f"Hill with Walk, best value {best:.5g}"
    step = next(line for line in upper.lines if line.get_label() == "best so far")
    assert step.get_ydata()[-1] == pytest.approx(best)
    assert max(np.diff(step.get_ydata())) <= 0
    cheap, target = upper.collections[:2]
    assert sorted(cheap.get_offsets()[:, 1]) == pytest.approx(sorted(-r.value for r in h.done if r.query.fidelity == 0))
    assert len(target.get_offsets()) == sum(r.query.fidelity == 1 for r in h.done)
    counts = [sum(r.query.fidelity == m for r in h) for m in (0, 1)]
    failed = len(h) - len(h.done)
    assert f"fidelity 0, cost 1: {counts[0]} queries" in texts(upper)
    assert f"target, cost 10: {counts[1]} queries" in texts(upper)
    assert f"{failed} failed" in texts(upper)
    assert "optimum" in texts(upper)
    share = counts[0] / (counts[0] + 10 * counts[1])
    assert [t.get_text() for t in lower.get_yticklabels()] == [f"fidelity 0, {share:.0%}", f"target, {1 - share:.0%}"]
    assert saved(figure, tmp_path) > 10_000


def test_progress_of_other_histories(tmp_path):
    empty = plots.progress(History(), NoOptimum())
    assert empty.get_suptitle() == "NoOptimum, no value at the target yet"
    assert saved(empty, tmp_path)

    one = History().asked(Query((2.0,), 1), 10.0).asked(Query((2.0,), 0), 0.05)
    one = one.updated(one.records[0].done(1.5))
    figure = plots.progress(one, Hill(measured=True), "Walk")
    assert [t.get_text() for t in figure.axes[1].get_yticklabels()] == ["fidelity 0, <1%", "target, 100%"]
    assert figure.axes[1].get_xlabel() == "capital spent (seconds)"
    assert "target: 1 query" in texts(figure.axes[0])
    assert saved(figure, tmp_path)

    hartmann = Hartmann6()
    figure = plots.progress(history(hartmann, 3000.0, Walk(every=2)), hartmann)
    assert len(figure.axes[1].get_yticks()) == 4
    assert saved(figure, tmp_path)


def test_regret_is_the_mean_and_one_standard_error(tmp_path):
    runs = np.array([[4.0, 2.0, 1.0], [8.0, 4.0, 1.0], [6.0, 3.0, 1.0]])
    figure = plots.regret({"Hill": {"Walk": ([0, 1, 2], runs), "Plain": ([0, 1, 2], [[9.0, 9.0, 9.0]])}})
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    walk, plain = axes.lines
    assert list(walk.get_ydata()) == pytest.approx([6.0, 3.0, 1.0])
    assert list(plain.get_ydata()) == [9.0, 9.0, 9.0]
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(6.0 + 2.0 / math.sqrt(3))
    assert band[band[:, 0] == 0, 1].min() == pytest.approx(6.0 - 2.0 / math.sqrt(3))
    assert {text.get_text() for text in axes.texts} == {"Walk", "Plain"}
    assert axes.get_ylabel() == "simple regret"
    assert saved(figure, tmp_path) > 10_000


def test_regret_of_several_problems(tmp_path):
    curves = {
        "Walk": ([0, 1, 2], [[math.nan, 200.0, 0.1], [5.0, 200.0, 0.3]]),
        "Plain": ([0, 1, 2], [[math.nan] * 3]),
    }
    panels = {"A": curves, "B": curves, "C": curves, "D": {"Walk": ([0, 1], [[-1.0, 2.0]])}}
    figure = plots.regret(panels, {"D": "best value"}, ["D"])
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == ["A", "B", "C", "D"]
    assert [axes.get_yscale() for axes in shown] == ["log", "log", "log", "linear"]
    assert shown[3].get_ylabel() == "best value"
    assert list(shown[3].lines[0].get_ydata()) == [-1.0, 2.0]
    assert [list(line.get_xdata()) for line in shown[0].lines] == [[1.0, 2.0]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Walk"]
    assert saved(figure, tmp_path)


def test_labels_at_the_ends_do_not_overlap():
    curves = {f"s{i}": ([0, 1], [[1.0, 1.0 + 1e-6 * i]]) for i in range(6)}
    (axes,) = plots.regret({"Hill": curves}).axes
    heights = sorted(text.xy[1] for text in axes.texts)
    assert min(np.diff(heights)) > 0.05


def test_queries_by_value_counts_every_query(tmp_path):
    problem = Hill()
    h = history(problem)
    figure = plots.queries_by_value(h, problem, bins=4)
    (axes,) = figure.axes
    values = np.array([problem.evaluate(r.query.x, 1) for r in h])
    edges = np.linspace(values.min(), values.max(), 5)
    for m, bars in enumerate(axes.containers):
        chosen = [v for v, r in zip(values, h, strict=True) if r.query.fidelity == m]
        assert [bar.get_height() for bar in bars] == list(np.histogram(chosen, edges)[0])
    assert sum(bar.get_height() for bars in axes.containers for bar in bars) == len(h)
    assert saved(figure, tmp_path)


@pytest.mark.parametrize("capital", [10.0, 30.0])
def test_queries_by_value_where_all_are_the_same(capital):
    h = history(Hill(), capital, Plain())
    (axes,) = plots.queries_by_value(h, Hill()).axes
    assert sum(bar.get_height() for bars in axes.containers for bar in bars) == len(h)
    (axes,) = plots.queries_by_value(History(), Hill()).axes
    assert sum(bar.get_height() for bars in axes.containers for bar in bars) == 0


@pytest.mark.parametrize("optimum", [None, 0.2, 0.9])
@pytest.mark.parametrize("next_query", [None, (0.25, 0)])
def test_illustration(tmp_path, optimum, next_query):
    x = np.linspace(0, 1, 101)
    f1, f2 = np.sin(6 * x), np.sin(6 * x) + 0.1
    width = 0.1 + 0.3 * x
    queries = [(0.1, 0.5, 0), (0.6, -0.4, 0), (0.3, 1.0, 1)]
    figure = plots.illustration(x, [f1, f2], [f1 + 0.5, f2 + width], queries, next_query, width, 0.2, optimum)
    upper, lower = figure.axes
    phi = next(line for line in upper.lines if line.get_label() == r"$\varphi$")
    assert phi.get_ydata() == pytest.approx(np.minimum(f1 + 0.5, f2 + width))
    crosses = [line for line in upper.lines if line.get_marker() == "x"]
    assert [len(line.get_xdata()) for line in crosses] == [2, 1]
    stars = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "*"]
    assert [line.get_xdata()[0] for line in stars] == ([0.25, 0.25] if next_query else [])
    assert (r"$x_\star$" in texts(upper)) == (optimum is not None)
    assert r"$\gamma^{(1)}$" in texts(lower)
    assert any(list(line.get_ydata()) == list(width) for line in lower.lines)
    assert saved(figure, tmp_path)


def test_plays_per_arm():
    problem = SyntheticBandit(3)
    plays = problem.means.clone().fill_(1.0)
    plays[:, 1] = 0
    figure = plots.plays_per_arm({"one": plays, "other": 2 * plays + 1}, problem)
    one, other = figure.axes
    assert one.get_title(loc="left") == "one"
    assert len(one.collections) == 1  # no play at the target, no dots
    assert len(other.collections) == 2
    assert other.collections[0].get_offsets()[:, 1].tolist() == [3.0] * 200
