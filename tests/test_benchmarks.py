"""Every benchmark once, at a size that takes no time: it ends well, leaves its files and says how they were made."""

from __future__ import annotations

import json
import logging
import shlex
import signal
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import benchmarks
from benchmarks.bandit import figure2, speed
from benchmarks.batch import report as batch
from benchmarks.common import RESULTS, about, cut_after
from benchmarks.indirect import fields, pictures
from benchmarks.indirect import report as indirect
from benchmarks.ops.cases import TINY, Case
from benchmarks.ops.run import named
from benchmarks.real import report as real
from benchmarks.regret import report as regret
from benchmarks.regret import run as regret_run
from benchmarks.runs import measure
from mfbo_torch.problems import SVM
from mfbo_torch.strategies import GPUCB, RandomSearch

pytestmark = pytest.mark.filterwarnings("ignore")
MACHINE = named(about()["machine"])
SAID = {"mfbo-torch", "torch", "botorch", "gpytorch", "python", "platform", "processor", "threads", "commit", "date"}


def ops_report(folder: Path, printed: str) -> None:
    report = json.loads((folder / f"{MACHINE}.json").read_text())
    assert "ceilings" in report
    *measured, elsewhere = report["rows"]
    assert elsewhere["error"] == "unmeasured: needs cuda"
    for row in measured:
        assert row["ours"]["q10"] <= row["ours"]["median"] <= row["ours"]["q90"]
        assert row["percent_of_product"] > 0
        assert ("ratio" in row) == ("peer" in row)
    assert all(case.name in printed for case in TINY)
    assert "time against m: ours ~ m^" in printed


def greedy_report(folder: Path, printed: str) -> None:
    report = json.loads((folder / "greedy.json").read_text())
    assert report["batch"]["same_picks"]
    assert set(report["batch"]["ratio"]) == {"whole", "botorch", "paper", "paper_bounded"}
    assert report["large"]["peak_bytes"] > 0
    assert report["rounds"]["t"] == [10, 15, 20]
    assert "of the variances or more" in printed


def bandit_report(folder: Path, printed: str) -> None:
    assert len((folder / "bandit-regret.csv").read_text().splitlines()) == 1 + 4 * figure2.POINTS
    assert json.loads((folder / "bandit.json").read_text())["trials"] == 2
    assert "| 3 | MF-UCB |" in printed


def speed_report(folder: Path, printed: str) -> None:
    report = json.loads((folder / "bandit-speed.json").read_text())
    assert report["by_arms"]["5"].keys() == {"simulator", "strategy", "loop"}


def faults_report(folder: Path, printed: str) -> None:
    header, row = (line.split(",") for line in (folder / "faults.csv").read_text().splitlines())
    counts = dict(zip(header, row, strict=True))
    wanted = {"exits_with_0": 2, "timeouts": 1, "import_exits": 0, "locks_held": 1, "values": 2}
    assert {name: int(counts[name]) for name in wanted} == wanted


class Smoke(NamedTuple):
    """A benchmark at a small size.

    Attributes:
        commands: What is typed after ``python -m benchmarks.``, one after another.
        files: What must be there then, and nothing else.
        constants: Names in a command's module that are made small.
        more: Further arguments of ``main``.
        check: Looks at the folder and at what was printed.
    """

    commands: tuple[str, ...]
    files: str
    constants: dict[str, Any] = {}  # noqa: RUF012
    more: tuple[Any, ...] = ()
    check: Callable[[Path, str], None] = lambda folder, printed: None


def torment(kind: str, path: Path, evaluations: int, seed: int) -> tuple[int, int]:
    """A driver in this process that nobody kills."""
    import_module("benchmarks.faults").drive(kind, path, evaluations, seed)
    return 0, 0


