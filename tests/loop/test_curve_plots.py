"""Pictures of learning curves: the best ones coloured, bands where the model forecasts."""

import pytest
from pictures import saved, texts
from toy import Hill

from mfbo_torch import FreezeThaw, History, Parameter, Query, Space, minimize
from mfbo_torch.loop.curve_plots import BEST, GREY, drawn_curves, plot_learning_curves

SPACE = Space([Parameter("rate", 0.0, 1.0)], epochs=9)


def training(parameters, trial):
    for epoch in trial.epochs():
        trial.report(1 + parameters["rate"] + 1 / epoch)


@pytest.fixture(scope="module")
def result():
    return minimize(training, SPACE, 60)


def test_the_best_come_first_and_what_may_go_on_has_a_band(result):
    strategy = FreezeThaw().bind(SPACE, 60)
    drawn = drawn_curves(result.history, result.problem, strategy)
    assert [one.rank for one in drawn] == list(range(len(result.curves)))
    assert {one.curve for one in drawn} == {*result.curves}
    ended = [one for one in drawn if len(one.curve) == 9]
    assert drawn[: len(ended)] == ended
    assert [one.curve.values[-1] for one in ended] == sorted(one.curve.values[-1] for one in ended)
    assert ended[0].curve.values[-1] == result.fun
    paused = drawn[len(ended) :]
    assert paused
    means = []
    for one in paused:
        band, (last, value) = one.band, one.curve.points[-1]
        assert band.steps == (last, *(step for step in (3.0, 9.0) if step > last))
        assert band.mean[0] == band.low[0] == band.high[0] == value
        assert all(
            low < mean < high for low, mean, high in zip(band.low[1:], band.mean[1:], band.high[1:], strict=True)
        )
        means.append(band.mean[-1])
    assert means == sorted(means)


def test_colours_labels_and_bands(result, tmp_path):
    figure = plot_learning_curves(result.history, result.problem, FreezeThaw().bind(SPACE, 60))
    (axes,) = figure.axes
    lines = [line for line in axes.lines if len(line.get_xdata()) > 1 and line.get_linestyle() == "-"]
    longer = [curve for curve in result.curves if len(curve) > 1]
    assert len(lines) >= len(longer)
    assert len(texts(axes)) == BEST
    assert texts(axes)[0].endswith(f"{result.fun:.4g} at 9")
    assert axes.get_yscale() == "log"
    assert any(line.get_color() == GREY for line in axes.lines)
    assert saved(figure, tmp_path) > 10_000
    without = result.plot_learning_curves().axes[0]
    assert not without.collections


def test_histories_without_curves(tmp_path):
    problem = Hill()
    figure = plot_learning_curves(History(), problem)
    assert "no values yet" in texts(figure.axes[0])
    assert saved(figure, tmp_path)
    one = History().asked(Query((2.0,), 1), 10.0)
    one = one.updated(one.records[0].done(-1.5))
    assert drawn_curves(one, problem)[0].curve.points == ((10.0, -1.5),)
    assert saved(plot_learning_curves(one, problem), tmp_path)
