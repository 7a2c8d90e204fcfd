"""The page of a run: what is in it, and what a browser makes of it."""

from __future__ import annotations

import base64
import gzip
import json
import math
import random
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from toy import Hill, Plain, Walk

from mfbo_torch import report
from mfbo_torch.errors import SettingError
from mfbo_torch.experiment import Experiment
from mfbo_torch.history import History, Query, Record, Status
from mfbo_torch.problems import Hartmann3, UserProblem
from mfbo_torch.report.content import content, slices
from mfbo_torch.report.text import MOST_REASONS
from mfbo_torch.runner import run as spend
from mfbo_torch.space import Space
from mfbo_torch.strategies import GPUCB, MFGPUCB, ExpectedImprovement, RandomSearch

EVIL = "</script><img src=x onerror=\"document.title='owned'\"><a href='https://example.org'>&amp;"
LINK = "<b>k</b><a href='//e.org'>k</a>"
PARAMETERS = {
    "rate": {"lower": 1e-5, "upper": 1.0, "log": True},
    "layers": {"lower": 1, "upper": 6, "integer": True},
    EVIL: {"lower": -3.0, "upper": 250.0},
    LINK: {"lower": 0.0, "upper": 1.0},
}
MEGABYTE = 1_000_000


def experiment(problem, strategy, history, capital=600.0):
    settings = {"problem": {"class_path": EVIL}, "capital": capital, "seed": 0, "out": "somewhere"}
    return Experiment(settings, problem, strategy.bind(problem.space, capital), history)


def made(problem, count: int, seed: int = 0) -> History:
    """Random queries: one in ten fails, the last one is pending."""
    numbers, generator, space = random.Random(seed), torch.Generator().manual_seed(seed), problem.space
    X = space.from_unit(torch.rand(count, space.dim, generator=generator, dtype=torch.double)).tolist()
    records = []
    for i, x in enumerate(X):
        m = numbers.randrange(space.num_fidelities)
        times = {"decision_seconds": numbers.random(), "evaluation_seconds": numbers.random()}
        record = Record(i, Query(tuple(x), m), (1 + m) * numbers.random(), **times)
        if i == count - 1:
            records.append(record)
        elif numbers.random() < 0.1:
            records.append(record.failed(f"ValueError: step {numbers.randrange(40)} {EVIL}\n  in line 3"))
        else:
            records.append(record.done(problem.reward(x, m)))
    return History(records)


def bowl(parameters, m: int) -> float:
    return (math.log10(parameters["rate"]) + 3) ** 2 + parameters["layers"] + m * parameters[LINK]


def hostile(count: int = 120) -> Experiment:
    """A minimised problem with measured costs, and with markup in every text of the user's."""
    problem = UserProblem(bowl, PARAMETERS, "measured", maximize=False, num_fidelities=2)
    return experiment(problem, RandomSearch(), made(problem, count))


