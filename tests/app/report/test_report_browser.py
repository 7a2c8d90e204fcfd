"""The page of a run in a browser: opened from disk, light and dark, wide and narrow, small and large."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from pages import EVIL, LINK, PARAMETERS, experiment, hostile, made
from toy import Hill, Walk

from mfbo_torch.app import report
from mfbo_torch.app.report import designs
from mfbo_torch.app.summary import Summary
from mfbo_torch.history import History, Status
from mfbo_torch.problems import Hartmann3
from mfbo_torch.space import Space
from mfbo_torch.strategies import GPUCB, MFGPUCB, RandomSearch


class Opened:
    """A page opened from disk; what it asked for and complained about is noted."""

    def __init__(self, browser, run: Summary, folder: Path, scheme="light", width=1280, height=900) -> None:
        self.path = report.write(run, folder / "page.html")
        self.requests, self.errors = [], []
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(self.path.as_uri())
        self.page.wait_for_selector("main[aria-busy=false]", timeout=240_000)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_) -> None:
        self.context.close()

    def rows(self, column: int) -> list[str]:
        """The cells of a column that are in the document."""
        code = "(rows, i) => rows.map(row => row.cells[i].textContent)"
        return self.page.eval_on_selector_all("#records tr[data-row]", code, column)

    def check(self) -> None:
        """Nothing but the file was read, nothing failed, nothing sticks out."""
        assert [url for url in self.requests if not url.startswith("blob:")] == [self.path.as_uri()]
        assert self.errors == []
        assert self.page.inner_text("#trouble") == ""
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def count(self) -> str:
        """How many records are shown."""
        return self.page.inner_text("#records .count")


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
        parts = {"capital": 1, "progress": 1, "queries": 3, "importance": 1, "contours": 2}
        parts |= {"slices": len(PARAMETERS), "parallel": 1, "calibration": 2, "times": 2}
        assert len(light) == sum(parts.values())  # the cheap fidelity has no model, so no shares
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert not set(light) & set(page.evaluate(drawn))
        page.click("#theme")
        assert page.evaluate(drawn) == light

        shown = "document.querySelector('#progress .chart').data.filter(trace => trace.visible === 'legendonly').length"
        page.locator("#progress .legendtoggle").last.click()
        page.wait_for_function(f"{shown} === 2")  # its values and its failures

        dimensions = "document.querySelector('#parallel .chart').data.filter(part => part.visible)[0].dimensions"
        done = [sum(r.query.fidelity == m for r in history.done) for m in (0, 1)]
        assert page.evaluate(f"{dimensions}[0].values.length") == done[1]
        page.locator("#parallel .updatemenu-header").click()
        page.locator("#parallel .updatemenu-dropdown-button").last.click()
        assert page.evaluate(f"{dimensions}[0].values.length") == sum(done)
        page.click("#theme")
        assert page.evaluate(f"{dimensions}[0].values.length") == sum(done)  # what was chosen stays
        page.click("#theme")

        for column, key in ((2, lambda r: r.query.x[0]), (7, lambda r: r.cost), (0, lambda r: r.id)):
            for reverse in (False, True):
                page.locator("#records th button").nth(column).click()
                wanted = [r.id for r in sorted(history, key=key, reverse=reverse)]
                order = "descending" if reverse else "ascending"
                assert page.locator("#records th").nth(column).get_attribute("aria-sort") == order
                found = [int(cell) for cell in opened.rows(0)]
                assert found == wanted[: len(found)]

        failed = [r.id for r in history.select(Status.FAILED)]
        page.fill("#records input[type=search]", "failed")
        assert {int(cell) for cell in opened.rows(0)} <= {*failed}
        assert opened.count() == f"{len(failed)} of {len(history)} records"
        page.fill("#records input[type=search]", "")
        page.select_option("#records select[data-of=status]", "failed")
        assert opened.count() == f"{len(failed)} of {len(history)} records"
        page.locator("#records tr[data-row] button").first.click()
        first = opened.rows(0)[0]
        assert page.inner_text("#query h3") == f"Query {first}"
        assert page.inner_text("#query .why").startswith(f"Query {first} ")
        assert EVIL in page.inner_text("#query dl")
        assert not page.is_visible("#query .save")
        page.select_option("#records select[data-of=status]", "")

        with page.expect_download() as download:
            page.click("#records .csv")
        with open(download.value.path(), newline="", encoding="utf-8-sig") as file:
            rows = {int(row["query"]): row for row in csv.DictReader(file)}
        assert [float(rows[r.id]["rate"]) for r in history] == [r.query.x[0] for r in history]
        assert all(rows[r.id]["reason"].replace("\n", " ") == r.reason.replace("\n", " ") for r in history)
        for summary in page.locator("summary:visible").all():
            summary.click()
        assert EVIL in page.inner_text("#settings pre")
        opened.check()


def test_model_of_several_fidelities_at_phone_width(browser, tmp_path):
    problem = Hartmann3()
    run = experiment(problem, MFGPUCB(hedge=False), made(problem, 60))
    with Opened(browser, run, tmp_path, "dark", 360, 740) as opened:
        page = opened.page
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.locator("#queries .chart").count() == 4
        count = "box => box.data.filter(trace => trace.visible === 'legendonly').length"
        hidden = f"[...document.querySelectorAll('#slices .chart')].map({count})"
        page.locator("#slices .legendtoggle").first.click()
        page.wait_for_function(f"{hidden}.every(count => count >= 3)")  # two bounds and the mean
        inside = "boxes => boxes.every(box => box.getBoundingClientRect().right <= 360)"
        assert page.eval_on_selector_all("#progress .chart, #queries .chart, #slices .chart, .box", inside)
        assert page.eval_on_selector("#parallel .box", "box => box.scrollWidth > box.clientWidth")
        assert "lie within two standard deviations" in page.inner_text("#calibration")
        opened.check()


def test_hostile_text_at_phone_width(browser, tmp_path):
    with Opened(browser, hostile(), tmp_path, width=360, height=740) as opened:
        assert "RandomSearch has no model of the objective." in opened.page.inner_text("#slices")
        opened.check()


@pytest.mark.parametrize(("rows", "dim", "scheme"), [(10_000, 1, "light"), (5_000, 200, "dark")])
def test_many_rows_and_many_parameters(browser, tmp_path, rows, dim, scheme):
    problem = Hill()
    problem.space = Space.box([[0.0] * dim, [10.0] * dim], [1.0, 10.0, 100.0])
    run = experiment(problem, Walk() if dim == 1 else RandomSearch(), made(problem, rows))
    with Opened(browser, run, tmp_path, scheme) as opened:
        page = opened.page
        assert page.locator("#records tbody tr").count() < 200
        assert opened.count() == f"{rows:,} records"
        assert "are drawn" in page.inner_text("#progress")
        box = "document.querySelector('#records .scroll')"
        page.evaluate(f"{box}.scrollTop = {box}.scrollHeight")
        page.wait_for_function(f"document.querySelector('#records tr[data-row=\"{rows - 1}\"]') !== null")
        heads = "heads => heads.every(head => head.firstChild.scrollWidth <= head.clientWidth)"
        assert page.eval_on_selector_all("#records th", heads)  # no name is cut
        axes = page.locator("#parallel .axis-brush").count()
        assert axes == min(dim, designs.MOST_AXES) + 1
        opened.check()


def test_an_empty_page_opens(browser, tmp_path):
    with Opened(browser, experiment(Hill(), Walk(), History()), tmp_path) as opened:
        assert opened.count() == "0 records"
        opened.check()


SECONDS = """async act => {
  const began = performance.now();
  await act();
  await new Promise(shown => requestAnimationFrame(() => setTimeout(shown)));
  return (performance.now() - began) / 1000;
}"""


@pytest.mark.slow
def test_twenty_thousand_records_answer_at_once(browser, tmp_path):
    """From each interaction to the frame that shows it, the median of three: a busy machine counts as well as the page.
    No search waits for the words of the rows, which are made before."""
    problem = Hill()
    problem.space = Space.box([[0.0] * 6, [10.0] * 6], [1.0, 10.0, 100.0])
    with Opened(browser, experiment(problem, Walk(), made(problem, 20_000)), tmp_path) as opened:
        box, search = "document.querySelector('#records .scroll')", "document.querySelector('#records input')"
        sort = "() => document.querySelectorAll('#records th button')[{}].click()"
        acts = [sort.format(k) for k in (0, 1, 3, 9)]
        acts.append(f"() => {{ {search}.value = 'failed'; {search}.dispatchEvent(new Event('input')); }}")
        acts.append(f"() => {{ {search}.value = ''; {search}.dispatchEvent(new Event('input')); }}")
        acts.append(f"() => {{ {box}.scrollTop = {box}.scrollHeight * Math.random(); }}")
        acts.append("() => document.querySelector('#records tr[data-row] button').click()")
        opened.page.wait_for_timeout(1000)
        assert opened.page.evaluate(f"({SECONDS})({acts[4]})") < 0.2  # the first one
        for act in acts:
            took = sorted(opened.page.evaluate(f"({SECONDS})({act})") for _ in range(3))
            assert took[1] < 0.2, act
        opened.check()
