"""Do equal seeds give equal histories? Runs of every strategy are saved, and compared with those of changed code.

``--save FILE`` runs :data:`benchmarks.robustness.cases.CASES` and keeps each history as a list of records, its numbers
exact (``float.hex``), and at its end what the strategy recommends and predicts. ``--compare FILE`` runs what is in the
file anew and says which runs differ, from which record on and by how much; with two files nothing is run. The exit
status is 1 where any differs. Runs take one thread each; nothing that a clock tells is kept.
"""

import json
import multiprocessing
import platform
import time
import warnings
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import botorch
import scipy
import torch
from threadpoolctl import threadpool_limits

from benchmarks.robustness.cases import CASES, Case, Objective
from mfbo_torch import History, Optimizer, Record, Space, maximize, run, strategies
from mfbo_torch.problems import Problem

Row = dict[str, Any]
"""A record, or what is said at the end of a run, as JSON."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, save, compare; the exit status."""
    given = _parser().parse_args(arguments)
    old, *others = [_read(path, given.only, given.seeds) for path in given.compare or ()] or [None]
    if others:
        found = ((name, rows, 0.0) for name, rows in others[0].items())
    else:
        jobs = [job for job in _jobs(given.only, given.seeds) if old is None or _name(*job) in old]
        found = _histories(jobs, given.workers)
        if old is None and (lacking := untried()):
            print("without a run:", ", ".join(lacking))
    new, equal, started = {}, 0, time.time()
    for name, rows, seconds in found:
        new[name] = rows
        told = "" if old is None else difference(old.get(name), rows) or "equal"
        equal += told == "equal"
        print(f"{name:45s} {len(rows):4d} rows {seconds:6.1f} s  {told}", rows[-1].get("error", ""), flush=True)
        if given.save:
            content = {"about": _about(), "runs": dict(sorted(new.items()))}
            given.save.write_text(json.dumps(content, indent=0) + "\n")
    print(f"{len(new)} runs, {time.time() - started:.0f} s")
    if old is None:
        return 0
    gone = sorted(old.keys() - new.keys())
    print(*(f"{name:45s} is no longer there" for name in gone), sep="\n", end="\n" if gone else "")
    total = len(new) + len(gone)
    print(f"{equal} of {total} runs are equal")
    return int(equal < total or not total)


def untried() -> list[str]:
    """The strategies that no run tries."""
    tried = {case.strategy for case in CASES.values()}
    return sorted({*strategies.__all__} - tried - {"Strategy"})


def history_of(name: str, seed: int) -> list[Row]:
    """The rows of one run."""
    case = CASES[name]
    made = case.problem()
    space, objective = (made.space, made.observe) if isinstance(made, Problem) else made
    strategy, capital = case.made(seed, space), case.capital * space.costs[-1]
    if isinstance(made, Problem):
        made.trial = seed
    if isinstance(made, Problem) and case.pending == 1:
        history = run(made, strategy, capital, progress=False)
    elif case.maximize:
        history = maximize(objective, space, capital, strategy=strategy).history
    else:
        history = _told(case, Optimizer(strategy), objective, capital)
    rows = [_row(record) for record in history]
    rows.append({"recommended": _recommended(strategy.recommend(history))})
    predicted = strategy.predict(history, _designs(space, history))
    rows.append({"predicted": None if predicted is None else [_exact(part) for part in predicted]})
    return rows


def _told(case: Case, optimizer: Optimizer, objective: Objective, capital: float) -> History:
    """The history of asking and telling until the capital is spent."""
    flying, decided = [], 0
    if case.before is not None:
        case.before(optimizer, objective)
    while True:
        wanted = min(case.pending - len(flying), case.steps - decided)
        asked = optimizer.ask(wanted, capital=capital) if wanted > 0 else []
        flying, decided = flying + asked, decided + len(asked)
        if not flying:
            return optimizer.history
        _end(case, optimizer, flying.pop((7 * decided + 3) % len(flying)), objective)


def _end(case: Case, optimizer: Optimizer, record: Record, objective: Objective) -> None:
    """Evaluate a query and tell what came of it."""
    x, fidelity = record.query.x, record.query.fidelity
    cost = None if case.cost is None else case.cost(x, fidelity)
    try:
        found = objective(x, fidelity, record.id)
    except RuntimeError as error:
        optimizer.fail(record.id, str(error), cost=cost)
    else:
        optimizer.tell(record.id, found, cost=cost)


def _row(record: Record) -> Row:
    return {
        "x": [_exact(value) for value in record.query.x],
        "fidelity": record.query.fidelity,
        "value": _exact(record.value),
        "cost": _exact(record.cost),
        "status": str(record.status),
        "standard_error": _exact(record.standard_error),
        "outcomes": {name: [_exact(o.value), _exact(o.standard_error), o.met] for name, o in record.outcomes.items()},
    }


