"""Many workers: how long decisions take beside pending queries, how idle workers are, and what a long run needs.

    python -m benchmarks.robustness.width [--parts decisions scale idle real] [--observations 100000] [--batch 64]

``decisions``: processor seconds of ``ask(batch)`` after batches of the same size, on Currin; one thread; and of one
decision after each new value beside so many in flight (``one_by_one``). ``idle``: by a simulated clock, the part of
their time in which workers wait, once all have begun. Evaluations take their median ± 50 %. The driver decides and
takes in one value after another, as fast as measured: one by one, in batches, or ahead as ``mfbo run`` does. ``real``:
the same of a run on this machine whose workers, ``batch`` threads, sleep, once the first evaluations have ended.
``scale``: memory, journal and processor time of observations at random designs. Writes ``width.json``.
"""

import heapq
import json
import random
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import median

from benchmarks.common import about, parser, quiet, write_json
from benchmarks.robustness.soak import resident
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.executors.lookahead import FITS, PARTS, depth, due
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import Currin
from mfbo_torch.strategies import MFGPUCB, RandomSearch
from mfbo_torch.strategies.base import Strategy

WORKERS = (4, 16, 64, 256, 1000)
SECONDS = (1.0, 10.0, 60.0, 600.0)
"""Median seconds of an evaluation that are looked at."""
REAL = ((1.0, 20.0), (1.0, 5.0), (10.0, 20.0))
"""Those of runs on this machine, and their capital for each evaluation, of which the target's cost 10: with 20 the time
ends a run, with 5 the capital, whose last part waits for values."""
EVALUATIONS = 12
"""For how many evaluations of each worker these have time."""


def decisions(strategy: Strategy, batch: int, rounds: int) -> list[dict[str, float]]:
    """Each batch: its processor seconds a query, the queries so far, and how many are at the target."""
    problem, rows = Currin(), []
    optimizer = Optimizer(strategy.bind(problem.space, 2.0 * rounds * batch * problem.space.costs[-1]))
    for _ in range(rounds):
        began, seen = time.process_time(), len(optimizer.history)
        asked = optimizer.ask(batch)
        taken = (time.process_time() - began) / batch
        exact = sum(record.query.fidelity == problem.space.target for record in asked)
        rows.append({"observations": seen, "seconds_a_query": round(taken, 5), "at_target": exact})
        print(type(strategy).__name__, rows[-1], flush=True)
        for record in asked:
            optimizer.tell(record.id, problem.reward(record.query.x, record.query.fidelity))
    return rows


def one_by_one(strategy: Strategy, batch: int, rounds: int) -> float:
    """The median processor seconds of a decision after one more value, ``batch - 1`` others in flight."""
    problem, taken = Currin(), list[float]()
    optimizer = Optimizer(strategy.bind(problem.space, 2.0 * rounds * batch * problem.space.costs[-1]))
    flying = optimizer.ask(batch)
    for count in range(2 * batch + 24):
        record = flying.pop(0)
        optimizer.tell(record.id, problem.reward(record.query.x, record.query.fidelity))
        if count < 2 * batch and len(flying):
            continue
        began = time.process_time()
        flying += optimizer.ask(1 if flying else batch)
        taken += [time.process_time() - began] if count >= 2 * batch else []
    return median(taken)


