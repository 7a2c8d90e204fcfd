"""Every benchmark once, at a size that takes no time: it ends well, leaves its files and says how they were made."""

import json
import logging
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import benchmarks
from benchmarks.common import about
from benchmarks.quality.bandit import figure2
from benchmarks.quality.mixed import TUNINGS
from benchmarks.speed import bandit
from benchmarks.speed.ops.cases import TINY, Case
from benchmarks.speed.ops.run import named
from mfbo_torch.problems import SVM
from mfbo_torch.strategies import GPUCB, RandomSearch
from mfbo_torch.strategies.common import subsample

pytestmark = pytest.mark.filterwarnings("ignore")
MACHINE = named(about()["machine"])
SAID = {"mfbo-torch", "torch", "botorch", "gpytorch", "python", "platform", "processor", "threads", "commit", "date"}


def ops_report(folder: Path, printed: str) -> None:
    report = json.loads((folder / f"{MACHINE}.json").read_text())
    assert "ceilings" in report
    for row in report["rows"]:
        assert row["ours"]["q10"] <= row["ours"]["median"] <= row["ours"]["q90"]
        assert row["percent_of_product"] > 0
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


def faults_report(folder: Path, printed: str) -> None:
    header, row = (line.split(",") for line in (folder / "faults.csv").read_text().splitlines())
    counts = dict(zip(header, row, strict=True))
    wanted = {"exits_with_0": 2, "timeouts": 1, "import_exits": 0, "locks_held": 1, "values": 2}
    assert {name: int(counts[name]) for name in wanted} == wanted


def limits_report(folder: Path, printed: str) -> None:
    assert (folder / "limits.csv").read_text().count("Currin") == 2
    assert subsample.MOST == 1000


class Smoke(NamedTuple):
    """What is typed after ``python -m benchmarks.``, and the files that are there then, and nothing else.

    Of a study: the name that ``.csv`` and ``.about.json`` are put behind, and what else is put behind it.
    ``study`` and ``constants`` are fields of the study and names in the module that are made small, ``more`` further
    arguments of ``main``; ``check`` looks at the folder and at what was printed.
    """

    command: str
    files: str
    study: dict[str, Any] = {}  # noqa: RUF012
    constants: dict[str, Any] = {}  # noqa: RUF012
    more: tuple[Any, ...] = ()
    check: Callable[[Path, str], None] = lambda folder, printed: None


def torment(kind: str, path: Path, evaluations: int, seed: int) -> tuple[int, int]:
    """A driver in this process that nobody kills."""
    import_module("benchmarks.robustness.faults").drive(kind, path, evaluations, seed)
    return 0, 0


class Quick(TUNINGS["trees"]):
    """A tuning that is not trained."""

    def evaluate(self, x, fidelity):
        return float(fidelity - x[0])


