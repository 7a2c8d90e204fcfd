"""The benchmark of indirect queries runs, and its report says what the rows say."""

from __future__ import annotations

import csv

import pytest

from benchmarks.indirect import ablation, report
from benchmarks.indirect.run import COLUMNS, MAKERS, Job, explored, jobs, problem_of
from benchmarks.runs import read
from mfbo_torch.problems import IndirectBranin


def test_a_run_gives_rows():
    problem = IndirectBranin(resolutions=2, known=True)
    rows = explored(Job("tree linear", "CMETS", 0), problem, (0.5, 2.0, 3.0))
    assert [row[3] for row in rows] == [0.5, 2.0, 3.0]
    simple = [row[4] for row in rows]
    assert simple == sorted(simple, reverse=True)
    assert all(len(row) == len(COLUMNS) for row in rows)


def test_every_run_is_planned_once():
    planned = jobs(["fixed linear", "tree linear"], list(MAKERS), 2)
    assert len(planned) == len(set(planned)) == 2 * (4 + 5)
    assert problem_of(Job("fixed nonlinear", "CMES", 3)).space.choices.shape == (400, 2)
    assert problem_of(Job("tree linear", "CMETS", 0)).space.choices is None
    assert len(problem_of(Job("tree linear", "UCB", 0)).space.choices) == 4096


def test_the_report(tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for label, level in (("CMES", 0.2), ("MES", 0.1), ("UCB", 0.21)):
            for seed in range(3):
                for capital in (10, 30, 100):
                    value = level + 0.01 * seed
                    writer.writerow(("fixed linear", label, seed, capital, value, value, capital, 1.0))
    assert len(read(path)) == 27
    assert read(tmp_path / "none.csv") == []
    found = report.collect(path)
    assert report.error(found["fixed linear", "CMES", "simple", 10.0]) == pytest.approx(0.01 / 3**0.5)
    wrong = report.exceptions(found)
    assert len(wrong) == 6
    assert all("MES 0.1100" in line for line in wrong)
    text = report.table(found)
    assert "| MES | 3 | **0.1100 ± 0.0058**" in text
    assert "| CMES | 3 | 0.2100 ± 0.0058" in text
    assert report.picture(found).axes


def test_parts_exchanged(tmp_path, monkeypatch):
    monkeypatch.setattr(ablation, "QUERIES", (1, 3))
    monkeypatch.setattr(ablation, "SETTLED", 2)
    arguments = ["--seeds", "2", "--variants", "CMES, maximum of g", "MES", "--results", str(tmp_path)]
    assert ablation.main(arguments) == 0
    rows = read(tmp_path / ablation.FILE)
    assert len(rows) == 8
    assert all(float(row["simple"]) <= float(row["current"]) for row in rows)
    page = (tmp_path / ablation.PAGE).read_text()
    assert page.count("| CMES, maximum of g | 2 |") == page.count("| MES | 2 |") == 2