def idle(workers: int, deciding: Callable[[int], float], evaluating: float, ahead: bool, seed: int = 0) -> float:
    """The part of their time in which workers wait, from when all have begun until 40 evaluations each have.

    Args:
        workers: How many there are.
        deciding: The seconds of a decision about some queries.
        evaluating: The median seconds of an evaluation.
        ahead: Whether queries are decided ahead as ``mfbo run`` does; else one whenever a worker is free.
        seed: Of the evaluations' times.
    """
    draw, slowest = random.Random(seed), deque([deciding(1)], maxlen=FITS)
    events, free, left, part, kept, begun = [(slowest[0], "decided")], [0.0] * workers, 1, 1, 0, 0
    began, waited, now = 0.0, 0.0, 0.0
    while begun < 40 * workers:
        now, what = heapq.heappop(events)
        if what == "decided":
            left, kept = left - part, kept + part
        else:
            free.append(now)
        while kept and free:
            kept, begun, since = kept - 1, begun + 1, free.pop(0)
            began = now if begun == workers else began
            waited += now - max(since, began) if begun > workers else 0.0
            heapq.heappush(events, (now + evaluating * draw.uniform(0.5, 1.5), "ended"))
        several = ahead and depth(workers, max(slowest), evaluating)
        if not left and (left := due(workers, kept, max(slowest), evaluating) if several else int(bool(free))):
            slowest.append(deciding(left))
            part = max(1, left // PARTS)
            left -= left % part
            for i in range(part, left + 1, part):
                heapq.heappush(events, (now + deciding(i), "decided"))
    waited += sum(now - max(since, began) for since in free)
    return waited / (workers * (now - began))


class Sleeping(Currin):
    """Takes a second ± 50 % for each value; ``spans`` are when the evaluations began and ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.spans = seconds, list[tuple[float, float]]()

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        began = time.perf_counter()
        time.sleep(self.seconds * random.Random(repr((x, fidelity))).uniform(0.5, 1.5))
        self.spans.append((began, time.perf_counter()))
        return super().evaluate(x, fidelity)


def real(strategy: Strategy, workers: int, seconds: float, evaluations: int, capital: float) -> dict[str, float]:
    """A run with threads that sleep: the part of their time in which they wait, from when the first evaluations have
    ended until the last one begins."""
    problem = Sleeping(seconds)
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(Path(folder) / "history.sqlite") as journal,
        ThreadPoolExecutor(workers) as executor,
    ):
        given = {"executor": executor, "max_pending": None, "journal": journal, "progress": False}
        run(problem, strategy, capital * evaluations, time_limit=seconds * (1 + evaluations / workers), **given)
    spans = sorted(problem.spans)
    first, last = max(end for _, end in spans[:workers]), max(began for began, _ in spans)
    busy = sum(max(0.0, min(end, last) - max(began, first)) for began, end in spans)
    share = 1 - busy / (workers * (last - first)) if last > first else 0.0
    of = {"workers": workers, "evaluation_seconds": seconds, "capital_an_evaluation": capital}
    return of | {"evaluations": len(spans), "idle": round(share, 4)}


def scale(observations: int) -> list[dict[str, float]]:
    """One run with random designs, journal included, looked at after every fifth part."""
    problem, rows = Currin(), []
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "history.sqlite") as journal:
        optimizer = Optimizer(RandomSearch().bind(problem.space, 100.0 * observations), journal)
        for part in range(1, 6):
            began, until = time.process_time(), observations * part // 5
            while len(optimizer.history) < until:
                for record in optimizer.ask():
                    optimizer.tell(record.id, problem.reward(record.query.x, record.query.fidelity))
            taken = 5e3 * (time.process_time() - began) / observations
            size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
            rows.append({"observations": until, "ms_an_evaluation": round(taken, 3)})
            rows[-1] |= {"resident_mb": round(resident(), 1), "journal_mb": round(size, 2)}
            print(rows[-1], flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write; a part that is not measured stays as it was."""
    made = parser(__doc__, parts=("decisions", "scale", "idle", "real"), observations=100_000, batch=64)
    given = made.parse_args(arguments)
    quiet()
    path = given.results / "width.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    report["about"] = report.get("about", {}) | {part: about() for part in given.parts}
    if "decisions" in given.parts:
        strategies = {"MFGPUCB": MFGPUCB(), "RandomSearch": RandomSearch()}
        report["decisions"] = {name: decisions(one, given.batch, 4) for name, one in strategies.items()}
        seconds = {name: one_by_one(one, given.batch, 4) for name, one in strategies.items()}
        report["one_by_one"] = {name: round(value, 5) for name, value in seconds.items()}
        print(report["one_by_one"], flush=True)
    if "scale" in given.parts:
        report["scale"] = scale(given.observations)
    if "idle" in given.parts:
        rows, taking_in = [], report["scale"][-1]["ms_an_evaluation"] / 1e3
        for name, batches in report["decisions"].items():
            batched, one = median(row["seconds_a_query"] for row in batches[-2:]), report["one_by_one"][name]
            more = max(0.0, given.batch * batched - one) / max(1, given.batch - 1)
            ways = {"batches": (0.0, batched), "one by one": (0.0, one), "ahead": (max(0.0, one - more), more)}
            for (how, (first, each)), workers, evaluating in product(ways.items(), WORKERS, SECONDS):
                share = idle(workers, lambda n: first + n * (each + taking_in), evaluating, how == "ahead")  # noqa: B023
                of = {"strategy": name, "asked": how, "workers": workers, "evaluation_seconds": evaluating}
                rows.append(of | {"idle": round(share, 4)})
                print(rows[-1], flush=True)
        report["idle"] = rows
    if "real" in given.parts:
        report["real"] = []
        strategies = {"MFGPUCB": MFGPUCB(), "RandomSearch": RandomSearch()}
        for (name, strategy), (seconds, capital) in product(strategies.items(), REAL):
            row = real(strategy, given.batch, seconds, EVALUATIONS * given.batch, capital)
            report["real"].append({"strategy": name} | row)
            print(report["real"][-1], flush=True)
    write_json(path, report)


if __name__ == "__main__":
    main()
