"""A long run: 10,000 observations, what deciding costs as they come, and what memory and disk are used.

    python -m benchmarks.soak [--observations 10000] [--most 10000] [--results FILE]

First a whole run of Hartmann-3D with random search, journal included: resident memory, bytes of the journal and
seconds an evaluation, taken after every tenth part. Then MFGPUCB on histories of growing size, nine of ten
observations at the cheapest fidelity: seconds of a decision between two fits (with the factor extended by an
observation) and of one that fits, median of three each, and the fitted exponents. One thread.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median

import torch

from mfbo_torch.history import History, Query
from mfbo_torch.journal import Journal
from mfbo_torch.problems import Hartmann3
from mfbo_torch.runner import run
from mfbo_torch.strategies import MFGPUCB, RandomSearch
from mfbo_torch.strategies._gp import refit_step
from mfbo_torch.strategies.design import sobol

SIZES = (250, 500, 1000, 2000, 4000, 8000, 10_000)
REPEATS = 3


def resident() -> float:
    """Megabytes in memory at present."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def long_run(observations: int) -> list[dict[str, float]]:
    """Go on with one run, part after part."""
    problem, rows = Hartmann3(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        for part in range(1, 11):
            count, started = observations * part // 10, time.perf_counter()
            with Journal(path) as journal:
                run(problem, RandomSearch(), count * problem.space.costs[-1], journal=journal, progress=False)
            seconds = time.perf_counter() - started
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            rows.append(
                {
                    "observations": count,
                    "resident_mb": round(resident(), 1),
                    "journal_mb": round(size / 2**20, 2),
                    "ms_an_evaluation": round(1e4 * seconds / observations, 3),
                }
            )
            print(rows[-1], flush=True)
    return rows


def history(size: int) -> History:
    """A history of ``size`` nested Sobol designs, 90 / 8 / 2 % of them at the three fidelities."""
    problem, grown = Hartmann3(), History()
    U = sobol(3, size, 0)
    for i in range(size):
        m = 2 if i % 50 == 0 else 1 if i % 12 == 1 else 0
        grown = observed(grown, Query(tuple(U[i].tolist()), m, {"stage": "model"}), problem)
    return grown


def observed(past: History, query: Query, problem: Hartmann3) -> History:
    """The history with one more value."""
    past = past.asked(query, problem.space.costs[query.fidelity])
    return past.updated(past.records[-1].done(problem.reward(query.x, query.fidelity)))


def decisions(size: int, past: History) -> dict[str, float]:
    """Seconds of deciding with ``size`` observations."""
    problem, fits, between = Hartmann3(), [], []
    for _ in range(REPEATS):
        strategy, grown = MFGPUCB(space=problem.space), past
        first = timed_ask(strategy, grown)
        for _ in range(2):
            grown = observed(grown, Query(tuple(torch.rand(3).tolist()), 0, {"stage": "model"}), problem)
            last = timed_ask(strategy, grown)
        fits.append(first)
        between.append(last)
    fit, warm = median(fits), median(between)
    row = {"observations": size, "with_fit": fit, "between": warm, "mean": warm + (fit - warm) / refit_step(size, 25)}
    print({key: round(value, 4) for key, value in row.items()}, f"{resident():.0f} MB", flush=True)
    return row | {"peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def timed_ask(strategy: MFGPUCB, past: History) -> float:
    """Seconds of one decision."""
    started = time.perf_counter()
    strategy.ask(past)
    return time.perf_counter() - started


def exponent(rows: list[dict[str, float]], key: str) -> float:
    """Slope of the logarithms over the sizes from 1,000 on."""
    large = [row for row in rows if row["observations"] >= 1000]
    x = torch.tensor([math.log(row["observations"]) for row in large])
    y = torch.tensor([math.log(row[key]) for row in large])
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observations", type=int, default=10_000)
    parser.add_argument("--most", type=int, default=10_000)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "soak.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    report = {"run": long_run(options.observations)}
    sizes = [size for size in SIZES if size <= options.most]
    whole = history(sizes[-1])
    rows = [decisions(size, History(whole.records[:size])) for size in sizes]
    exponents = {key: round(exponent(rows, key), 2) for key in ("between", "with_fit", "mean")}
    print("exponents from 1,000 on", exponents)
    report |= {"decisions": rows, "exponents": exponents, "torch": torch.__version__, "machine": platform.machine()}
    options.results.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
