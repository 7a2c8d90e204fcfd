"""One run in one folder: its settings, its history, a summary and a picture."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import platform
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

from mfbo_torch import plots
from mfbo_torch.config import build, read_mapping, resolve_run
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Status
from mfbo_torch.journal import Journal
from mfbo_torch.problems.base import Problem
from mfbo_torch.runner import check, drive
from mfbo_torch.strategies.base import Strategy

CONFIG, JOURNAL, SUMMARY, PICTURE = "config.yaml", "history.sqlite", "summary.json", "progress.png"
MAY_DIFFER = ("capital", "out", "max_pending", "workers")  # when a run is continued


class Experiment(NamedTuple):
    """A run and what has become of it."""

    settings: Mapping[str, Any]
    problem: Problem
    strategy: Strategy
    history: History


def prepare(settings: Mapping[str, Any]) -> tuple[Problem, Strategy]:
    """Make the problem and the strategy of a run and see whether it can start; nothing is written.

    Raises:
        SettingError: A setting cannot work, or the output folder holds something else.
    """
    problem, strategy = build(settings)
    workers = settings["workers"]
    if workers < 1:
        raise SettingError("workers", workers, "a whole number from 1 on")
    check(problem, settings["capital"], settings["max_pending"] or workers)
    check_folder(settings)
    return problem, strategy


def check_folder(settings: Mapping[str, Any]) -> None:
    """See whether the output folder is new or holds a part of the same run.

    Raises:
        SettingError: It holds something else, or more was spent already than the capital.
    """
    out = Path(settings["out"])
    if out.exists() and not out.is_dir():
        raise SettingError("out", str(out), "a folder")
    if not (out / CONFIG).exists():
        for name in (JOURNAL, SUMMARY, PICTURE):
            if (out / name).exists():
                raise SettingError("out", str(out), f"a new folder or one of this run; it has {name} but no {CONFIG}")
        return
    stored = read_mapping(out / CONFIG, "out")
    if "strategies" in stored:
        raise SettingError("out", str(out), "a new folder or one of this run; it holds a comparison")
    spent = 0.0
    if (out / JOURNAL).exists() and (out / JOURNAL).stat().st_size:
        with Journal(out / JOURNAL, read_only=True) as journal:
            history = journal.history()
        spent = history.spent
    if not spent:
        return
    if any(stored.get(setting) != settings[setting] for setting in settings):
        stored = resolve_run(stored)  # defaults that came later
    for setting in settings.keys() - set(MAY_DIFFER):
        if difference := _difference(setting, stored.get(setting), settings[setting]):
            raise SettingError("out", str(out), f"a new folder or one of this run; there {difference}")
    if settings["capital"] < min(spent, stored["capital"]):
        raise SettingError("capital", settings["capital"], f"at least {spent:g}, which is spent already in {out}")


def _difference(setting: str, stored: Any, given: Any) -> str:
    """The first setting in which two values differ, in words."""
    if isinstance(stored, dict) and isinstance(given, dict) and stored.get("class_path") == given.get("class_path"):
        found = (_difference(f"{setting}.{key}", stored.get(key), given.get(key)) for key in sorted({*stored, *given}))
        return next((difference for difference in found if difference), "")
    return "" if stored == given else f"{setting} is {stored!r}, not {given!r}"


def execute(
    settings: Mapping[str, Any],
    problem: Problem,
    strategy: Strategy,
    *,
    progress: bool = True,
    picture: bool = True,
) -> tuple[History, bool]:
    """Start or continue the run of a folder that :func:`prepare` has found good.

    Args:
        settings: Resolved settings.
        problem: Their problem.
        strategy: Their strategy.
        progress: Whether to show a progress bar.
        picture: Whether to draw the progress at the end.

    Returns:
        The history, and whether the run came to its end (it was not interrupted).
    """
    out, workers = Path(settings["out"]), settings["workers"]
    try:
        out.mkdir(parents=True, exist_ok=True)
        write(out / CONFIG, yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))
    except OSError as error:
        raise SettingError("out", str(out), f"a folder that can be written: {error.strerror}") from error
    torch.manual_seed(settings["seed"])  # for the noise of problems that have any
    with Journal(out / JOURNAL) as journal, processes(workers) if workers > 1 else nullcontext() as executor:
        pending = settings["max_pending"] or workers
        history, finished = drive(problem, strategy, settings["capital"], executor, pending, journal, progress)
    experiment = Experiment(settings, problem, strategy, history)
    write(out / SUMMARY, json.dumps({**summarise(experiment), "finished": finished}, indent=2) + "\n")
    if picture:
        name = type(strategy).__name__
        plots.progress(history, problem, name).savefig(out / f".{PICTURE}", format="png")
        os.replace(out / f".{PICTURE}", out / PICTURE)
    return history, finished


def load(out: str | Path) -> Experiment:
    """The run of a folder, finished or not.

    Raises:
        SettingError: There is none.
    """
    settings = resolve_run(read_mapping(Path(out) / CONFIG, "folder"))
    with Journal(Path(out) / JOURNAL, read_only=True) as journal:
        history = journal.history()
    problem, strategy = build(settings)
    return Experiment(settings, problem, strategy.bind(problem.space, settings["capital"]), history)


def summarise(experiment: Experiment) -> dict[str, Any]:
    """What a run has found and what it took, as JSON values."""
    settings, problem, strategy, history = experiment
    space = problem.space
    best = history.best(space.target)
    counts = [sum(r.query.fidelity == m for r in history) for m in range(space.num_fidelities)]
    packages = ("mfbo-torch", "torch", "botorch", "gpytorch")
    return {
        "problem": problem.name,
        "strategy": type(strategy).__name__,
        "best_parameters": None if best is None else space.named(best.query.x),
        "best_value": None if best is None or best.value is None else problem.signed(best.value),
        "capital": settings["capital"],
        "spent": history.spent,
        "queries_per_fidelity": counts,
        "failures": len(history.select(Status.FAILED)),
        "decision_seconds": math.fsum(r.decision_seconds for r in history),
        "evaluation_seconds": math.fsum(r.evaluation_seconds for r in history),
        "seed": settings["seed"],
        "versions": {
            **{name.replace("-", "_"): version(name) for name in packages},
            "python": platform.python_version(),
        },
    }


def write(path: Path, text: str) -> None:
    """Replace a file at once, so that it is never half there."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


@contextmanager
def processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes with one thread each; ended at once, not waited for, if this one is interrupted."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_settle)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()


def _settle() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    torch.set_num_threads(1)
