"""Folders of runs that somebody else has changed."""

import json
import os
import shutil

import pytest
import yaml
from journals import forge

from mfbo_torch.app import cli

DEEP = "'" + "[" * 2000 + "]" * 2000 + "'"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run and a finished comparison."""
    place = tmp_path_factory.mktemp("whole")
    base = {"problem": "toy.Hill", "strategy": "toy.Walk", "capital": 14}
    several = {"problem": "toy.Hill", "strategies": {"walk": "toy.Walk"}, "capital": 12, "seeds": 1, "workers": 1}
    for name, command, settings in (("run", "run", base), ("comparison", "compare", several)):
        (place / f"{name}.yaml").write_text(yaml.safe_dump(settings))
        assert cli.main([command, str(place / f"{name}.yaml"), "--out", str(place / name)]) == 0
    return place


def config(**changes):
    def change(out):
        settings = yaml.safe_load((out / "config.yaml").read_text())
        (out / "config.yaml").write_text(yaml.safe_dump({**settings, **changes}))

    return change


def summary(**changes):
    def change(out):
        found = json.loads((out / "summary.json").read_text()) | changes
        kept = {name: value for name, value in found.items() if value != "left out"}
        (out / "summary.json").write_text(json.dumps(kept))

    return change


def row(sequence, **values):
    return lambda out: forge(out / "history.sqlite", sequence, **values)


def instead(name, kind):
    """A pipe, a device, a folder or a link in place of a file."""

    def change(out):
        (out / name).unlink()
        if kind in ("pipe", "folder"):
            {"pipe": os.mkfifo, "folder": os.mkdir}[kind](out / name)
        else:
            (out / name).symlink_to("/dev/zero" if kind == "device" else out / name)

    return change


ODD = {
    "summary-cut": (lambda out: (out / "summary.json").write_text("[1"), "a JSON file of what a run has found"),
    "journal-gone": (lambda out: (out / "history.sqlite").unlink(), "must be an existing journal"),
    "summary-list": (
        lambda out: (out / "summary.json").write_text("[1]"),
        "a JSON file of what a run has found; the run that is continued",
    ),
    "best-text": (summary(best_value="high"), "summary.best_value = 'high': must be a number"),
    "best-missing": (summary(best_value="left out"), "must be one with best_value"),
    "parameters-list": (summary(best_parameters=[1]), "summary.best_parameters = [1]: must be a mapping"),
    "recommended-text": (summary(recommended="this"), "summary.recommended = 'this': must be a mapping"),
    "recommended-empty": (summary(recommended={}), "summary.recommended.parameters = None: must be a mapping"),
    "finished-text": (summary(finished="yes"), "summary.finished = 'yes': must be true or false"),
    "spent-list": (summary(spent=[3]), "summary.spent = [3]: must be a number"),
    "capital-text": (config(capital="abc"), "capital = 'abc': must be a number"),
    "capital-none": (config(capital=None), "capital = None: must be given"),
    "strategies-number": (config(strategies=3), "strategies"),
    "seed-list": (config(seed=[1]), "seed = [1]: must be a whole number"),
    "problem-number": (config(problem=3), "problem = 3: must be"),
    "x-deep": (row(1, x=DEEP), "row 1 not as a journal writes it"),
    "x-text": (row(1, x="'[\"a\"]'"), "row 1 not as a journal writes it"),
    "meta-list": (row(1, meta="'[1]'"), "row 1 not as a journal writes it"),
    "cost-text": (row(1, cost="'dear'"), "row 1: cost is a str"),
    "time-text": (row(1, evaluation_seconds="''"), "row 1: evaluation_seconds is a str"),
    "outcomes-list": (row(2, outcomes="'[1]'"), "row 2 not as a journal writes it"),
    "summary-pipe": (instead("summary.json", "pipe"), "must be a readable file: not a regular file"),
    "summary-folder": (instead("summary.json", "folder"), "must be a readable file: Is a directory"),
    "summary-device": (instead("summary.json", "device"), "must be a readable file: not a regular file"),
    "config-pipe": (instead("config.yaml", "pipe"), "must be a readable file: not a regular file"),
    "journal-pipe": (instead("history.sqlite", "pipe"), "must be a readable file: not a regular file"),
    "journal-device": (instead("history.sqlite", "device"), "must be a readable file: not a regular file"),
}
"""What was done to the folder of a run, and what is said of it."""


def changed(whole, place, name):
    """A copy of the finished run, changed in a way of :data:`ODD`."""
    out = place / name
    shutil.copytree(whole / "run", out)
    ODD[name][0](out)
    return out