THREADS = f"--threads {torch.get_num_threads()}"
LAST_CASE = Case("posterior", 5, 3, devices=("cuda",))
GROWTH = {"m": [Case("posterior", 9, m, 2) for m in (4, 40)], "n": [Case("posterior", n, 9, 2) for n in (4, 16)]}
SMOKE = {
    "ops": Smoke(
        (f"ops.run --device cpu --rounds 2 --span 0 --ceiling 32 {THREADS}",),
        f"{MACHINE}.json {MACHINE}.png",
        more=([*TINY, LAST_CASE], GROWTH),
        check=ops_report,
    ),
    "continuing": Smoke(
        ("continuing.run --workers 1 --seeds 1",),
        "continuing.csv continuing.about.json continuing.md",
        {"EPOCHS": (1, 2, 3), "CAPITALS": (12,)},
    ),
    "limits": Smoke(
        ("limits --seeds 1 --evaluations 30 --limit 12",),
        "limits.csv limits.about.json",
        {"PROBLEMS": {"Currin": 1}},
    ),
    "searches": Smoke(
        ("doors.searches --workers 1 --seeds 1 --cases 'kernel ridge, diabetes'",),
        "doors-searches.csv doors-searches.about.json",
        {"BUDGET": 1},
    ),
    "samplers": Smoke(
        ("doors.samplers --workers 1 --seeds 1 --functions mixed --methods Sampler TPESampler",),
        "doors-samplers.csv doors-samplers.about.json",
        {"TRIALS": (3,)},
    ),
    "greedy": Smoke(
        (f"greedy.run --rounds 1 {THREADS}",),
        "greedy.json greedy.png",
        more=(Case("greedy", 7, 40, 2, q=3), Case("greedy", 9, 60, 2, q=4), (300, 2, 5, 20)),
        check=greedy_report,
    ),
    "regret": Smoke(
        ("regret.run --strategies Random --problems Currin --seeds 2 --largest 20 --workers 1", "regret.report"),
        "regret.csv regret.about.json regret.md regret.png regret-average.png",
    ),
    "real": Smoke(
        ("real.run --strategies DiRect GP-UCB --problems digits --seeds 2", "real.report"),
        "real.csv real.about.json real.md real.png",
        {"PROBLEMS": {"digits": lambda: SVM(sizes=(100, 150))}, "CAPITALS": (2, 3)},
    ),
    "robust": Smoke(
        ("robust.run --problems forrester park --methods Random --seeds 2", "robust.report --held-out"),
        "robust.csv robust.about.json robust.md robust.png robust-profile.png",
    ),
    "stopping": Smoke(
        ("stopping --problems Currin --seeds 1 --capital 6",),
        "stopping.csv stopping.about.json stopping.md",
        {"MFGPUCB": GPUCB, "GAINS": (0.5,), "NAMES": ("--stop-at, 1% off", "--stop-gain 0.5")},
    ),
    "batch": Smoke(
        ("batch.run {folder}/small.yaml --workers 1", "batch.report small"),
        "small.yaml batch/small.csv batch/small.about.json batch/small.md batch/small.png",
    ),
    "indirect": Smoke(
        ("indirect.run --settings 'tree linear' --strategies CMETS --seeds 1", "indirect.report"),
        "indirect.csv indirect.about.json indirect.md indirect.png",
        {"CAPITALS": {"fixed": (1,), "tree": (0.5, 3.5)}},
    ),
    "indirect fields": Smoke(
        ("indirect.fields --settings satellite 'even queries' --strategies UCB --seeds 1",),
        "indirect-fields.csv indirect-fields.about.json indirect-fields.md",
        {"CAPITALS": {"satellite": (16,), "shifted peak": (4,)}, "COUNTS": (5,)},
    ),
    "indirect pictures": Smoke(
        ("indirect.pictures --share 0.1",),
        "indirect-shifted-peak.png indirect-tree.png",
        {"RUNS": {name: pictures.RUNS[name] for name in ("shifted-peak", "tree")}},
    ),
    "indirect scaling": Smoke(
        ("indirect.scaling --threads 1 --samples 30 60 --observed 5 8 --queries 10 --repeats 1",),
        "indirect-scaling.json",
        {"ACCURACY": 20},
    ),
    "bandit": Smoke(
        ("bandit.figure2 --trials 2 --problems 3 --share 0.01",),
        "bandit.md bandit.json bandit-regret.csv bandit-regret.png bandit-plays.png bandit-bounds.png",
        check=bandit_report,
    ),
    "bandit speed": Smoke(
        ("bandit.speed --arms 5 --trials 2 --capital 60",),
        "bandit-speed.json bandit-speed.png",
        {"SyntheticBandit": lambda number: speed.bernoulli(12)},
        check=speed_report,
    ),
    "figures": Smoke(("figures --share 0.1",), "illustration-8.png queries-by-value.png", {"STEPS": (8,)}),
    "decision time": Smoke(
        ("decision_time --observations 12 --repeats 1 --sizes 12",),
        "decision_time.json",
        {"AHEAD": 1, "MFGIBBON": RandomSearch},  # the peer takes seconds a decision
    ),
    "soak": Smoke(
        (
            "soak --parts run decisions --observations 20 --most 24",
            "soak --parts dask --observations 20 --workers 1",
        ),
        "soak.json",
        {"SIZES": (12, 24), "LARGE": 1, "REPEATS": 1},
    ),
    "workers": Smoke(
        ("workers",),
        "workers.json",
        {"WORKERS": 1, "SHORTEST": 0.02, "LONGEST": 0.04, "LOADED": 0.01, "EVALUATIONS": 5}
        | {"BUSY": (("RandomSearch", 8),), "KINDS": ((None, 1),)},
    ),
    "faults": Smoke(
        ("faults --seed 39 --evaluations 6",),
        "faults.csv faults.about.json",
        {"WORKERS": 1, "TIMEOUT": 0.5, "torment": torment},
        check=faults_report,
    ),
    "ax overhead": Smoke(("ax_overhead --trials 3",), "ax_overhead.json"),
}
BATCH = json.dumps(
    {
        "problems": {"small": {"class_path": "Currin", "capital": 300}},
        "strategies": {"Random": {"class_path": "RandomSearch", "workers": 10}},
        "trials": 2,
        "every": 10,
    }
)


