"""Strategies side by side: many runs, their regret, and the picture of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, as_completed
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from torch import Tensor
from tqdm.auto import tqdm

from mfbo_torch.app import tabular_io
from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.app.experiment import begun, check_folder, execute, prepare, shown
from mfbo_torch.app.regret_curves import Curve, Curves, curve, draw, shared_reference, write_table
from mfbo_torch.app.run_folder import CONFIG, JOBS, JOURNAL, compares, finished, recorded, writable, write_settings
from mfbo_torch.app.schema import COMPARE, LONGEST, read_mapping
from mfbo_torch.app.setting_types import read_all
from mfbo_torch.history import History
from mfbo_torch.history.check import check_history
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop import executors
from mfbo_torch.loop.executors import Workers
from mfbo_torch.loop.executors.workers import Attempt, WorkerLost
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.loop.run_options import check_capital
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.strategies.indirect.base import recommendations
from mfbo_torch.utils import validation
from mfbo_torch.utils.checksum import chained
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import opened, replacing, write_text
from mfbo_torch.utils.validation import describe

MOST_RUNS = 100_000
TABLE, PICTURE, RECOMMENDED, LOCK = "regret.csv", "regret.png", "recommended.json", ".compare.lock"
"""Files of a comparison; the third is in the folder of each of its runs where queries are averages."""


class Job(NamedTuple):
    """One run of a comparison: the problem's name, the strategy's label, and its resolved settings."""

    problem: str
    strategy: str
    settings: Mapping[str, Any]

    @property
    def out(self) -> Path:
        """Its folder."""
        return Path(self.settings["out"])


class Comparison(NamedTuple):
    """A comparison and its results; the errors are one line for each run that could not be finished."""

    settings: Mapping[str, Any]
    problems: Mapping[str, Problem]
    curves: Curves
    total: int
    """The number of runs, begun or not."""
    finished: int
    errors: tuple[str, ...] = ()


def plan(settings: Mapping[str, Any], to_run: bool = True) -> tuple[dict[str, Problem], list[Job]]:
    """The problems by name, and the runs of a comparison.

    All of them can start if they are ``to_run``; if not, no module is imported because a setting names it.
    """
    entries = [entry for entry in [settings["problem"], *(settings["problems"] or [])] if entry is not None]
    if not entries:
        raise SettingError("problems", settings["problems"], "given, or problem")
    if (settings["capital"] is None) == (settings["capital_multiple"] is None):
        both = {name: settings[name] for name in ("capital", "capital_multiple")}
        raise SettingError("capital", both, "given once, as capital or as capital_multiple")
    if not settings["strategies"]:
        raise SettingError("strategies", settings["strategies"], "at least one, as a mapping of label to strategy")
    seeds = list(dict.fromkeys(validation.seeds("seeds", settings["seeds"])))
    if (total := len(entries) * len(settings["strategies"]) * len(seeds)) > MOST_RUNS:
        wanted = f"so few that there are {MOST_RUNS:,} runs at most, not {total:,}"
        raise SettingError("seeds", settings["seeds"], wanted)
    shared = {**{name: settings[name] for name in ("device", "dtype", "out")}, "progress": False}
    shared["capital"] = settings["capital"] or 1.0
    problems: dict[str, Problem] = {}
    jobs: list[Job] = []
    for entry in entries:
        name = ""
        for label, strategy in settings["strategies"].items():
            try:
                run = resolve_run({"problem": entry, "strategy": strategy, **shared}, to_run)
                kind = run["problem"]["class_path"].rpartition(".")[2]
                name = name or next(n for n in chain([kind], (f"{kind} {i}" for i in count(2))) if n not in problems)
                folder = Path(settings["out"]) / _slug(name) / _slug(label)
                runs = [{**run, "seed": seed, "out": str(folder / f"seed-{seed}")} for seed in seeds]
                problem, _ = build(runs[0]) if to_run else shown(runs[0], Path(runs[0]["out"]))
                problem = problems.setdefault(name, problem)
                multiple = settings["capital_multiple"]
                capital = settings["capital"] if multiple is None else multiple * problem.space.costs[-1]
                check_capital(problem, capital)
                found = [Job(name, label, {**each, "capital": capital}) for each in runs]
                for job in found if to_run else []:
                    if link := next((p for p in (job.out, *job.out.parents[:2]) if p.is_symlink()), None):
                        raise SettingError("out", str(link), "a folder of this comparison, not a link to one elsewhere")
                    check_folder(job.settings, begun(job.out))
            except SettingError as error:
                inner = error.setting.removeprefix("strategy")
                place = error.setting if inner == error.setting else f"strategies.{label}{inner}"
                raise SettingError(place, error.value, error.allowed) from error
            jobs += found
    folders = {job.out for job in jobs}
    if len(folders) < len(jobs):
        raise SettingError("strategies", list(settings["strategies"]), "labels that differ in letters or digits")
    return problems, jobs


def _slug(label: str) -> str:
    """A label as the name of a folder."""
    return re.sub(r"[^\w.+]+", "-", label).strip("-.") or "run"


def compare(settings: Mapping[str, Any]) -> Comparison:
    """Run what has not run yet, then write the table and the picture.

    Every run has its own journal: finished ones are not run again, interrupted ones are continued. Before the first
    one starts, every setting and every folder is checked.
    """
    kind, workers, scheduler = settings["executor"], settings["workers"], settings["scheduler"]
    out = Path(settings["out"]).absolute()  # an objective may go elsewhere
    pool = executors.start(kind, workers, scheduler, folder=out / JOBS)
    _check_out(settings, out)
    problems, jobs = plan({**settings, "out": str(out)})
    with _locked(out):
        write_settings(settings, out)
        return _compared(settings, problems, jobs, pool, out)


def _check_out(settings: Mapping[str, Any], out: Path) -> None:
    """Refuse a folder of a single run, or of other problems: their runs would be left out of its table."""
    if not (out / CONFIG).exists():
        return
    if not compares(out):
        raise SettingError("out", str(out), "a new folder or one of this comparison; it holds a single run")
    given, stored = (_problems(of) for of in (settings, read_mapping(out / CONFIG, "out")))
    if lost := [name for name in stored if name not in given]:
        raise SettingError("out", str(out), f"a new folder or one of this comparison; it compares on {', '.join(lost)}")


def _problems(settings: Mapping[str, Any]) -> list[str]:
    """The names of the problems of a comparison."""
    entries = [settings.get("problem"), *(settings.get("problems") or [])]
    paths = [entry.get("class_path") if isinstance(entry, dict) else entry for entry in entries if entry]
    return [str(path).rpartition(".")[2] for path in paths]


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """A comparison's folder, which no other process runs meanwhile."""
    with writable("out", out, "folder"):
        out.mkdir(parents=True, exist_ok=True)
        lock = FileLock(out / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise SettingError("out", str(out), "a folder that no other mfbo compare is running in now") from None
    try:
        yield
    finally:
        lock.release()


def _compared(
    settings: Mapping[str, Any],
    problems: Mapping[str, Problem],
    jobs: list[Job],
    pool: AbstractContextManager[Workers],
    out: Path,
) -> Comparison:
    left = [job for job in jobs if not _finished(job, problems[job.problem])]
    workers, kind = settings["workers"], settings["executor"]
    errors = []
    with tqdm(total=len(jobs), initial=len(jobs) - len(left), unit="run", disable=not settings["progress"]) as bar:
        here = executors.Placement.read(kind).kind == "processes" and (workers or os.cpu_count()) == 1
        for job, reason in _run(left, None if here else pool):
            if reason:
                errors.append(f"{job.out}: {reason}")
            bar.update()
    ended = [job for job in jobs if _finished(job, problems[job.problem])]
    curves = collect(problems, ended)
    with writable("out", out, "folder"):
        write_table(out / TABLE, curves)
        if curves:
            with replacing(out / PICTURE) as file:
                draw(problems, curves, settings["metric"]).savefig(file, format="png")
    return Comparison(settings, problems, curves, len(jobs), len(ended), tuple(errors))


def _run(jobs: list[Job], workers: AbstractContextManager[Workers] | None) -> Iterator[tuple[Job, str]]:
    """Run what is left, here or on workers; each run with the error that ended it, if any."""
    if workers is None:
        for job in jobs:
            yield job, run_job(job.settings)
        return
    with workers as pool:
        while jobs:
            futures: dict[Future[str], Job] = {_sent(pool, job): job for job in jobs}
            jobs = []
            for future in as_completed(futures):
                job, lost = futures[future], future.exception()
                if isinstance(lost, WorkerLost) and _failed_in_flight(job, lost):
                    jobs.append(job)
                else:
                    yield job, describe(lost) if lost else future.result()


def _sent(pool: Workers, job: Job) -> Future[str]:
    """A run on its way, of a name by which the next driver finds it again."""
    (mark,) = chained([{"run": [*job.out.parts[-3:]], "capital": job.settings["capital"]}])
    return pool.submit(run_job, job.settings, attempt=Attempt(f"{job.out.name}-{mark.hex()}", None))


def _failed_in_flight(job: Job, lost: WorkerLost) -> bool:
    """Record as failed what a run had in flight when its process died, as a run with workers does; whether it had:
    it can go on then."""
    try:
        problem, strategy = build(job.settings)
        with Journal(job.out / JOURNAL) as journal:
            optimizer = Optimizer(strategy.bind(problem.space, job.settings["capital"]), journal)
            pending = optimizer.history.pending
            for record in pending:
                optimizer.fail(record.id, describe(lost))
    except Exception:  # of whatever kind: the run has not come so far, or cannot be read
        return False
    return bool(pending)


def run_job(settings: Mapping[str, Any]) -> str:
    """One run of a comparison; what went wrong, if anything."""
    try:
        run = prepare(settings)
        summary = execute(run, picture=False)
        if summary.finished and isinstance(run.problem, IndirectProblem):
            inputs = recommendations(run.strategy, summary.history)
            write_text(run.out / RECOMMENDED, json.dumps(run.problem.advised(inputs).tolist()))
    except Exception as error:
        return describe(error)
    if not summary.finished:
        raise KeyboardInterrupt
    return ""


def _finished(job: Job, problem: Problem) -> bool:
    recommended = not isinstance(problem, IndirectProblem) or (job.out / RECOMMENDED).exists()
    try:
        return recommended and finished(job.out, job.settings["capital"])
    except SettingError:  # a damaged summary, which the run writes anew
        return False


def collect(problems: Mapping[str, Problem], jobs: list[Job]) -> dict[tuple[str, str], dict[int, Curve]]:
    """The curves of the runs that have a journal, by problem and strategy and then by seed."""
    curves: dict[tuple[str, str], dict[int, Curve]] = {}
    kept = {name: problem for name, problem in problems.items() if problem.space.objectives}
    several = [(job.problem, _history(job, kept[job.problem])) for job in jobs if job.problem in kept and _begun(job)]
    worst = {
        name: shared_reference([history for of, history in several if of == name], problem.space)
        for name, problem in kept.items()
    }
    for job in jobs:
        if _begun(job):
            problem = problems[job.problem]
            history = _history(job, problem)
            noted = _recommended(job.out, history)
            found = curve(history, problem, job.settings["capital"], noted, worst.get(job.problem))
            curves.setdefault((job.problem, job.strategy), {})[job.settings["seed"]] = found
    return curves


def _begun(job: Job) -> bool:
    return (job.out / JOURNAL).exists()


def _history(job: Job, problem: Problem) -> History:
    """What the journal of a run holds, if it is of the problem."""
    history = recorded(job.out)
    check_history(history, problem.space)
    return history


def _recommended(folder: Path, history: History) -> Tensor | None:
    """The values of what was recommended after each record, where a run has noted them."""
    path = folder / RECOMMENDED
    if not path.exists() or not len(history):
        return None
    try:
        with opened(path) as file:
            found = torch.tensor(json.loads(file.read(LONGEST)), dtype=torch.double)
    except (OSError, ValueError, TypeError, RuntimeError, OverflowError) as error:  # nested too deep is a RuntimeError
        raise SettingError("folder", str(path), f"a list of numbers: {describe(error)}") from error
    return found if found.shape == (len(history),) else None


def load(out: str | Path) -> Comparison:
    """The comparison of a folder, as far as its runs have come."""
    settings, problems, jobs = _stored(Path(out))
    curves = collect(problems, jobs)
    return Comparison(settings, problems, curves, len(jobs), sum(_finished(job, problems[job.problem]) for job in jobs))


def export(out: Path, path: Path) -> tuple[int, list[str]]:
    """Write what was observed in all runs of a comparison's folder as one table; gives the number of rows and what
    :func:`~mfbo_torch.app.tabular_io.write_rows` does."""
    _, problems, jobs = _stored(out)
    rows = []
    for job in jobs:
        if (job.out / JOURNAL).exists():
            of = {"problem": job.problem, "strategy": job.strategy, "seed": job.settings["seed"]}
            problem = problems[job.problem]
            found = tabular_io.rows(_history(job, problem), problem, tabular_io.typed(path))
            rows += [of | {f"parameter.{k}" if k in of else k: value for k, value in row.items()} for row in found]
    return len(rows), tabular_io.write_rows(rows, path, list(dict.fromkeys(column for row in rows for column in row)))


def _stored(out: Path) -> tuple[dict[str, Any], dict[str, Problem], list[Job]]:
    """The settings, the problems and the runs of a folder; no module is imported because a file names it."""
    settings = read_all({**read_mapping(out / CONFIG, "folder"), "out": str(out)}, COMPARE.settings)
    return settings, *plan(settings, to_run=False)
