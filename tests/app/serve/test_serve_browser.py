"""The page that follows a run, in a browser, while the run goes on."""

import contextlib
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
        time.sleep(0.1)
        print("epoch", epoch)
        trial.report((math.log10(parameters["rate"]) + 2) ** 2 + parameters[NAME] + 1 / epoch)

def both(parameters):
    time.sleep(0.2)
    print("weighed")
    return {NAME: parameters["rate"], "gain": 1 - parameters["rate"] ** 2 - parameters[NAME]}
"""
OF_TRAININGS = {
    "capital": "strip",
    "progress": "best so far",
    "timeline": "workers",
    "curves": "learning curves",
    "importance": "importance",
    "slices": "slices",
    "contours": "contours",
    "comparison": "other runs",
}
OF_OBJECTIVES = {"capital": "strip", "front": "front", "timeline": "workers"}
"""The parts with pictures, of the two runs; the table, the notes and the output are the rest."""


def written(out: Path) -> bool:
    """Whether the journal of a run has some queries."""
    try:
        return (out / "history.sqlite-wal").stat().st_size > 60_000
    except OSError:
        return False


@contextlib.contextmanager
def followed(tmp_path, folder: Path, settings: dict, first: float | None, capital: float):
    """A run that goes on, one beside it that has ended after a capital ``first``, and its server: the folder of the
    first, and the address."""
    environment = {**os.environ, "PYTHONPATH": f"{Path(report.__file__).parents[3]}{os.pathsep}{tmp_path}"}
    started = []

    def mfbo(*argv, **kept):
        command = [sys.executable, "-m", "mfbo_torch", *map(str, argv)]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **kept)

    config = tmp_path / f"{settings['strategy']}.yaml"
    config.write_text(yaml.safe_dump(settings))
    if first is not None:
        command = ("run", config, "--out", folder / "first", "--capital", first)
        assert mfbo(*command, stderr=subprocess.DEVNULL).wait(120) == 0
    out = folder / "<b>this"
    started.append(mfbo("run", config, "--out", out, "--capital", capital, stderr=subprocess.DEVNULL))
    try:
        while not written(out):
            assert started[0].poll() is None
            time.sleep(0.2)
        started.append(mfbo("serve", out, stdout=subprocess.PIPE))
        yield out, started[1].stdout.readline().split()[-1]
    finally:
        for process in started[::-1]:
            process.send_signal(signal.SIGINT)
        for process in started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(folder)


@pytest.fixture
def live(tmp_path):
    """A run of trainings and one with two objectives that go on, and their servers; names are markup."""
    pytest.importorskip("plotly")
    (tmp_path / "slow.py").write_text(LIVE.replace("NAME", repr(EVIL)))
    parameters = {"rate": {"lower": 1e-4, "upper": 1.0, "log": True}, EVIL: {"lower": 0.0, "upper": 1.0}}
    training = {"objective": "slow:train", "parameters": parameters, "epochs": 9, "maximize": False}
    several = {"objective": "slow:both", "parameters": parameters, "costs": [1]}
    several["objectives"] = {EVIL: "minimize", "gain": "maximize"}
    runs = [
        {"problem": {"class_path": "mfbo_torch.problems.UserProblem", "init_args": problem}, "strategy": strategy}
        for problem, strategy in ((training, "FreezeThaw"), (several, "RandomSearch"))
    ]
    folders = [tmp_path / "<i>runs", tmp_path / "<i>several"]
    for folder in folders:
        folder.mkdir()
    with (
        followed(tmp_path, folders[0], runs[0], 20, 4000) as of_trainings,
        followed(tmp_path, folders[1], runs[1], None, 4000) as of_objectives,
    ):
        yield of_trainings, of_objectives


class Seen:
    """A page that is open; what it asked for and complained about is noted."""

    def __init__(self, context, address: str) -> None:
        self.requests, self.errors, self.address = [], [], address
        self.page = context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector("main[aria-busy=false]", timeout=60_000)

    def check(self, asked: set[str]) -> None:
        """Nothing failed, nothing was asked of another place, no name has become a part of the page."""
        assert self.page.locator("img, a, b, i").count() == 0
        assert self.page.title() != "owned"
        assert self.errors == []
        assert self.page.inner_text("#trouble") == ""
        assert {url.split("?")[0] for url in self.requests if not url.startswith("blob:")} == {
            self.address,
            *(f"{self.address}{name}" for name in asked),
        }


@pytest.mark.slow
def test_a_live_run(browser, live):
    """All parts of the page, while the runs go on."""
    (out, address), (_, of_objectives) = live
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    seen = Seen(context, address)
    page = seen.page
    for section in OF_TRAININGS:
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
    page.click("#query .output summary")
    assert page.inner_text("#query .output pre").startswith("epoch 1")
    page.fill("#query textarea", f"look again {EVIL}")
    page.click("#query .save")
    page.wait_for_function("document.querySelector('#query .said').textContent === 'Kept.'")
    assert notes.read(out) == {0: f"look again {EVIL}"}

    page.click("#theme")
    page.locator("#records th button").nth(2).click()
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
    seen.check({"state", "query", "note"})

    other = Seen(context, of_objectives)
    for section in OF_OBJECTIVES:
        other.page.wait_for_selector(f"#{section} .js-plotly-plot", timeout=120_000)
    assert EVIL in other.page.inner_text("#records thead")
    other.page.wait_for_function(f"{records} > 3", timeout=120_000)
    other.check({"state"})
    context.close()