@pytest.fixture
def _undone():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("_undone")
@pytest.mark.parametrize("name", SMOKE)
def test_smoke(name, tmp_path, monkeypatch, capsys):
    smoke = SMOKE[name]
    if name.startswith("ax"):
        pytest.importorskip("ax")
    if name == "batch":
        (tmp_path / "small.yaml").write_text(BATCH)
    for command in smoke.commands:
        module, *arguments = shlex.split(command.format(folder=tmp_path))
        module = import_module(f"benchmarks.{module}")
        for constant, value in smoke.constants.items():
            monkeypatch.setattr(module, constant, value)
        assert not module.main([*arguments, "--results", str(tmp_path)], *smoke.more)
    found = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*") if path.is_file()}
    assert set(found) == set(smoke.files.split())
    for file, path in found.items():
        if path.suffix == ".png":
            assert path.stat().st_size > 1000
        if path.suffix == ".json":
            report = json.loads(path.read_text())
            said = report if isinstance(report, list) else [report["about"]]
            if name == "soak":
                said = said[0].values()
            assert all(set(one) >= SAID for one in said), file
    smoke.check(tmp_path, capsys.readouterr().out)


ELSEWHERE = {
    *("bit_flips", "fuzz", "constrained.run", "continuous.run", "continuous.dragonfly_child"),
    *("mixed.run", "mixed.decision", "robust.calibration", "gpu", "indirect.ablation"),
    *("robustness.equal_histories", "robustness.paths"),
}
"""What the tests of its own subject try: attacks, constraints, intervals, choices, robustness, averages, kernels."""


def test_every_benchmark_is_there():
    """In the table above, and on the page that lists them."""
    folder = Path(benchmarks.__file__).parent
    files = [path.relative_to(folder) for path in folder.rglob("*.py") if "def main(" in path.read_text()]
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__main__") for file in files}
    assert modules == ELSEWHERE | {command.split()[0] for smoke in SMOKE.values() for command in smoke.commands}
    assert all(f"benchmarks.{module}" in (benchmarks.__doc__ or "") for module in modules)


@pytest.mark.parametrize("path", sorted((RESULTS / "batch").glob("*.csv")), ids=lambda path: path.stem)
def test_tables_of_batches_are_of_the_rows_beside_them(path):
    runs = batch.collect(path)
    worker = all("worker" in label for _, label in runs)
    lines = [f"# {path.stem}", "", *(batch.worker_table if worker else batch.batch_table)(runs)]
    assert "\n".join(lines).rstrip() + "\n" == path.with_suffix(".md").read_text()


def test_tables_are_of_the_rows_beside_them():
    path = RESULTS / "regret.csv"
    assert regret.table(regret.collect(path)) == path.with_suffix(".md").read_text()
    path = RESULTS / "indirect.csv"
    assert indirect.table(indirect.collect(path)) == path.with_suffix(".md").read_text()
    path = RESULTS / "real.csv"
    assert real.table(real.collect(path)) == path.with_suffix(".md").read_text()
    path = RESULTS / fields.FILE
    assert fields.table(path) == path.with_suffix(".md").read_text()
    wanted = json.loads((RESULTS / "bandit.json").read_text())
    assert figure2.table(wanted) == (RESULTS / "bandit.md").read_text()


def test_what_is_committed_is_not_done_again(tmp_path):
    """All of the regrets are there, those of strategies that plan with the capital too."""
    jobs = regret_run.jobs(list(regret_run.ENTRIES), regret_run.PROBLEMS, 10, 100)
    apart = [job.capitals for job in jobs if job[:3] in (("Currin", "MF-NAIVE", 0), ("Hartmann3", "MF-NAIVE", 0))]
    assert apart == [(15,), (20,), (30,), (15, 20, 30)]
    path = tmp_path / "regret.csv"
    path.write_bytes((RESULTS / "regret.csv").read_bytes())
    assert measure(jobs, pytest.fail, path, regret_run.COLUMNS, key=4) == 0
    assert path.read_bytes() == (RESULTS / "regret.csv").read_bytes()


def test_a_run_that_takes_too_long_ends():
    with cut_after(1e-4), pytest.raises(KeyboardInterrupt):
        all(True for _ in count())


def test_a_run_that_somebody_stops_is_not_one_that_took_too_long():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), cut_after(1), suppress(KeyboardInterrupt):  # as the runner does
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before
