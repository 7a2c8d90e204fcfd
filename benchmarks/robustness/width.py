"""Many workers: how long decisions take beside pending queries, how idle workers are, and what a long run needs.

    python -m benchmarks.robustness.width [--parts decisions scale idle] [--observations 100000] [--batch 64]

``decisions``: processor seconds of ``ask(batch)`` after batches of the same size, on Currin; one thread; and of one
decision after each new value beside so many in flight, as ``mfbo run`` makes them (``one_by_one``). ``idle``: by a
simulated clock, the part of their time in which workers wait, once all have begun. Evaluations take their median ±
50 %. The driver decides and takes in one value after another, as fast as measured, and ``ahead`` queries may wait for a
worker. ``scale``: memory, journal and processor time of observations at random designs. Writes ``width.json``.
"""

import heapq
import json
import random
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import median

from benchmarks.common import about, parser, quiet, write_json
from benchmarks.robustness.soak import resident
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.problems import Currin
from mfbo_torch.strategies import MFGPUCB, RandomSearch
from mfbo_torch.strategies.base import Strategy

WORKERS = (4, 16, 64, 256, 1000)
SECONDS = (1.0, 10.0, 60.0, 600.0)
"""Median seconds of an evaluation that are looked at."""


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


def idle(workers: int, ahead: int, deciding: float, evaluating: float, seed: int = 0) -> float:
    """The part of their time in which workers wait, from when all have begun until 40 evaluations each are decided.

    One decision is made at a time, whenever less than ``workers + ahead`` queries are pending.
    """
    draw, events = random.Random(seed), [(deciding, "decided")]
    free, queued, pending, decided = [0.0] * workers, 0, 0, 0
    began, waited, now, busy = 0.0, 0.0, 0.0, True
    while decided < 40 * workers:
        now, what = heapq.heappop(events)
        busy = busy and what != "decided"
        queued, pending, decided = (
            (queued + 1, pending + 1, decided + 1) if what == "decided" else (queued, pending - 1, decided)
        )
        if what == "ended":
            free.append(now)
        while queued and free:
            queued, since = queued - 1, free.pop(0)
            waited += max(0.0, now - max(since, began)) if decided > workers else 0.0
            heapq.heappush(events, (now + evaluating * draw.uniform(0.5, 1.5), "ended"))
        if decided == workers and what == "decided":
            began = now
        if not busy and pending < workers + ahead:
            busy = True
            heapq.heappush(events, (now + deciding, "decided"))
    waited += sum(now - max(since, began) for since in free)
    return waited / (workers * (now - began))


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
    made = parser(__doc__, parts=("decisions", "scale", "idle"), observations=100_000, batch=64)
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
            batched = median(row["seconds_a_query"] for row in batches[-2:])
            for how, deciding in (("batches", batched), ("one by one", report["one_by_one"][name])):
                for workers, evaluating in product(WORKERS, SECONDS):
                    aside = {a: idle(workers, a, deciding + taking_in, evaluating) for a in (0, workers // 8)}
                    found = {f"ahead_{a}": round(share, 4) for a, share in aside.items()}
                    of = {"strategy": name, "asked": how, "workers": workers, "evaluation_seconds": evaluating}
                    rows.append(of | found)
                    print(rows[-1], flush=True)
        report["idle"] = rows
    write_json(path, report)


if __name__ == "__main__":
    main()
