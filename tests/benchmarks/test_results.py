"""What is committed is what the reports make of the rows beside it."""

import csv
import gzip
import json
import signal
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from benchmarks.common import RESULTS, cut_after, shortened, standard_error
from benchmarks.figures.marks import unmarked
from benchmarks.quality import continuing, continuous, mixed, real, regret, stopping
from benchmarks.quality.bandit import figure2
from benchmarks.quality.batch import report as batch
from benchmarks.quality.indirect import ablation, batches, fields, report
from benchmarks.quality.indirect import run as indirect
from benchmarks.quality.robust import calibration
from benchmarks.quality.robust import run as robust
from benchmarks.study import KEY, measure, read

MODULES = (regret, real, robust, mixed, continuous, continuing, stopping, calibration, indirect, ablation, batches)
STUDIES = [study.STUDY for study in (*MODULES, fields)]
REPORTS = sorted(path for path in RESULTS.glob("*.json") if ".about" not in path.name)


def beside(path: Path, folder: Path) -> Path:
    """A copy of a CSV file, packed or not, in a folder."""
    packed, copy = path.with_name(f"{path.name}.gz"), folder / path.name
    copy.write_bytes(gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes())
    return copy


@pytest.fixture
def _undrawn(monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)


@pytest.mark.usefixtures("_undrawn")
@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_tables_are_of_the_rows_beside_them(study, tmp_path):
    copy = beside(RESULTS / f"{study.name}.csv", tmp_path)
    assert tuple(read(copy)[0]) == study.header
    study.report(copy)
    assert copy.with_suffix(".md").read_text() == unmarked((RESULTS / f"{study.name}.md").read_text())


@pytest.mark.usefixtures("_undrawn")
@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in (RESULTS / "batch").glob("*.csv*")))
def test_tables_of_batches_are_of_the_rows_beside_them(name, tmp_path):
    copy = beside(RESULTS / "batch" / f"{name}.csv", tmp_path)
    assert tuple(read(copy)[0]) == (*KEY, *batch.COLUMNS)
    batch.write(copy)
    assert copy.with_suffix(".md").read_text() == unmarked((RESULTS / "batch" / f"{name}.md").read_text())


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_numbers_of_reports_have_nine_digits(path):
    report = json.loads(path.read_text())
    assert shortened(report) == report


def test_the_table_of_arms_is_of_the_report_beside_it_and_results_stay_small():
    wanted = json.loads((RESULTS / "bandit.json").read_text())
    assert figure2.table(wanted) == unmarked((RESULTS / "bandit.md").read_text())
    assert sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()) < 2e6


def test_what_is_committed_is_not_done_again(tmp_path):
    """All of the regrets are there, those of strategies that plan with the capital too."""
    jobs = regret.STUDY.jobs(seeds=range(10))
    apart = [job.capitals for job in jobs if job[:3] in (("Currin", "MF-NAIVE", 0), ("Hartmann3", "MF-NAIVE", 0))]
    assert apart == [(15,), (20,), (30,), (50,), (100,), (15, 20, 30, 50, 100)]
    copy = beside(RESULTS / "regret.csv", tmp_path)
    before = copy.read_bytes()
    assert measure(jobs, pytest.fail, copy, regret.STUDY.header) == 0
    assert copy.read_bytes() == before


def test_the_report_of_averages_says_where_a_baseline_is_better(tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(indirect.STUDY.header)
        for label, level in (("CMES", 0.2), ("MES", 0.1), ("UCB", 0.21)):
            for seed in range(3):
                for capital in (10, 30, 100):
                    value = level + 0.01 * seed
                    writer.writerow(("fixed linear", label, seed, capital, value, value, capital, 1.0))
    found = report.collect(path)
    assert standard_error(found["fixed linear", "CMES", "simple", 10.0]) == pytest.approx(0.01 / 3**0.5)
    wrong = report.exceptions(found)
    assert len(wrong) == 6
    assert all("MES 0.1100" in line for line in wrong)
    text = report.table(found)
    assert "| MES | 3 | **0.1100 ± 0.0058**" in text
    assert "| CMES | 3 | 0.2100 ± 0.0058" in text
    assert report.picture(found).axes


def test_a_run_that_takes_too_long_ends_and_one_that_somebody_stops_is_another():
    with cut_after(1e-4), pytest.raises(KeyboardInterrupt):
        all(True for _ in count())
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), cut_after(1), suppress(KeyboardInterrupt):  # as the runner does
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before