THREADS = f"--threads {torch.get_num_threads()}"
GROWTH = {"m": [Case("posterior", 9, m, 2) for m in (4, 40)], "n": [Case("posterior", n, 9, 2) for n in (4, 16)]}
DIGITS = {"PROBLEMS": {"digits": lambda: SVM(sizes=(100, 150))}, "CAPITALS": (2, 3)}
FIGURES = "illustration-8.png queries-by-value.png indirect-shifted-peak.png theorem-bounds.png quickstart.png"
SMALL_TREE = {"fixed": (1,), "tree": (0.5, 3.5)}
GREEDY = (Case("greedy", 7, 40, 2, q=3), Case("greedy", 9, 60, 2, q=4), (300, 2, 5, 20))
RANDOM = {"random": lambda seed: RandomSearch(seed=seed)}
THREE = {"capitals": (3,)}
STOPPING = {"MFGPUCB": GPUCB, "GAINS": (0.5,)}
RULES = dict.fromkeys(("--stop-at, 1% off", "--stop-gain 0.5"))
AHEAD = {"AHEAD": 1}
DECISION = {**AHEAD, "MFGIBBON": RandomSearch}  # the peer takes seconds a decision
WORKERS = {"WORKERS": 1, "SHORTEST": 0.02, "LONGEST": 0.04, "LOADED": 0.01, "EVALUATIONS": 5}
WORKERS |= {"BUSY": (("RandomSearch", 8),), "KINDS": ((None, 1),)}
SMOKE = [
    Smoke("quality.continuing --seeds 1", "continuing .md", {"capitals": (12,)}, {"EPOCHS": (1, 2, 3)}),
    Smoke(
        "quality.trainings.run --seeds 1 --problems deep-wine --methods FreezeThaw 'TPE + halving' --capital 3",
        "trainings .md",
    ),
    Smoke(
        "quality.trainings.trained --seeds 1 --problems deep-wine --methods FreezeThaw random --capital 3",
        "trainings-trained .md",
    ),
    Smoke("quality.trainings.table --problems deep-wine --workers 1", "curves.npz", constants={"DESIGNS": 3}),
    Smoke("quality.limits --seeds 1 --problems Currin --methods 100 0 --capital 20", "limits", check=limits_report),
    Smoke("quality.searches --seeds 1 --problems 'kernel ridge, diabetes'", "doors-searches", {"capitals": (1,)}),
    Smoke("quality.samplers --seeds 1 --problems mixed --methods Sampler TPESampler", "doors-samplers", THREE),
    Smoke("quality.regret --methods Random --problems Currin --seeds 2 --capital 20", "regret .md .png -average.png"),
    Smoke("quality.real --methods DiRect GP-UCB --seeds 2", "real .md .png", {"problems": DIGITS["PROBLEMS"]}, DIGITS),
    Smoke(
        "quality.robust.run --problems forrester park --methods Random --seeds 2 --held-out", "robust .md -profile.png"
    ),
    Smoke(
        "quality.fidelity_map --problems 'correlation 0 2' --methods EI MFGPUCB --seeds 1",
        "fidelity_map .md .png",
        {"capitals": (3, 4, 5)},
    ),
    Smoke(
        "quality.robust.ablation --problems forrester --seeds 1 --methods default 'target only'",
        "hedge-ablation .md",
        {"capitals": (3, 4)},
    ),
    Smoke("quality.robust.calibration --problems forrester --seeds 1", "calibration .md", {"capitals": (3, 5)}),
    Smoke("quality.stopping --problems Currin --seeds 1 --capital 6", "stopping .md", {"methods": RULES}, STOPPING),
    Smoke(
        "quality.continuous --seeds 2 --methods 'LogEI, target alone' --problems ContinuousCurrin",
        "continuous .md",
        {"capitals": (2, 3)},
    ),
    Smoke(
        "quality.constrained --seeds 1 --problems ConstrainedHartmann --methods random",
        "constrained",
        {"methods": RANDOM},
    ),
    Smoke(
        "quality.objectives.run --problems BraninCurrin --methods Sobol TPE --seeds 1",
        "objectives .md",
        {"capitals": (2, 3)},
        {"CAPITALS": (2, 3)},
    ),
    Smoke(
        "speed.objectives --observations 12 --repeats 1",
        "objectives_decision.json",
        constants={"looking_ahead": lambda *given: None},
    ),
    Smoke(
        "quality.mixed --problems trees --methods Random OptunaTPE SMACMultiFidelity --seeds 1",
        "mixed .md",
        {"problems": {"trees": Quick}, "capitals": (1, 4)},
    ),
    Smoke(
        "quality.indirect.run --problems 'tree linear' --methods CMETS --seeds 1",
        "indirect .md .png",
        constants={"CAPITALS": SMALL_TREE},
    ),
    Smoke(
        "quality.indirect.fields --problems satellite 'even queries' --methods UCB 'windows of 0.6' --seeds 1",
        "indirect-fields .md",
        constants={"CAPITALS": {"satellite": (16,), "even queries": (5,)}},
    ),
    Smoke(
        "quality.indirect.batches --seeds 1 --problems 'fixed linear' 'tree linear' --methods 'MES, 4 at a time' CMETS",
        "indirect-batches .md",
        constants={"CAPITALS": {"fixed": (5,), "tree": (7.0,)}},
    ),
    Smoke(
        "quality.indirect.ablation --seeds 2 --methods 'CMES, maximum of g'",
        "indirect-ablation .md",
        {"capitals": (1, 2)},
    ),
    Smoke(
        "robustness.faults --seed 39 --evaluations 6",
        "faults",
        constants={"WORKERS": 1, "TIMEOUT": 0.5, "torment": torment},
        check=faults_report,
    ),
    Smoke(
        f"speed.ops.run --rounds 2 --span 0 --ceiling 32 {THREADS}",
        f"{MACHINE}.json",
        more=(TINY, GROWTH),
        check=ops_report,
    ),
    Smoke("speed.ops.parts --rounds 2", "acquisition_parts.json"),
    Smoke(f"speed.greedy --rounds 1 {THREADS}", "greedy.json", more=GREEDY, check=greedy_report),
    Smoke("quality.batch.run {folder}/small.yaml", "small.yaml batch/small.csv batch/small.about.json batch/small.md"),
    Smoke(
        "quality.bandit.figure2 --trials 2 --problems 3 --share 0.01",
        "bandit.md bandit.json bandit-regret.csv bandit-regret.png bandit-plays.png bandit-bounds.png",
        check=bandit_report,
    ),
    Smoke(
        "speed.bandit --arms 5 --trials 2 --capital 60",
        "bandit-speed.json",
        constants={"SyntheticBandit": lambda number: bandit.bernoulli(12)},
    ),
    Smoke(
        "speed.indirect --threads 1 --samples 30 60 --observed 5 8 --queries 10 --repeats 1",
        "indirect-scaling.json",
        constants={"ACCURACY": 20},
    ),
    Smoke("speed.decision_time --observations 12 --repeats 1 --sizes 12", "decision_time.json", constants=DECISION),
    Smoke(
        "speed.mixed_decision --observations 5 --repeats 1 --strategies GPBUCB", "mixed_decision.json", constants=AHEAD
    ),
    Smoke("speed.ax_overhead --trials 3", "ax_overhead.json"),
    Smoke("speed.workers", "workers.json", constants=WORKERS),
    Smoke("robustness.bit_flips --rows 12 --every 67 --check 3", "bit_flips.json"),
    Smoke(
        "robustness.fuzz --each 12 --folders 60 --seed 3",
        "fuzz.json",
        constants={"GIBIBYTES": 8},  # a worker of tests has more
    ),
    Smoke("robustness.kills --engines processes --rounds 1", "kills.json", constants={"TROUBLES": ()}),
    Smoke("robustness.soak --observations 20 --workers 1", "soak.json"),
    Smoke(
        "robustness.width --observations 20 --batch 3",
        "width.json",
        constants={"WORKERS": (2,), "SECONDS": (1.0,), "REAL": ((0.1, 5.0),)},
    ),
    Smoke("figures --share 0.1", FIGURES, constants={"STEPS": (8,)}),
]
METHOD = {"Random": {"class_path": "RandomSearch", "workers": 10}}
CURRIN = {"small": {"class_path": "Currin", "capital": 300}}
BATCH = json.dumps({"problems": CURRIN, "strategies": METHOD, "trials": 2, "every": 10})