def packed(page: str, name: str) -> str:
    (text,) = re.findall(rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', page)
    return gzip.decompress(base64.b64decode(text)).decode()


def data(page: str):
    return json.loads(packed(page, "data"))


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
    records = data(report.render(run))["records"]
    history, names = run.history, list(PARAMETERS)
    assert [list(column) for column in zip(*records["x"], strict=True)] == [list(r.query.x) for r in history]
    assert records["value"] == [None if r.value is None else -r.value for r in history]
    assert records["cost"] == [r.cost for r in history]
    assert records["fidelity"] == [r.query.fidelity for r in history]
    assert records["status"] == [r.status for r in history]
    assert records["reason"] == {str(r.id): r.reason for r in history.select(Status.FAILED)}
    assert records["deciding"] == pytest.approx([r.decision_seconds for r in history], abs=1e-6)
    assert records["evaluating"] == pytest.approx([r.evaluation_seconds for r in history], abs=1e-6)
    assert [p["name"] for p in data(report.render(run))["parameters"]] == names


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
    failed = run.history.select(Status.FAILED)
    assert failed[0].reason in text


def test_text_of_the_users_stays_text():
    reader = Reader(report.render(hostile()))
    assert not {"img", "a", "iframe", "object", "embed"} & set(reader.tags)
    assert reader.tags.count("script") == 4
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert EVIL in reader.text


def test_nothing_is_loaded():
    page = report.render(hostile())
    reader = Reader(page)
    assert [value for name, value in reader.attributes if name in ("src", "href")] == ["data:,"]
    assert "url(" not in page
    assert "@import" not in page
    (policy,) = [value for name, value in reader.attributes if name == "content" and "default-src" in value]
    assert policy.startswith("default-src 'none'; script-src 'nonce-")
    assert "http" not in policy
    assert packed(page, "plotly").lstrip().startswith("/**\n* plotly.js")


@pytest.mark.parametrize("dim", [6, 20])
def test_ten_thousand_records_take_less_than_five_megabytes(dim, tmp_path):
    problem = Hill()
    problem.space = Space.box([[0.0] * dim, [1.0] * dim], [1.0, 10.0, 100.0])
    path = report.write(experiment(problem, RandomSearch(), made(problem, 10_000)), tmp_path / "page.html")
    assert path == tmp_path / "page.html"
    assert path.stat().st_size < 5 * MEGABYTE
    assert len(data(path.read_text())["records"]["value"]) == 10_000


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
            assert level["deviation"] == pytest.approx(deviation[:, m].tolist(), rel=1e-5)


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
    assert content(experiment(problem, Walk(), noisy))["records"]["error"] == [0.5] * len(noisy)
    assert "error" not in content(experiment(problem, Walk(), history))["records"]
    assert re.search(r"Recommended parameters.*Without noise \S+ ± \S+ is expected there\. Noise \(", page, re.S)
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
    with pytest.raises(SettingError, match="must be a file that can be written"):
        report.write(run, tmp_path / "missing" / "page.html")
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(SettingError, match=r"pip install mfbo-torch\[report\]"):
        report.write(run, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


# In a browser


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        own = driver.chromium.executable_path
        found = [own] if Path(own).exists() else map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        path = next(filter(None, found), None)
        if path is None:
            pytest.skip("there is no Chromium")
        program = driver.chromium.launch(executable_path=path, args=["--enable-unsafe-swiftshader"])
        yield program
        program.close()


class Opened:
    """A page opened from disk; what it asked for and complained about is noted."""

    def __init__(self, browser, run: Experiment, folder: Path, scheme="light", width=1280, height=900) -> None:
        self.path = report.write(run, folder / "page.html")
        self.requests, self.errors = [], []
        size = {"width": width, "height": height}
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(self.path.as_uri())
        self.page.wait_for_selector("main[aria-busy=false]", timeout=60_000)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_) -> None:
        self.context.close()

    def rows(self, column: int) -> list[str]:
        """The cells of a column that are in the document."""
        code = "(rows, i) => rows.map(row => row.cells[i].textContent)"
        return self.page.eval_on_selector_all("#records tbody tr:not(.space)", code, column)

    def check(self) -> None:
        """Nothing but the file was read, nothing failed, nothing sticks out."""
        assert self.requests == [self.path.as_uri()]
        assert self.errors == []
        assert self.page.inner_text("#trouble") == ""
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def ordered(history: History, key, reverse: bool) -> list[int]:
    """Ids in the order of a key, those without one last, equal ones by id."""
    known = [r for r in history if key(r) not in (None, "")]
    unknown = [r.id for r in history if key(r) in (None, "")]
    sign = -1 if reverse else 1
    if known and isinstance(key(known[0]), str):
        return [r.id for r in sorted(known, key=key, reverse=reverse)] + unknown
    return [r.id for r in sorted(known, key=lambda r: (sign * key(r), r.id))] + unknown


def test_every_control_works(browser, tmp_path):
    run = hostile()
    run = experiment(run.problem, GPUCB(), run.history)
    history = run.history
    with Opened(browser, run, tmp_path) as opened:
        page = opened.page
        assert page.title().startswith("UserProblem, best value")
        assert page.locator("img").count() == 0
        assert page.locator("a").count() == 0
        titles = page.eval_on_selector_all("#slices .xtitle", "titles => titles.map(title => title.textContent)")
        assert titles == ["rate", "layers", EVIL[:35] + "…", LINK]

        drawn = "[...document.querySelectorAll('.js-plotly-plot')].map(box => box._fullLayout.paper_bgcolor)"
        light = page.evaluate(drawn)
        assert len(light) == 4 + len(PARAMETERS)
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert not set(light) & set(page.evaluate(drawn))
        page.click("#theme")
        assert page.evaluate(drawn) == light

        shown = "document.querySelector('#progress .chart').data.filter(trace => trace.visible === false).length"
        for button in page.locator("#progress .keys button").all():
            button.click()
            assert button.get_attribute("aria-pressed") == "false"
            assert page.evaluate(shown) == 2  # its values and its failures
            button.click()
            assert page.evaluate(shown) == 0
        assert page.locator("#slices .keys button").count() == 0  # one fidelity has a model

        lines = "document.querySelector('#parallel .chart').data[0].dimensions[0].values.length"
        done = [sum(r.query.fidelity == m for r in history.done) for m in (0, 1)]
        for choice, count in {"0": done[0], "all": sum(done), "1": done[1]}.items():
            page.select_option("#parallel select", choice)
            assert page.evaluate(lines) == count

        axis = page.locator("#parallel .axis-brush").first
        axis.scroll_into_view_if_needed()
        box = axis.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"]
        page.mouse.move(x, y + 0.3 * box["height"])
        page.mouse.down()
        page.mouse.move(x, y + 0.6 * box["height"], steps=4)
        page.mouse.up()
        selected = "document.querySelector('#parallel .chart').data[0].dimensions[0].constraintrange"
        chosen = page.evaluate(selected)
        assert -5 < chosen[0] < chosen[1] < 0
        page.click("#theme")
        assert page.evaluate(selected) == chosen

        keys = {
            0: lambda r: r.id,
            1: lambda r: r.query.fidelity,
            **{2 + i: lambda r, i=i: r.query.x[i] for i in range(4)},
            6: lambda r: None if r.value is None else -r.value,
            7: lambda r: r.cost,
            8: lambda r: math.fsum(other.cost for other in history.records[: r.id + 1]),
            10: lambda r: r.decision_seconds,
            11: lambda r: r.evaluation_seconds,
        }
        heads = page.locator("#records thead button")
        assert heads.count() == 13
        for column in [*range(1, 13), 0]:
            for reverse in (False, True):
                heads.nth(column).click()
                head = page.locator("#records thead th").nth(column)
                assert head.get_attribute("aria-sort") == ("descending" if reverse else "ascending")
                found = [int(cell) for cell in opened.rows(0)]
                if column in keys:
                    assert found == ordered(history, keys[column], reverse)[: len(found)]
                else:
                    cells = [cell for cell in opened.rows(column) if cell]
                    assert cells == sorted(cells, reverse=reverse)
        heads.nth(0).click()

        page.select_option("#of-fidelity", "1")
        page.select_option("#of-status", "failed")
        failed = [r.id for r in history.select(Status.FAILED, 1)]
        assert [int(cell) for cell in opened.rows(0)] == failed
        assert page.inner_text("#records output") == f"{len(failed)} of 120 records"
        assert opened.rows(12) == [history.records[i].reason for i in failed]
        page.select_option("#of-status", "pending")
        page.select_option("#of-fidelity", "all")
        assert opened.rows(0) == ["119"]
        page.select_option("#of-status", "all")

        page.check("#digits")
        assert [float(cell) for cell in opened.rows(2)] == [r.query.x[0] for r in history][: len(opened.rows(2))]
        page.uncheck("#digits")
        for summary in page.locator("summary").all():
            summary.click()
        assert EVIL in page.inner_text("#settings pre")
        assert page.title().startswith("UserProblem, best value")
        opened.check()


def test_model_of_several_fidelities_at_phone_width(browser, tmp_path):
    problem = Hartmann3()
    history = made(problem, 60)
    with Opened(browser, experiment(problem, MFGPUCB(), history), tmp_path, "dark", 360, 740) as opened:
        page = opened.page
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        traces = "document.querySelector('#slices .chart').data.length"
        before = page.evaluate(traces)
        assert page.locator("#slices .keys button").count() == 3
        for button in page.locator("#slices .keys button").all():
            button.click()
            assert page.evaluate(traces) == before - 4  # two bounds, the mean, the observations
            button.click()
        inside = "boxes => boxes.every(box => box.getBoundingClientRect().right <= 360)"
        assert page.eval_on_selector_all("#progress .chart, #queries .chart, #slices .chart, .box", inside)
        scrolls = "box => box.scrollWidth > box.clientWidth"
        assert page.eval_on_selector("#records .rows", scrolls)
        assert page.eval_on_selector("#parallel .box", scrolls)
        opened.check()


def test_hostile_text_at_phone_width(browser, tmp_path):
    with Opened(browser, hostile(), tmp_path, width=360, height=740) as opened:
        assert "RandomSearch has no model of the objective." in opened.page.inner_text("#slices")
        opened.check()


def test_ten_thousand_rows(browser, tmp_path):
    problem = Hill()
    history = made(problem, 10_000)
    with Opened(browser, experiment(problem, Walk(), history), tmp_path) as opened:
        page = opened.page
        assert page.locator("#records tbody tr").count() < 100
        assert "are drawn" in page.inner_text("#progress .note")
        page.locator("#records thead button", has_text="value").click()
        order = ordered(history, lambda r: r.value, False)
        assert [int(cell) for cell in opened.rows(0)][:20] == order[:20]
        page.evaluate("document.querySelector('#records .rows').scrollTop = 5000 * 30")
        page.wait_for_function("document.querySelector('#records tbody tr:nth-child(2)').ariaRowIndex > 4900")
        assert str(order[5000]) in opened.rows(0)
        page.evaluate("document.querySelector('#records .rows').scrollTop = 1e9")
        page.wait_for_function("document.querySelector('#records tbody tr:nth-last-child(2)').ariaRowIndex == 10001")
        assert int(opened.rows(0)[-1]) == order[-1]
        opened.check()


def test_an_empty_page_opens(browser, tmp_path):
    with Opened(browser, experiment(Hill(), Walk(), History()), tmp_path) as opened:
        assert opened.rows(0) == []
        opened.check()
