"""The page of a run: what is in it."""

import json
import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from pages import EVIL, PARAMETERS, data, experiment, hostile, made, packed
from refusals import refused
from toy import Hill, Plain, Walk

from mfbo_torch.app import report
from mfbo_torch.app.report import calibration, designs
from mfbo_torch.app.report.content import content, slices
from mfbo_torch.app.report.text import MOST_REASONS
from mfbo_torch.app.report.view import ReportView, thinned
from mfbo_torch.app.summary import Summary
from mfbo_torch.history import History, Query, Status
from mfbo_torch.loop.runner import run as spend
from mfbo_torch.problems import Hartmann3, UserProblem
from mfbo_torch.space import Space
from mfbo_torch.strategies import GPUCB, MFGPUCB, ExpectedImprovement, RandomSearch


class Reader(HTMLParser):
    """Tags, attributes and text of a page, as a browser would read them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(page)
        self.text = "".join(self.words)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)


def test_every_record_is_in_the_page_exactly():
    run = hostile()
    found = data(report.render(run))
    history = run.history
    columns = {c["title"]: c["cells"] for c in found["columns"]}
    assert [*columns][2:6] == [*PARAMETERS]
    assert [*zip(*(columns[name] for name in PARAMETERS), strict=True)] == [r.query.x for r in history]
    assert [*columns["query"]] == [r.id for r in history]
    assert [*columns["value"]] == [None if r.value is None else -r.value for r in history]
    assert [*columns["cost (s)"]] == [r.cost for r in history]
    assert columns["capital spent (s)"][-1] == pytest.approx(history.spent)
    assert [*columns["fidelity"]] == [("fidelity 0", "target")[r.query.fidelity] for r in history]
    assert [*columns["status"]] == [r.status for r in history]
    assert [*columns["reason"]] == [r.reason or None for r in history]
    assert [*columns["deciding (s)"]] == pytest.approx([r.decision_seconds for r in history], abs=1e-6)
    assert [*columns["evaluating (s)"]] == pytest.approx([r.evaluation_seconds for r in history], abs=1e-6)
    kinds = {c["title"]: c["kind"] for c in found["columns"]}
    assert {name for name in kinds if kinds[name] == "string"} == {"fidelity", "status", "reason"}


def test_the_headline_reads_without_a_script():
    run = hostile()
    best = min((r for r in run.history.done if r.query.fidelity == 1), key=lambda r: -r.value)
    text = Reader(report.render(run)).text
    assert f"Best value {-best.value:.6g}" in text
    assert f"the smallest at the target, query {best.id}" in text
    for value in best.query.x:
        assert f"{value:.6g}" in text
    assert json.dumps(run.problem.space.named(best.query.x)) in text
    assert f"{run.history.spent:.6g} of 600 s" in text
    assert run.history.select(Status.FAILED)[0].reason in text


def test_text_of_the_users_stays_text_and_nothing_is_loaded():
    page = report.render(hostile())
    reader = Reader(page)
    assert not {"img", "a", "iframe", "object", "embed"} & set(reader.tags)
    assert reader.tags.count("script") == 5
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert EVIL in reader.text
    assert [value for name, value in reader.attributes if name in ("src", "href")] == ["data:,"]
    assert "url(" not in page
    assert "@import" not in page
    (policy,) = [value for name, value in reader.attributes if name == "content" and "default-src" in value]
    assert policy.startswith("default-src 'none'; script-src 'nonce-")
    assert "http" not in policy
    assert packed(page, "plotly").lstrip().startswith("/**\n* plotly.js")


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "most"), [(6, 4), (20, 6)])
def test_ten_thousand_records_take_some_megabytes(dim, most, tmp_path):
    problem = Hill()
    problem.space = Space.box([[0.0] * dim, [1.0] * dim], [1.0, 10.0, 100.0])
    path = report.write(experiment(problem, RandomSearch(), made(problem, 10_000)), tmp_path / "page.html")
    assert path == tmp_path / "page.html"
    assert path.stat().st_size < most * 1_000_000
    assert len(data(path.read_text())["columns"][0]["cells"]) == 10_000


def test_slices_are_the_strategys_own_predictions():
    problem = Hartmann3()
    problem.maximize = False  # the values shown are the negated ones
    history = made(problem, 60)
    run = experiment(problem, MFGPUCB(), history)
    found = slices(run)
    best = history.best(2)
    assert found["through"] == best.id
    assert len(found["panels"]) == 3
    for i, panel in enumerate(found["panels"]):
        x = panel["x"]
        assert x == sorted(x)
        assert [x[0], x[-1]] == [0.0, 1.0]
        assert best.query.x[i] in x
        designs = torch.tensor([best.query.x] * len(x), dtype=torch.double)
        designs[:, i] = torch.tensor(x)
        mean, deviation = run.strategy.predict(history, designs)
        for m, level in enumerate(panel["levels"]):
            # near zero the rounding of values around one is left
            assert level["mean"] == pytest.approx((-mean[:, m]).tolist(), rel=1e-5, abs=1e-7)
            assert level["deviation"] == pytest.approx(deviation[:, m].tolist(), rel=1e-5, abs=1e-7)


def test_slices_of_one_fidelity_and_of_whole_numbers():
    run = hostile()
    found = slices(experiment(run.problem, GPUCB(), run.history))
    for panel in found["panels"]:
        assert panel["levels"][0] is None
        assert len(panel["levels"][1]["mean"]) == len(panel["x"])
    assert found["panels"][1]["x"] == [1, 2, 3, 4, 5, 6]


def test_observations_beside_a_slice():
    problem = Hill()
    problem.space = Space.box([[0.0, 0.0], [1.0, 100.0]], [1.0])
    history = History()
    for x in [(0.5, 50.0), (0.9, 51.0), (0.1, 54.0), (0.54, 10.0), (0.9, 90.0)]:
        history = history.asked(Query(x, 0), 1.0)
        history = history.updated(history.records[-1].done(10.0 - len(history)))
    found = slices(experiment(problem, GPUCB(), history))
    assert found["through"] == 0
    assert [panel["near"] for panel in found["panels"]] == [[0, 1, 2], [0, 3]]


def test_a_page_without_a_model_says_so():
    class Broken(Plain):
        def predict(self, history, X):
            raise RuntimeError("no such\ndevice")

    problem = Hill()
    history = spend(problem, Walk(), 60.0, progress=False)
    assert slices(experiment(problem, Walk(), History())) == {"missing": "There is no observation yet."}
    assert slices(experiment(problem, Walk(), history)) == {"missing": "Walk has no model of the objective."}
    missing = {"missing": "The model could not be made here: RuntimeError: no such device"}
    assert slices(experiment(problem, Broken(), history)) == missing


def test_the_recommended_design_where_it_is_another():
    class Cautious(Plain):
        def recommend(self, history):
            return history.records[0]

    problem = Hill()
    history = spend(problem, Walk(), 60.0, progress=False)
    assert "Recommended parameters" in report.render(experiment(problem, Cautious(), history))
    assert "Recommended parameters" not in report.render(experiment(problem, Walk(), history))
    noisy = spend(Hill(error=0.5), ExpectedImprovement(initial=4), 60.0, progress=False)
    page = report.render(experiment(problem, ExpectedImprovement(initial=4), noisy))
    assert "Best parameters" in page
    columns = {c["title"]: c["cells"] for c in content(experiment(problem, Walk(), noisy))["columns"]}
    assert columns["standard error"] == [0.5] * len(noisy)
    assert "standard error" not in str(content(experiment(problem, Walk(), history)))
    assert re.search(
        r"Recommended parameters.*Without noise, \S+ ± \S+ is expected at this design\. Noise \(", page, re.S
    )
    assert "the optimum is 1" in report.render(experiment(problem, Walk(), history))


def test_an_empty_history():
    reader = Reader(report.render(experiment(Hill(), Walk(), History())))
    assert "No value at the target yet" in reader.text
    assert "No query failed." in reader.text


def test_many_reasons_and_long_times():
    history = History()
    for i in range(30):
        history = history.asked(Query((1.0,), 1), 1.0, decision_seconds=100.0, evaluation_seconds=1000.0)
        history = history.updated(history.records[-1].failed(f"reason {i // 2 if i < 8 else i}"))
    text = Reader(report.render(experiment(Hill(), Walk(), history))).text
    assert f"{26 - MOST_REASONS} more reasons" in text
    assert "50.0 min" in text
    assert "8.3 h" in text


def test_what_cannot_be_written(tmp_path, monkeypatch):
    run = experiment(Hill(), Walk(), History())
    refused("must be a file that can be written", report.write, run, tmp_path / "missing" / "page.html")
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    refused(r"pip install mfbo-torch\[report\]", report.write, run, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


# Pictures


def drawn(run: Summary) -> dict:
    vars(run)["explained"] = [0.5, 1.0]
    return report.sections(run)[0]


def mixed() -> Summary:
    problem = UserProblem(
        lambda p, m: p["rate"] + len(p["kind"]) + m,
        {
            "rate": {"lower": 1e-4, "upper": 1.0, "log": True},
            "kind": {"choices": ["sgd", "adam"]},
            "momentum": {"lower": 0.0, "upper": 1.0, "when": {"kind": "sgd"}},
        },
        [1.0, 5.0],
    )
    return experiment(problem, MFGPUCB(hedge=False), made(problem, 40))


@pytest.mark.parametrize("make", [hostile, mixed, lambda: experiment(Hill(), Walk(), History())])
def test_plotly_takes_every_picture(make):
    graphs = pytest.importorskip("plotly.graph_objects")
    pictures = drawn(make()) if make in (hostile, mixed) else report.sections(make())[0]
    assert {*pictures} == {*report.SECTIONS}
    for picture in (picture for some in pictures.values() for picture in some):
        graphs.Figure(json.loads(re.sub(r'"--[\w-]+"', '"#123456"', json.dumps(picture))))  # refuses the unknown


def test_the_best_line_and_the_queries_of_each_fidelity():
    run = hostile()
    (best, *parts), pictures = drawn(run)["progress"][0]["data"], drawn(run)
    target = [r for r in run.history.done if r.query.fidelity == 1]
    so_far = [-max(r.value for r in target[: k + 1]) for k in range(len(target))]
    assert best["y"] == [*dict.fromkeys(so_far), so_far[-1]]
    counts = [len([r for r in run.history.done if r.query.fidelity == m]) for m in (0, 1)]
    assert [len(part["x"]) for part in parts if part["name"]] == counts
    queries, spent, explained, costs = pictures["queries"]
    asked = [whole + bad for whole, bad in zip(*(bars["x"] for bars in queries["data"]), strict=True)]
    assert asked == run.history.queries_per_fidelity(2)
    assert spent["data"][0]["x"] == pytest.approx(run.history.spent_per_fidelity(2))
    assert explained["data"][0]["x"] == [0.5, 1.0]
    assert [len(box["x"]) for box in costs["data"]] == counts
    deciding = pictures["times"][0]["data"]
    took = {id: seconds for part in deciding for id, seconds in zip(part["x"], part["y"], strict=True)}
    assert took == {r.id: r.decision_seconds for r in run.history}


def test_values_beside_which_the_others_would_be_a_line():
    whole = made(Hill(), 40)
    far = {r.id for r in whole.done[::9]}
    history = History(replace(r, value=-1e7) if r.id in far else r for r in whole)
    pictures, notes = report.sections(experiment(Hill(), GPUCB(), history))
    rest = [r.value for r in history.done if r.id not in far]
    low, high = pictures["progress"][0]["layout"]["yaxis"]["range"]
    assert low < min(rest) < max(rest) < high
    assert high - low < 1.2 * (max(rest) - min(rest)) + 1e-9
    assert f"{len(far)} of the values are off the scale" in notes["progress"]
    assert "Values off the scale" in notes["parallel"]
    assert min(pictures["parallel"][0]["data"][-1]["dimensions"][-1]["values"]) > -1e6
    assert pictures["calibration"][0]["layout"]["xaxis"]["range"][0] > -1e6
    assert all(each["layout"]["yaxis"]["range"][0] > -1e6 for each in pictures["slices"])
    assert "range" not in report.sections(experiment(Hill(), GPUCB(), whole))[0]["progress"][0]["layout"]["yaxis"]


def test_predicted_is_what_was_believed_before():
    run = experiment(hostile().problem, GPUCB(), hostile().history)
    found = calibration.predictions(run)
    done = run.history.done
    ends = [math.ceil(len(done) * k / 4) for k in range(1, 5)]
    assert {each.record.id for each in found} == {r.id for r in done[ends[0] :] if r.query.fidelity == 1}
    for record, mean, deviation in (found[0], found[-1]):
        earlier = History(run.history.records[: done[max(end for end in ends[:-1] if done[end].id <= record.id)].id])
        believed = run.strategy.predict(earlier, torch.tensor([record.query.x], dtype=torch.double))
        assert [-mean, deviation] == pytest.approx([float(part[0, 1]) for part in believed])
    view = ReportView(run)
    near = sum(abs(-r.value - mean) <= 2 * deviation for r, mean, deviation in found)
    assert calibration.inside(found, view, 2.0) == near / len(found)
    assert f"{near / len(found):.0%} of {len(found)} values" in calibration.drawn(view)[1]
    assert calibration.predictions(experiment(Hill(), Walk(), History())) == "There are fewer than 8 observations."
    assert calibration.predictions(hostile()) == "RandomSearch has no model of what came next."


def test_many_parameters_are_told_by_those_that_matter():
    problem = Hill()
    problem.space = Space.box([[0.0] * 40, [1.0] * 40], [1.0])
    history = made(problem, 60)
    history = History(r.done(10 * r.query.x[7] - r.query.x[30]) if r.value is not None else r for r in history)
    view = ReportView(experiment(problem, RandomSearch(), history))
    chosen = designs.most_correlated(view, view.done)
    assert len(chosen) == designs.MOST_AXES
    assert 7 in chosen
    (picture,), note = designs.parallel(view)
    assert len(picture["data"][0]["dimensions"]) == designs.MOST_AXES + 1
    assert f"{designs.MOST_AXES} of 40 parameters" in note
    assert "16 more" in Reader(report.render(view.run)).text
    panel = {"x": [0.0, 1.0], "near": []}
    levels = [{**panel, "levels": [{"mean": [0.0, float(i == 30)], "deviation": [0.1, 0.1]}]} for i in range(40)]
    pictures, note = designs.slices(view, {"through": view.done[0].id, "panels": levels})
    assert len(pictures) == designs.MOST_PANELS
    assert "x31" in [picture["layout"]["xaxis"]["title"]["text"] for picture in pictures]


def test_thinned_keeps_the_extremes():
    records = made(Hill(), 5000).done
    kept = thinned(records, lambda r: r.value, 100)
    assert len(kept) <= 100
    assert kept == sorted(kept, key=lambda r: r.id)
    assert {f(records, key=lambda r: r.value).id for f in (min, max)} <= {r.id for r in kept}
