"""The batch experiments: the simulated clock, and everything once at a small size."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from toy import Hill, Walk

from benchmarks.quality.batch import report
from benchmarks.quality.batch import run as runner
from benchmarks.quality.batch.simulate import simulate, varying
from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.history import Query, Record

CONFIGS = sorted((Path(__file__).parent.parent / "configs" / "batch").glob("*.yaml"))


def every(*seconds: float):
    """Run times in turn."""
    return lambda record: seconds[record.id % len(seconds)]


def test_one_worker_is_sequential():
    history, ended = simulate(Hill(), Walk(every=1), 50.0, 1, every(1.0, 2.0))
    assert [e.id for e in ended] == [0, 1, 2, 3, 4]
    assert [e.time for e in ended] == [1.0, 3.0, 4.0, 6.0, 7.0]
    assert [r.query.meta["pending"] for r in history] == [0] * 5


def test_asynchronous_workers_are_never_idle():
    """Run times 3, 1, 1 and two workers: the second one does two queries while the first does one."""
    history, ended = simulate(Hill(), Walk(every=1), 50.0, 2, every(3.0, 1.0, 1.0))
    assert [(e.id, e.time) for e in ended] == [(1, 1.0), (2, 2.0), (0, 3.0), (4, 4.0), (3, 5.0)]
    assert [r.query.meta["pending"] for r in history] == [0, 1, 1, 1, 1]
    assert not history.pending


def test_batches_wait_for_their_last_and_capital_ends_the_simulation():
    history, ended = simulate(Hill(), Walk(every=1), 50.0, 2, every(3.0, 1.0), asynchronous=False)
    assert [(e.id, e.time) for e in ended] == [(1, 1.0), (0, 3.0), (3, 4.0), (2, 6.0), (4, 9.0)]
    assert [r.query.meta["pending"] for r in history] == [0, 1, 0, 1, 0]
    history, _ = simulate(Hill(), Walk(every=2), 34.0, 3, every(1.0))
    assert history.spent <= 34.0
    assert len(history.done) == len(history) > 3


def test_run_times_vary_with_mean_the_cost():
    times = [varying(seed, 0.5)(Record(i, Query((0.0,), 0), 7.0)) for seed in range(40) for i in range(50)]
    assert sum(times) / len(times) == pytest.approx(7.0, rel=0.05)
    assert varying(1, 0.5)(Record(2, Query((0.0,), 0), 7.0)) == varying(1, 0.5)(Record(2, Query((0.0,), 0), 7.0))
    assert varying(1, 0.0)(Record(2, Query((0.0,), 0), 7.0)) == 7.0
    logs = [math.log(t / 7.0) for t in times]
    spread = (sum(v * v for v in logs) / len(logs) - (sum(logs) / len(logs)) ** 2) ** 0.5
    assert spread == pytest.approx(0.5, rel=0.06)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations(path):
    """Every problem and strategy can be made, and each run is told apart."""
    config = yaml.safe_load(path.read_text())
    jobs = runner.jobs(config, seeds=1)
    assert len({job[:3] for job in jobs}) == len(jobs) == len(config["problems"]) * len(config["strategies"])
    for job in jobs:
        strategy = {k: v for k, v in config["strategies"][job.method].items() if k not in ("workers", "trials")}
        problem = {k: v for k, v in config["problems"][job.problem].items() if k != "capital"}
        build(resolve_run({"problem": problem, "strategy": strategy, "capital": 1.0, "out": "nowhere"}))


PRIOR = {"prior": {"noise": 0.01}}
SMALL = {
    "problems": {"small": {"class_path": "GPSample", "init_args": {"sizes": [40], **PRIOR}, "capital": 30}},
    "draw": True,
    "strategies": {
        "GP-UCB": {"class_path": "GPBUCB", "init_args": PRIOR, "workers": 1},
        "NRB-UCB": {"class_path": "NaiveRepeat", "init_args": PRIOR, "workers": 10, "trials": 1},
    },
    "trials": 2,
    "every": 10,
}
WORKERS = {
    "problems": {"Currin": {"class_path": "Currin", "capital": 60}},
    "strategies": {f"{n} workers": {"class_path": "RandomSearch", "workers": n, "trials": 2} for n in (1, 3)},
    "asynchronous": True,
    "spread": 0.3,
    "trials": 2,
    "every": 0,
}


def test_rows_of_a_run():
    jobs = runner.jobs(SMALL)
    assert [(job.method, job.seed) for job in jobs] == [("GP-UCB", 0), ("NRB-UCB", 0), ("GP-UCB", 1)]
    rows = runner.execute(SMALL, jobs[0])
    assert [row[3] for row in rows] == [10, 20, 30]
    average, least = (float(rows[-1][i]) for i in (6, 7))
    assert 0 <= least <= average
    assert [float(row[5]) for row in rows] == [10.0, 20.0, 30.0]


def test_only_improvements_are_told():
    rows = runner.execute(WORKERS, runner.jobs(WORKERS)[1])
    least = [float(row[7]) for row in rows]
    assert all(a > b for a, b in pairwise(least[:-1]))
    assert float(rows[-1][4]) == 60.0
    assert float(rows[-1][5]) < 45.0


def test_average_after_the_first_batch():
    run = {"capital": report.np.array([10.0, 20.0]), "average": report.np.array([3.0, 2.0])}
    assert report.later_average(run) == pytest.approx(1.0)
