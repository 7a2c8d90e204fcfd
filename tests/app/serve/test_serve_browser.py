"""The page that follows a run, in a browser, while the run goes on."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from pages import EVIL

from mfbo_torch.app import notes, report

LIVE = """
import math, time

def train(parameters, trial):
    for epoch in trial.epochs():
        time.sleep(0.02)
        print("epoch", epoch)
        trial.report((math.log10(parameters["rate"]) + 2) ** 2 + parameters[NAME] + 1 / epoch)
"""
TEN = {
    "capital": "strip",
    "progress": "best so far",
    "timeline": "workers",
    "curves": "learning curves",
    "importance": "importance",
    "slices": "slices",
    "contours": "contours",
    "comparison": "other runs",
}
"""The parts with pictures of a run of trainings; the table, the notes and the output are the rest."""


def written(out: Path) -> bool:
    """Whether the journal of a run has some queries."""
    try:
        return (out / "history.sqlite-wal").stat().st_size > 60_000
    except OSError:
        return False


@pytest.fixture
def live(tmp_path):
    """A run of trainings that goes on, beside one that has ended, and its server; names are markup."""
    pytest.importorskip("plotly")
    folder = tmp_path / "<i>runs"
    folder.mkdir()
    (tmp_path / "slow.py").write_text(LIVE.replace("NAME", repr(EVIL)))
    parameters = {"rate": {"lower": 1e-4, "upper": 1.0, "log": True}, EVIL: {"lower": 0.0, "upper": 1.0}}
    init = {"objective": "slow:train", "parameters": parameters, "epochs": 9, "maximize": False}
    problem = {"class_path": "mfbo_torch.problems.UserProblem", "init_args": init}
    settings = {"problem": problem, "strategy": "FreezeThaw", "capital": 20}
    environment = {**os.environ, "PYTHONPATH": f"{Path(report.__file__).parents[3]}{os.pathsep}{tmp_path}"}
    started = []

    def mfbo(*argv, **kept):
        command = [sys.executable, "-m", "mfbo_torch", *map(str, argv)]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **kept)

    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    assert mfbo("run", "run.yaml", "--out", folder / "first", stderr=subprocess.DEVNULL).wait(120) == 0
    started.append(mfbo("run", "run.yaml", "--out", folder / "<b>this", "--capital", 400, stderr=subprocess.DEVNULL))
    try:
        out = folder / "<b>this"
        while not written(out):
            assert started[0].poll() is None
            time.sleep(0.2)
        started.append(mfbo("serve", out, stdout=subprocess.PIPE))
        address = started[1].stdout.readline().split()[-1]
        yield out, address
    finally:
        for process in started[::-1]:
            process.send_signal(signal.SIGINT)
        for process in started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_live_run(browser, live):
    out, address = live
    requests, errors = [], []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.wait_for_selector("main[aria-busy=false]", timeout=60_000)
    for section in TEN:
        page.wait_for_selector(f"#{section} .js-plotly-plot", timeout=120_000)
    records = "Number(document.querySelector('#records .count').textContent.replace(/[^0-9]/g, ''))"
    page.locator("#progress .updatemenu-button", has_text="log capital").click()
    before = page.evaluate(records)
    page.wait_for_function(f"{records} > {before}", timeout=120_000)  # it follows
    page.wait_for_function(f"document.querySelector('#progress .chart').data[0].x.at(-1) > {before / 10}")
    assert page.evaluate("document.querySelector('#progress .chart')._fullLayout.xaxis.type") == "log"

    page.locator("#records tr[data-row] button").first.click()
    page.wait_for_function("document.querySelector('#query .why').textContent.startsWith('Query 0 ')")
    assert EVIL in page.inner_text("#query dl")
    page.fill("#query textarea", f"look again {EVIL}")
    page.click("#query .save")
    page.wait_for_function("document.querySelector('#query .said').textContent === 'Kept.'")
    assert notes.read(out) == {0: f"look again {EVIL}"}

    page.click("#theme")
    page.locator("#records th button").nth(2).click()
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("img, a, b, i").count() == 0
    assert page.title() != "owned"
    assert errors == []
    assert page.inner_text("#trouble") == ""
    assert {url.split("?")[0] for url in requests if not url.startswith("blob:")} == {
        address,
        *(f"{address}{name}" for name in ("state", "query", "note")),
    }
    context.close()
