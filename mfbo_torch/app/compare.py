"""Strategies side by side: many runs, their regret, and the picture of it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import as_completed
from contextlib import AbstractContextManager
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from tqdm.auto import tqdm

from mfbo_torch.app import tabular_io
from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.app.experiment import check_folder, execute, prepare, read_settings, shown, write, write_settings
from mfbo_torch.app.import_guard import nothing_imported
from mfbo_torch.app.run_folder import CONFIG, JOURNAL, finished, recorded
from mfbo_torch.app.schema import read_mapping
from mfbo_torch.history import History
from mfbo_torch.loop import executors, plots
from mfbo_torch.loop.evaluation import describe
from mfbo_torch.loop.executors import Workers
from mfbo_torch.loop.optimizer import check_history
from mfbo_torch.loop.run_options import check_capital
from mfbo_torch.metrics import best_values, capital_spent, instant_regret, paid_for, query_costs, regret_at
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.indirect.base import recommendations
from mfbo_torch.utils import validation
from mfbo_torch.utils.errors import SettingError

TABLE, PICTURE, ADVISED = "regret.csv", "regret.png", "advised.json"
POINTS = 201  # amounts of capital, from none to all, at which regret is told


class Job(NamedTuple):
    """One run of a comparison."""

    problem: str
    strategy: str
    settings: Mapping[str, Any]


class Curve(NamedTuple):
    """How one run went: values at ``POINTS`` amounts of capital, NaN where they are not known.

    Attributes:
        capital: Those amounts.
        simple: Simple regret.
        cumulative: Cumulative regret ``R``.
        best: Best value at the target, in the problem's own sign.
    """

    capital: np.ndarray
    simple: np.ndarray
    cumulative: np.ndarray
    best: np.ndarray


class Comparison(NamedTuple):
    """What a comparison has come to.

    Attributes:
        settings: Its resolved settings.
        problems: The problems by name.
        curves: The curves by problem and strategy and then by seed.
        total: Number of runs in all.
        errors: What went wrong, one line for each run that could not be finished.
    """

    settings: Mapping[str, Any]
    problems: Mapping[str, Problem]
    curves: Mapping[tuple[str, str], Mapping[int, Curve]]
    total: int
    errors: tuple[str, ...] = ()


def plan(settings: Mapping[str, Any], to_run: bool = True) -> list[Job]:
    """The runs of a comparison, each with its resolved settings and its own folder.

    Args:
        settings: Resolved settings.
        to_run: Whether they are going to be run; if not, no class is imported.

    Raises:
        SettingError: A setting cannot work.
    """
    given = [entry for entry in [settings["problem"], *(settings["problems"] or [])] if entry is not None]
    if not given:
        raise SettingError("problems", settings["problems"], "given, or problem")
    if (settings["capital"] is None) == (settings["capital_multiple"] is None):
        both = {name: settings[name] for name in ("capital", "capital_multiple")}
        raise SettingError("capital", both, "given once, as capital or as capital_multiple")
    if not settings["strategies"]:
        raise SettingError("strategies", settings["strategies"], "at least one, as a mapping of label to strategy")
    seeds = list(dict.fromkeys(validation.seeds("seeds", settings["seeds"])))
    jobs: list[Job] = []
    for entry in given:
        used = {job.problem for job in jobs}
        for label, strategy in settings["strategies"].items():
            run = _resolve(entry, strategy, label, settings, resolve_run if to_run else read_settings)
            path = run["problem"] if isinstance(run["problem"], str) else run["problem"]["class_path"]
            kind = path.rpartition(".")[2]
            name = next(n for n in chain([kind], (f"{kind} {i}" for i in count(2))) if n not in used)
            folder = Path(settings["out"]) / slug(name) / slug(label)
            jobs += [Job(name, label, {**run, "seed": seed, "out": str(folder / f"seed-{seed}")}) for seed in seeds]
    folders = [job.settings["out"] for job in jobs]
    if len(set(folders)) < len(folders):
        raise SettingError("strategies", list(settings["strategies"]), "labels that differ in letters or digits")
    return jobs


def _resolve(
    entry: Any, strategy: Any, label: str, settings: Mapping[str, Any], read: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    shared = {name: settings[name] for name in ("device", "dtype")}
    try:
        run = {"problem": entry, "strategy": strategy, "capital": settings["capital"] or 1.0}
        return read({**run, "out": settings["out"], **shared})
    except SettingError as error:
        raise _labelled(error, label) from error


def _labelled(error: SettingError, label: str) -> SettingError:
    if not error.setting.startswith("strategy"):
        return error
    return SettingError(f"strategies.{label}{error.setting.removeprefix('strategy')}", error.value, error.allowed)


def slug(label: str) -> str:
    """A label as the name of a folder."""
    return re.sub(r"[^\w.+]+", "-", label).strip("-.") or "run"


def compare(settings: Mapping[str, Any], progress: bool = True) -> Comparison:
    """Run what has not run yet, then write the table and the picture.

    Every run has its own journal: finished ones are not run again, interrupted ones are
    continued.

    Args:
        settings: Resolved settings of ``mfbo compare``.
        progress: Whether to show a progress bar.

    Raises:
        SettingError: A setting cannot work, or a folder holds something else. Nothing has run.
    """
    kind, workers, scheduler = settings["executor"], settings["workers"], settings["scheduler"]
    pool = executors.start(kind, workers, scheduler)
    out = Path(settings["out"]).absolute()  # an objective may go elsewhere
    if (out / CONFIG).exists() and "strategies" not in read_mapping(out / CONFIG, "out"):
        raise SettingError("out", str(out), "a new folder or one of this comparison; it holds a single run")
    problems, jobs = _prepare({**settings, "out": str(out)})
    write_settings(settings, out)
    left = [job for job in jobs if not _finished(job, problems[job.problem])]
    errors = []
    with tqdm(total=len(jobs), initial=len(jobs) - len(left), unit="run", disable=not progress) as bar:
        alone = kind == "processes" and min(workers or os.cpu_count() or 1, len(left)) <= 1
        for job, reason in _run(left, None if alone else pool):
            if reason:
                errors.append(f"{job.settings['out']}: {reason}")
            bar.update()
    curves = collect(problems, [job for job in jobs if _finished(job, problems[job.problem])])
    comparison = Comparison(settings, problems, curves, len(jobs), tuple(errors))
    _write_table(out / TABLE, curves)
    if curves:
        draw(comparison).savefig(out / PICTURE)
    return comparison


def _prepare(settings: Mapping[str, Any], to_run: bool = True) -> tuple[dict[str, Problem], list[Job]]:
    """The problems by name, and the runs with their capital, all of which can start where they are to be run."""
    make = build if to_run else _shown
    problems: dict[str, Problem] = {}
    seen: set[tuple[str, str]] = set()
    jobs = []
    for job in plan(settings, to_run):
        multiple = settings["capital_multiple"]
        try:
            if job.problem not in problems:
                problems[job.problem] = make(job.settings)[0]
            problem = problems[job.problem]
            if multiple is not None:
                job = job._replace(settings={**job.settings, "capital": multiple * problem.space.costs[-1]})
            if (job.problem, job.strategy) not in seen:
                seen.add((job.problem, job.strategy))
                make(job.settings)
                check_capital(problem, job.settings["capital"])
            if to_run:
                check_folder(job.settings)
        except SettingError as error:
            raise _labelled(error, job.strategy) from error
        jobs.append(job)
    return problems, jobs


def _shown(settings: Mapping[str, Any]) -> tuple[Problem, Strategy]:
    return shown(settings, Path(settings["out"]))


def _run(jobs: list[Job], workers: AbstractContextManager[Workers] | None) -> Iterator[tuple[Job, str]]:
    """Run what is left, here or on workers; each run with the error that ended it, if any."""
    if workers is None:
        for job in jobs:
            yield job, run_job(job.settings)
        return
    with workers as pool:
        futures = {pool.submit(run_job, job.settings): job for job in jobs}
        for future in as_completed(futures):
            lost = future.exception()
            yield futures[future], describe(lost) if lost else future.result()


def run_job(settings: Mapping[str, Any]) -> str:
    """One run of a comparison; what went wrong, if anything.

    Raises:
        KeyboardInterrupt: It was interrupted.
    """
    try:
        problem, strategy = prepare(settings)
        history, ended, _ = execute(settings, problem, strategy, progress=False, picture=False)
        if ended and isinstance(problem, IndirectProblem):
            advice = recommendations(strategy.bind(problem.space, settings["capital"]), history)
            write(Path(settings["out"]) / ADVISED, json.dumps(problem.advised(advice).tolist()))
    except Exception as error:
        return describe(error)
    if not ended:
        raise KeyboardInterrupt
    return ""


def _finished(job: Job, problem: Problem) -> bool:
    out = Path(job.settings["out"])
    advised = not isinstance(problem, IndirectProblem) or (out / ADVISED).exists()
    return advised and finished(out, job.settings["capital"])


def collect(problems: Mapping[str, Problem], jobs: list[Job]) -> dict[tuple[str, str], dict[int, Curve]]:
    """The curves of the runs that have a journal, by problem and strategy and then by seed."""
    curves: dict[tuple[str, str], dict[int, Curve]] = {}
    for job in jobs:
        out = Path(job.settings["out"])
        if (out / JOURNAL).exists():
            history = recorded(out)
            check_history(history, problems[job.problem].space)
            found = curve(history, problems[job.problem], job.settings["capital"], _advised(out, history))
            curves.setdefault((job.problem, job.strategy), {})[job.settings["seed"]] = found
    return curves


def _advised(folder: Path, history: History) -> Tensor | None:
    """What the recommendations after each record are worth, where a run has noted it."""
    path = folder / ADVISED
    found = torch.tensor(json.loads(path.read_text()) if path.exists() else [], dtype=torch.double)
    return found if len(found) == len(history) > 0 else None


def optimum_of(problem: Problem) -> float | None:
    """The best value there is: of the function itself, where queries are averages of it."""
    return problem.latent_optimum if isinstance(problem, IndirectProblem) else problem.optimum


def curve(history: History, problem: Problem, capital: float, advised: Tensor | None = None) -> Curve:
    """Regret of a history at evenly spaced amounts of capital.

    Simple regret is that of :func:`mfbo_torch.metrics.simple_regret` after the last query that
    the amount pays for, cumulative regret is :func:`mfbo_torch.metrics.cumulative_regret` of
    the amount. Where a query earns something else than its value (the arm of a bandit its mean), both
    count what was earned, unused capital earns nothing, and the best value is the best one at the target. Where
    queries are averages, simple regret and best value are those of the inputs that were recommended.

    Args:
        history: Everything that was asked.
        problem: The problem.
        capital: The largest amount.
        advised: ``n`` values of what was recommended so far after each record, where queries are averages.
    """
    target = problem.space.target
    known = optimum_of(problem), problem.worst
    optimum, worst = (np.nan if value is None else problem.signed(value) for value in known)
    earned = problem.pseudo_rewards(history)
    amounts = np.linspace(0.0, capital, POINTS)
    if earned is None:
        values, instant, idle = best_values(history, target), instant_regret(history, target, optimum, worst), worst
    else:
        at_target = torch.tensor([r.query.fidelity == target for r in history], dtype=torch.bool)
        values = torch.where(at_target, earned, -torch.inf).cummax(0).values
        instant, idle = optimum - earned, 0.0
    if isinstance(problem, IndirectProblem):
        values = torch.full((len(history),), torch.nan, dtype=torch.double) if advised is None else advised
    within = paid_for(capital_spent(history), torch.from_numpy(amounts))
    best = np.concatenate([[-np.inf], values.numpy()])[within]
    simple = optimum - np.fmax(best, worst)
    simple[np.isinf(simple)] = np.nan
    cumulative = regret_at(torch.from_numpy(amounts), query_costs(history), instant, optimum - idle).total
    own_sign = np.where(np.isinf(best), np.nan, best if problem.maximize else -best)
    return Curve(amounts, simple, cumulative.numpy(), own_sign)


def _write_table(path: Path, curves: Mapping[tuple[str, str], Mapping[int, Curve]]) -> None:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    columns = ("capital", "simple_regret", "cumulative_regret", "best_value")
    writer.writerow(["problem", "strategy", "seed", *columns])
    for (problem, strategy), runs in curves.items():
        for seed, run in runs.items():
            for row in zip(*run, strict=True):
                writer.writerow([problem, strategy, seed, *("" if np.isnan(x) else repr(float(x)) for x in row)])
    write(path, table.getvalue())


def draw(comparison: Comparison) -> Figure:
    """The picture of a comparison: a panel for each problem.

    It has the simple regret or, where the metric is ``"cumulative"``, the cumulative regret
    per capital ``R(Λ) / Λ``; for a problem without a known optimum, its best value.
    """
    problems, metric = comparison.problems, comparison.settings["metric"]
    panels: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    labels = {}
    for (name, strategy), runs in comparison.curves.items():
        capital = next(iter(runs.values())).capital
        if optimum_of(problems[name]) is None:
            labels[name], rows = "best value", [run.best for run in runs.values()]
        elif metric == "simple":
            labels[name], rows = "simple regret", [run.simple for run in runs.values()]
        else:
            labels[name] = "cumulative regret / capital"
            capital, rows = capital[1:], [run.cumulative[1:] / run.capital[1:] for run in runs.values()]
        panels.setdefault(name, {})[strategy] = (capital, np.array(rows))
    return plots.regret(panels, labels, [name for name in panels if optimum_of(problems[name]) is None])


def final(run: Curve, problem: Problem, metric: str) -> float:
    """What a run ends with: regret as in :func:`draw`, or the best value."""
    if optimum_of(problem) is None:
        return float(run.best[-1])
    return float(run.simple[-1] if metric == "simple" else run.cumulative[-1] / run.capital[-1])


def load(out: str | Path) -> Comparison:
    """The comparison of a folder, as far as its runs have come.

    Raises:
        SettingError: There is none.
    """
    settings = {**read_mapping(Path(out) / CONFIG, "folder"), "out": str(out)}
    with nothing_imported(settings):
        problems, jobs = _prepare(settings, to_run=False)
    return Comparison(settings, problems, collect(problems, jobs), len(jobs))


def export(out: Path, path: Path) -> int:
    """Write what was observed in all runs of a comparison's folder as one table; gives the number of rows.

    Raises:
        SettingError: There is no comparison, or the table cannot be written.
    """
    settings = {**read_mapping(out / CONFIG, "folder"), "out": str(out)}
    with nothing_imported(settings):
        problems, jobs = _prepare(settings, to_run=False)
    rows = []
    for problem, strategy, run in jobs:
        folder = Path(run["out"])
        if (folder / JOURNAL).exists():
            of = {"problem": problem, "strategy": strategy, "seed": run["seed"]}
            rows += [of | row for row in tabular_io.rows(recorded(folder), problems[problem])]
    tabular_io.write_rows(rows, path, list(dict.fromkeys(column for row in rows for column in row)))
    return len(rows)
