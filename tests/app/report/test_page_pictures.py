"""The pictures of a page against what they should show, by hand."""

import itertools
from datetime import datetime

import pytest
import torch
from pages import experiment, made
from toy import Hill, Plain

from mfbo_torch.app.report import capital, comparison, contours, curves, importance, objectives, text, timeline
from mfbo_torch.app.report.view import ReportView
from mfbo_torch.history import History, Query
from mfbo_torch.history.observation import Outcome
from mfbo_torch.problems.user.function import FunctionProblem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.objectives import objectives_of
from mfbo_torch.strategies import RandomSearch


class Linear(Plain):
    """A model that knows ``3 x1 + 4 x2`` of the unit cube, give or take a tenth, at the target."""

    def predict(self, history, X):
        U = self.space.to_unit(X)
        mean = torch.full((len(X), 2), torch.nan, dtype=torch.double)
        mean[:, 1] = 3 * U[:, 0] + 4 * U[:, 1]
        return mean, torch.full_like(mean, 0.1)


def view(count: int = 60, strategy=None, **changes) -> ReportView:
    problem = Hill()
    problem.space = Space(
        (Parameter("a", 0.0, 5.0), Parameter("b", 1e-3, 1.0, log=True), Parameter("c", 0.0, 1.0)), (1.0, 10.0)
    )
    return ReportView(experiment(problem, strategy or Linear(), made(problem, count), **changes))


@pytest.mark.parametrize("count", [30, 3000])
def test_the_areas_of_the_strip_are_what_was_spent(count):
    shown = view(count)
    total = 1.1 * shown.history.spent
    found = capital.parts(shown, total)
    assert sum(map(len, found.values())) <= 3 * capital.PARTS
    pending = sum(r.cost for r in shown.history.pending)
    for m in (0, 1):
        cost = sum(r.cost for r in shown.history if r.query.fidelity == m and r not in shown.history.pending)
        assert sum(part.width * part.share for part in found[m]) == pytest.approx(cost)
    assert sum(part.width * part.share for part in found[capital.IN_FLIGHT]) == pytest.approx(pending)
    assert all(p.at - p.width / 2 >= 0 and p.at + p.width / 2 <= total + 1e-9 for some in found.values() for p in some)


def test_sobol_indices_are_those_of_a_linear_function():
    """Shares ``9 : 16 : 0`` of the variance, alone and with others, and the model's own part."""
    found = importance.importance(view().run)
    wanted = torch.tensor([9 / 25, 16 / 25, 0.0], dtype=torch.double)
    for part in (found.first, found.total):
        assert part[:, 0] == pytest.approx(wanted.numpy(), abs=0.05)
        assert (part[:, 1] <= part[:, 0] + 1e-9).all()
        assert (part[:, 0] <= part[:, 2] + 1e-9).all()
    assert found.unknown == pytest.approx(0.01 / (0.01 + 25 / 12), rel=0.1)
    (picture,), note = importance.drawn(view(), found)
    assert picture["layout"]["yaxis"]["ticktext"][-2:] == ["a", "b"]
    assert "Sobol" in note


def test_contours_are_over_what_matters_most():
    shown = view()
    (mean, deviation), note = contours.contours(shown, importance.importance(shown.run))
    plane = mean["data"][0]
    assert [mean["layout"][side]["title"]["text"] for side in ("xaxis", "yaxis")] == ["b", "a"]
    assert plane["z"][0][0] == pytest.approx(0.0, abs=1e-4)
    assert plane["z"][-1][-1] == pytest.approx(7.0, abs=1e-4)
    assert {value for row in deviation["data"][0]["z"] for value in row} == {0.1}
    assert "matter most" in note


@pytest.mark.parametrize("strategy", [Plain()])
def test_what_has_no_model_says_so(strategy):
    shown = view(strategy=strategy)
    assert importance.importance(shown.run) == "Plain has no model of the objective."
    assert contours.contours(shown, "no model")[1] == "Plain has no model of the objective."


def test_workers_are_rows_and_no_two_evaluations_overlap(tmp_path):
    shown, start = view(40), datetime(2026, 1, 1).timestamp()
    lines = []
    for record in shown.history:
        asked, ends = start + 3 * record.id, start + 3 * record.id + 7.0
        lines += [(asked, f"{record.id} queried at fidelity 0: x=1"), (ends, f"{record.id} ended: The value was 3.")]
    log = [f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S},000 INFO {what}" for at, what in sorted(lines)]
    (tmp_path / "run.log").write_text("\n".join(["2026-99-99 00:00:00,000 INFO 3 ended: x", *log, "no line of a log"]))
    found = timeline.busy_times(shown, tmp_path)
    assert len(found) == len(shown.history)
    (picture,), _note = timeline.timeline(shown, tmp_path, start + 500)
    rows: dict[str, list] = {}
    for bars in picture["data"]:
        for lane, base, width in zip(bars["y"], bars["base"], bars["x"], strict=True):
            begun = datetime.strptime(base, "%Y-%m-%d %H:%M:%S.%f").timestamp()
            rows.setdefault(lane, []).append((begun, begun + width / 1000))
    for lane in rows.values():
        lane.sort()
        assert all(first[1] <= second[0] + 0.01 for first, second in itertools.pairwise(lane))
    assert timeline.timeline(shown, tmp_path / "none", 0.0) == ([], "The run's folder has no log with times.")


def test_the_front_and_its_knee():
    space = Space((Parameter("a", 0.0, 1.0),), (1.0,), objectives=objectives_of(["loss", "time"]))
    problem = FunctionProblem(lambda a: {"loss": a, "time": 1 - a}, space, maximize=False)
    history = History()
    for a, loss, seconds in ((0.1, 1.0, 9.0), (0.2, 2.0, 2.0), (0.3, 9.0, 1.0), (0.4, 9.5, 9.5)):
        history = history.asked(Query((a,), 0), 1.0)
        seen = {"loss": Outcome(loss, None, True), "time": Outcome(seconds, None, True)}
        history = history.updated(history.records[-1].done(-loss, outcomes=seen))
    shown = ReportView(experiment(problem, RandomSearch(), history))
    (picture,), note = objectives.front(shown)
    observed, front = picture["data"]
    assert len(observed["x"]) == 4
    assert [*zip(front["x"], front["y"], strict=True)] == [(1.0, 9.0), (2.0, 2.0), (9.0, 1.0)]
    assert note.endswith("Query 1 is its knee, the best compromise.")
    assert text.headline(shown.run) == "loss 2, time 2"
    assert text.aside(shown.run).startswith("the knee of a front of 3 at the target, query 1; minimize loss")
    assert "Parameters of the knee" in text.design(shown.run)
    assert objectives.front(view()) == ([], "")


def test_curves_only_where_there_are_steps(tmp_path):
    assert curves.curves(view()) == ([], "")
    assert (
        comparison.comparison(view(), tmp_path / "run")[1] == "There is no other run of this problem beside this one."
    )