@pytest.fixture
def _undone():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.usefixtures("_undone")
@pytest.mark.parametrize("smoke", SMOKE, ids=lambda smoke: smoke.command.split()[0])
def test_smoke(smoke, tmp_path, monkeypatch, capsys):
    name, *arguments = shlex.split(smoke.command.format(folder=tmp_path))
    if "ax" in name:
        pytest.importorskip("ax")
    if "small.yaml" in smoke.files:
        (tmp_path / "small.yaml").write_text(BATCH)
    module = import_module(f"benchmarks.{name}{'.__main__' * (name == 'figures')}")
    for constant, value in smoke.constants.items():
        monkeypatch.setattr(module, constant, value)
    if smoke.study:
        monkeypatch.setattr(module, "STUDY", replace(module.STUDY, **smoke.study))
    study = getattr(module, "STUDY", None)
    main = module.main if hasattr(module, "main") else partial(study.main, module.__doc__)
    for _ in range(2 if study else 1):  # the second time a study finds everything done
        assert not main([*arguments, "--results", str(tmp_path)], *smoke.more)
    found = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*") if path.is_file()}
    first, *others = smoke.files.split()
    studied = "." not in first
    assert set(found) == ({first + end for end in (".csv", ".about.json", *others)} if studied else {first, *others})
    for file, path in found.items():
        if path.suffix == ".png":
            assert path.stat().st_size > 1000
        if path.suffix == ".json":
            report = json.loads(path.read_text())
            said = report if isinstance(report, list) else [report["about"]]
            if file in ("soak.json", "width.json"):
                said = list(said[0].values())
            assert all(set(one) >= SAID for one in said), file
            assert not isinstance(report, list) or len(report) == 1, file
    smoke.check(tmp_path, capsys.readouterr().out)


def test_every_benchmark_is_there():
    """In the table above, and on the page that lists them."""
    folder = Path(benchmarks.__file__).parent
    files = [path.relative_to(folder) for path in folder.rglob("*.py") if "\nif __name__ ==" in path.read_text()]
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__main__") for file in files}
    elsewhere = {"first_result", "gpu", "quality.dragonfly_child", "robustness.equal_histories", "robustness.paths"}
    assert modules == elsewhere | {smoke.command.split()[0] for smoke in SMOKE}
    assert all(f"benchmarks.{module}" in (benchmarks.__doc__ or "") for module in modules)