def _recommended(found: Any) -> Any:
    """A record, or a recommendation with what is expected."""
    if found is None or isinstance(found, Record):
        return None if found is None else _row(found)
    numbers = {name: _exact(getattr(found, name)) for name in ("x", "mean", "deviation", "noise", "feasible")}
    return {**numbers, "best": None if found.best is None else _row(found.best)}


def _designs(space: Space, history: History) -> torch.Tensor:
    """Where predictions are asked for: the first designs, or some inputs where queries are averages."""
    if hasattr(space, "inputs"):
        return space.inputs[:: max(1, len(space.inputs) // 7)]
    return torch.tensor([record.query.x for record in history][:7], dtype=torch.double)


def _exact(value: Any) -> Any:
    """A number, or numbers in a tensor or tuple, as texts that lose nothing."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_exact(part) for part in value]
    return None if value is None else float(value).hex()


def _name(name: str, seed: int) -> str:
    return f"{name}/{seed}"


def _jobs(only: str, seeds: int) -> list[tuple[str, int]]:
    """Names and seeds of the runs that are wanted, the first seeds first."""
    jobs = [(name, seed) for seed in range(seeds) for name, case in CASES.items() if seed < case.seeds]
    return [job for job in jobs if _matches(_name(*job), only)]


def _matches(name: str, only: str) -> bool:
    return fnmatch(name, only if "*" in only else f"*{only}*")


def _histories(jobs: list[tuple[str, int]], workers: int) -> Iterator[tuple[str, list[Row], float]]:
    """Each run with its name and processor seconds, as they end."""
    if workers == 1:
        _begin()
        yield from (_job(*job) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin) as pool:
        for future in as_completed([pool.submit(_job, *job) for job in jobs]):
            yield future.result()


def _begin() -> None:
    torch.set_num_threads(1)
    threadpool_limits(1)
    warnings.simplefilter("ignore")


def _job(name: str, seed: int) -> tuple[str, list[Row], float]:
    started = time.process_time()
    try:
        rows = history_of(name, seed)
    except Exception as error:
        rows = [{"error": f"{type(error).__name__}: {error}"}]
    return _name(name, seed), rows, time.process_time() - started


def _about() -> dict[str, str]:
    versions = {module.__name__: module.__version__ for module in (torch, botorch, scipy)}
    return {"python": platform.python_version(), "machine": platform.machine(), **versions}


def _read(path: Path, only: str, seeds: int) -> dict[str, list[Row]]:
    content = json.loads(path.read_text())
    if content["about"] != _about():
        print(f"{path} was made with {content['about']}, here is {_about()}: rounding may differ")
    runs = content["runs"].items()
    return {name: rows for name, rows in runs if _matches(name, only) and int(name.rpartition("/")[2]) < seeds}


def difference(old: Sequence[Row] | None, new: Sequence[Row] | None) -> str:
    """Where two runs differ first and by how much; empty where they are equal."""
    if old is None or new is None:
        return "only in the one that is new" if old is None else "is no longer there"
    for i, (before, after) in enumerate(zip(old, new, strict=False)):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        if keys:
            what = f"record {i}" if i < len(old) - 2 else "its end"
            return f"{what} of {len(old) - 2}: " + "; ".join(_changed(key, before, after) for key in keys)
    return "" if len(old) == len(new) else f"{len(old)} rows, now {len(new)}"


def _changed(key: str, before: Row, after: Row) -> str:
    """The first number under a key that differs, in both; all that is there where none does."""
    whole = before.get(key), after.get(key)
    pairs = zip(*map(_numbers, whole), strict=False)
    one, other = next((pair for pair in pairs if pair[0] != pair[1]), whole)
    return f"{key} {one} -> {other}"


def _numbers(value: Any) -> Iterator[float]:
    """The exact numbers in a value."""
    if isinstance(value, str) and "0x" in value:
        yield float.fromhex(value)
    elif isinstance(value, int | float):
        yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _numbers(part)


def _parser() -> ArgumentParser:
    made = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--save", type=Path, metavar="FILE", help="run and save")
    what.add_argument("--compare", type=Path, nargs="+", metavar="FILE", help="run and compare; or compare two files")
    made.add_argument("--only", default="*", metavar="PATTERN", help="runs whose name, GROUP/CASE/SEED, has this in it")
    made.add_argument("--seeds", type=int, default=5, help="most seeds of a case")
    made.add_argument("--workers", type=int, default=2, help="processes")
    return made


if __name__ == "__main__":
    raise SystemExit(main())
