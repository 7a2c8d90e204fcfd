"""The benchmarks on choices, at tiny sizes."""

from __future__ import annotations

import math

import pytest

from benchmarks.mixed import decision, run
from benchmarks.mixed.tunings import TUNINGS
from benchmarks.runs import read


@pytest.mark.parametrize("name", TUNINGS)
def test_tunings_can_be_evaluated_with_every_choice(name):
    problem = TUNINGS[name]()
    for parameter in problem.space.parameters:
        for label in parameter.choices:
            named = {p.name: p.decode(p.lower) for p in problem.space.parameters} | {parameter.name: label}
            assert math.isfinite(problem.reward(problem.space.point(named), 0))


def test_runs_go_on_and_make_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr(TUNINGS["trees"], "evaluate", lambda self, x, fidelity: float(fidelity - x[0]))
    methods = ["Random", *(method for method in run.OTHERS if not run.missing(method))]
    command = ["--problems", "trees", "--methods", *methods, "--seeds", "1", "--capital", "4"]
    assert run.main([*command, "--results", str(tmp_path)]) == 0
    assert run.main([*command, "--results", str(tmp_path)]) == 0
    rows = read(tmp_path / run.FILE)
    assert len(rows) == 3 * len(methods)
    assert all(float(row["spent"]) <= int(row["capital"]) for row in rows)
    assert "## trees" in (tmp_path / "mixed.md").read_text()


def test_decisions_are_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(decision, "AHEAD", 1)
    command = ["--observations", "5", "--repeats", "1", "--strategies", "GPBUCB", "--results", str(tmp_path)]
    decision.main(command)
    assert (tmp_path / "mixed_decision.json").exists()
