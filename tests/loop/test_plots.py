import math

import numpy as np
import pytest
from pictures import history, saved, texts
from toy import Hill, NoOptimum, Walk

from mfbo_torch.history import History, Query
from mfbo_torch.loop import plots
from mfbo_torch.problems import Hartmann6
from mfbo_torch.space import Space
from mfbo_torch.utils.standardize import outliers


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


@pytest.mark.parametrize("maximize", [True, False])
def test_values_beside_which_the_others_would_be_a_line_are_off_the_scale(tmp_path, maximize):
    problem, told = Hill(maximize=maximize), History()
    for k, value in enumerate([-1e7, *range(10), -1e9]):
        told = told.asked(Query((float(k),), 1), 10.0)
        told = told.updated(told.records[-1].done(float(value)))
    upper = plots.progress(told, problem).axes[0]
    assert "2 off the scale" in texts(upper)
    low, high = upper.get_ylim()
    assert high - low < 20
    assert saved(upper.figure, tmp_path)
    assert not outliers([1.0, 2.0, 3.0, 400.0]).any(), "more than a fifth, or not as far"
    assert not outliers([5.0] * 10 + [6.0]).any()
    assert not outliers([]).any()


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
    curves = {"Walk": ([0, 1, 2], [[math.nan, 200.0, 0.1], [5.0, 200.0, 0.3]]), "Plain": ([0, 1, 2], [[math.nan] * 3])}
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
    (axes,) = plots.regret({"Hill": {f"s{i}": ([0, 1], [[1.0, 1.0 + 1e-6 * i]]) for i in range(6)}}).axes
    assert min(np.diff(sorted(text.xy[1] for text in axes.texts))) > 0.05


def test_a_dollar_in_a_name_begins_no_formula(tmp_path):
    problem = type(r"$\foo$", (Hill,), {})()
    problem.space = Space(problem.space.parameters, (1.0, 10.0), fidelities={"mesh": [r"$\a$", "$b"]})
    assert saved(plots.progress(history(problem), problem, r"$\frac$"), tmp_path) > 10_000
    for panels in ([r"$\foo$"], [r"$\foo$", "b"]):
        curve = np.linspace(1.0, 10.0, 10), np.linspace(2.0, 1.0, 10)[None]
        assert saved(plots.regret({name: {r"$\bar{$": curve} for name in panels}), tmp_path) > 10_000


def test_powers_of_ten_are_no_formulas(tmp_path):
    figure = plots.canvas(6.0, 3.0)
    for place, (least, largest) in enumerate(((1e-9, 1e2), (0.2, 3.0)), 1):
        figure.add_subplot(1, 2, place).plot([least, largest], [least, largest])
        figure.axes[-1].set(xscale="log", yscale="log")
    saved(figure, tmp_path)
    wide, narrow = ([label.get_text() for label in axes.yaxis.get_ticklabels(which="both")] for axes in figure.axes)
    assert {"10⁻⁸", "10⁰"} <= {*wide}
    assert {"2×10⁻¹", "10⁰"} <= {*narrow}
    assert not any("$" in label for label in wide + narrow)
