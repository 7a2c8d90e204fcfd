"""One run in one folder: planned, run or continued, and loaded again."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields
from itertools import chain, count
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mfbo_torch.app import digest, run_folder, tabular_io
from mfbo_torch.app.builder import build, build_problem, build_strategy, resolve_classes, resolve_run
from mfbo_torch.app.run_folder import CONFIG, JOBS, JOURNAL, KNOWN, LOG, PICTURE, SUMMARY, TRIALS, recorded, writable
from mfbo_torch.app.schema import read_mapping
from mfbo_torch.app.setting_types import is_foreign, read
from mfbo_torch.app.summary import Summary
from mfbo_torch.history import History, Record
from mfbo_torch.history.check import check_history
from mfbo_torch.history.storage.beside import digest_path
from mfbo_torch.history.storage.journal import Journal, JournalGone
from mfbo_torch.loop import plots
from mfbo_torch.loop.curve_plots import plot_learning_curves
from mfbo_torch.loop.early_failures import Hopeless
from mfbo_torch.loop.executors import Workers
from mfbo_torch.loop.front.pictures import plot_front
from mfbo_torch.loop.run_options import RunOptions, check_capital
from mfbo_torch.loop.runner import drive
from mfbo_torch.loop.stopping import Stopping
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.problem_snapshot import stand_in
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import replacing, write_text

MAY_DIFFER = ("capital", "out", "progress", *(option.name for option in fields(RunOptions)))
"""Settings that may differ when a run is continued."""


@dataclass(frozen=True)
class Plan:
    """A run that can start: everything that its resolved settings say, read once.

    The strategy is bound to the problem's space and the capital, ``given`` are the observations to begin with, and
    ``None`` in the context of the workers is this process.
    """

    settings: Mapping[str, Any]
    problem: Problem
    strategy: Strategy
    options: RunOptions
    stopping: Stopping
    workers: AbstractContextManager[Workers | None]
    given: list[Record]
    out: Path
    """The output folder, as an absolute path: an objective may go elsewhere."""

    def summary(self, history: History, stopped: str = "", finished: bool = False) -> Summary:
        """Its summary."""
        return Summary(self.settings, self.problem, self.strategy, history, stopped, finished)


def prepare(settings: Mapping[str, Any]) -> Plan:
    """Make everything that settings of ``mfbo run`` say, and see whether it can start; nothing is written."""
    settings = resolve_classes(settings)
    problem, strategy = build(settings)
    strategy = strategy.bind(problem.space, check_capital(problem, settings["capital"]))
    options = RunOptions.of(settings)
    out = Path(settings["out"]).absolute()
    workers = options.start(out / JOBS)
    options.check(problem)
    stopping = Stopping(options, problem, strategy)
    history = begun(out)
    given = observations_of(settings["warm_start"], problem) if settings["warm_start"] and not len(history) else []
    check_folder(settings, history)
    return Plan(settings, problem, strategy, options, stopping, workers, given, out)


def execute(plan: Plan, *, picture: bool = True) -> Summary:
    """Start or continue a run, with a picture at the end; its summary, which the folder has too."""
    out, progress = plan.out, plan.settings["progress"]
    with writable("out", out, "folder"):
        out.mkdir(parents=True, exist_ok=True)
    with Journal(out / JOURNAL) as journal, logged(out / LOG):
        try:
            with plan.workers as workers:
                run_folder.write_settings(plan.settings, out)  # by the one process that has the journal
                (out / SUMMARY).unlink(missing_ok=True)  # what it says is no longer so
                how = (plan.options, workers, journal, progress, plan.given, out / TRIALS, plan.stopping)
                ended = drive(plan.problem, plan.strategy, plan.settings["capital"], *how)
        except JournalGone as error:
            saved = _free(out.with_name(f"{out.name}.saved.sqlite"))
            journal.save(saved)
            wanted = f"left where it is during a run; what is known is in {saved}; put the folder back to go on"
            raise SettingError("out", str(out), wanted) from error
        except Hopeless as error:
            conclude(plan.summary(journal.history(), str(error)), out, picture)
            raise
    summary = plan.summary(ended.history, ended.stopped, ended.finished)
    conclude(summary, out, picture)
    return summary


def conclude(summary: Summary, out: Path, picture: bool) -> None:
    """Write the summary and the picture."""
    with writable("out", out, "folder"):
        write_text(out / SUMMARY, json.dumps(summary.values, indent=2) + "\n")
        if picture:
            name = type(summary.strategy).__name__
            with replacing(out / PICTURE) as file:
                _picture(summary, name).savefig(file, format="png")


def _picture(run: Summary, name: str) -> Figure:
    if run.problem.space.objectives:
        return plot_front(run.history, run.problem, run.front, name)
    return plots.progress(run.history, run.problem, name)


def draw_curves(run: Summary, path: Path) -> Path:
    """Draw the learning curves of a run; a file at ``path``, which is given back, is replaced."""
    if not any(record.curve for record in run.history):
        raise SettingError("curves", True, "left out: no training has reported a value after an epoch yet")
    with writable("curves", path, "file"), replacing(path) as file:
        plot_learning_curves(run.history, run.problem, run.strategy).savefig(file, format="png")
    return path


def load(out: str | Path) -> Summary:
    """The run of a folder or a journal, finished or not. No module is imported because a file in it names it."""
    out = Path(out)
    if out.is_file():
        return _of_journal(out)
    if run_folder.compares(out):
        raise SettingError("folder", str(out), "that of a single run; this one holds a comparison")
    settings = resolve_run(read_mapping(out / CONFIG, "folder"), importing=False)
    history = recorded(out)
    problem, strategy = shown(settings, out)
    check_history(history, problem.space)
    strategy = strategy.bind(problem.space, settings["capital"])
    return Summary(settings, problem, strategy, history, run_folder.stopped(out, history), run_folder.finished(out))


def _of_journal(path: Path) -> Summary:
    """The run whose journal a program of the user's has written, by what is noted beside it; its strategy is a
    stand-in, as its settings are not known."""
    with Journal(path, read_only=True) as journal:
        history = journal.history()
    note = digest.read(digest_path(path)) or {}
    try:
        problem = stand_in(note.get("problem"), str(path))
        kinds: dict[str, Any] = {"strategy": str, "seed": int, "capital": float}
        settings = {name: read(name, note.get(name), kind) for name, kind in kinds.items()}
    except SettingError as error:
        wanted = f"a run's folder, or a journal of minimize, maximize or run whose problem is in {digest_path(path)};"
        wanted += " of one of ask and tell there is only mfbo show"
        raise SettingError("folder", str(path), wanted) from error
    check_history(history, problem.space)
    strategy = _named(settings["strategy"], settings["seed"]).bind(problem.space, settings["capital"])
    ended = note.get("finished") is True
    return Summary(settings, problem, strategy, history, str(note.get("stopped") or ""), ended)


def _named(name: str, seed: int) -> Strategy:
    """A stand-in for a strategy whose class or settings are not there."""
    return type(name, (RandomSearch,), {})(seed=seed)


def shown(settings: Mapping[str, Any], out: Path) -> tuple[Problem, Strategy]:
    """The problem and the strategy of a run that is shown; stand-ins where their classes are not imported."""
    path = settings["problem"]["class_path"]
    if is_foreign(path):
        old, note = out / KNOWN, digest.read(digest_path(out / JOURNAL)) or {}
        problem = stand_in(read_mapping(old, "folder") if old.exists() else note.get("problem"), path)
    else:
        problem = build_problem(settings, to_evaluate=False)
    path = settings["strategy"]["class_path"]
    if is_foreign(path):
        return problem, _named(path.rpartition(".")[2], settings["seed"])
    return problem, build_strategy(settings)


def begun(out: Path) -> History:
    """What the journal of a folder holds already, if there is one."""
    path = out / JOURNAL
    return recorded(out) if path.exists() and path.stat().st_size else History()


def observations_of(place: str, problem: Problem) -> list[Record]:
    """The observations of a table, or of another run: its folder or its journal."""
    path = Path(place)
    if not path.is_dir() and path.suffix != Path(JOURNAL).suffix:
        return tabular_io.read(path, problem)
    try:
        source = load(path)
    except SettingError as error:
        raise SettingError("warm_start", place, f"the folder or the journal of a run: {error}") from error
    return tabular_io.taken(source.history, source.problem, problem, place)


def check_folder(settings: Mapping[str, Any], history: History) -> None:
    """See whether the output folder is new or holds a part of the same run; ``history`` is what its journal holds."""
    out = Path(settings["out"])
    new = "a new folder or one of this run"
    if out.exists() and not out.is_dir():
        raise SettingError("out", str(out), "a folder")
    for path in (
        out / JOURNAL,
        out / LOG,
        out / TRIALS,
        out / JOBS,
    ):  # written in place, where a link would lead elsewhere
        if path.is_symlink() or (path.name == LOG and path.exists() and not path.is_file()):
            raise SettingError("out", str(out), f"a folder whose {path.name} is no link and can be written")
    for name, content in ((TRIALS, "checkpoints"), (JOBS, "jobs")) if not len(history) else ():
        if (out / name).exists():
            wanted = f"without {name}, which has {content} of a run whose history is not there"
            raise SettingError("out", str(out), wanted)
    if not (out / CONFIG).exists():
        for name in (JOURNAL, SUMMARY, PICTURE):
            if (out / name).exists() and (len(history) or name != JOURNAL):
                raise SettingError("out", str(out), f"{new}; it has {name} but no {CONFIG}")
        return
    stored = read_mapping(out / CONFIG, "out")
    if "strategies" in stored:
        raise SettingError("out", str(out), f"{new}; it holds a comparison")
    spent = history.spent
    if not spent:
        if not len(history) and run_folder.noted(out).get("spent"):
            wanted = f"a folder with the {JOURNAL} that its {SUMMARY} is of; put that back, or begin in a new folder"
            raise SettingError("out", str(out), wanted)
        return
    if any(stored.get(setting) != settings[setting] for setting in settings):
        with suppress(SettingError):
            stored = resolve_run(stored, importing=False)  # defaults that came later
    for setting in settings.keys() - set(MAY_DIFFER):
        if difference := _difference(setting, stored.get(setting), settings[setting]):
            raise SettingError("out", str(out), f"{new}; there {difference}")
    if settings["capital"] < min(spent, stored["capital"]):
        raise SettingError("capital", settings["capital"], f"at least {spent:g}, which is spent already in {out}")


def _difference(setting: str, stored: Any, given: Any) -> str:
    """The first setting in which two values differ, in words."""
    if isinstance(stored, dict) and isinstance(given, dict) and stored.get("class_path") == given.get("class_path"):
        found = (_difference(f"{setting}.{key}", stored.get(key), given.get(key)) for key in sorted({*stored, *given}))
        return next((difference for difference in found if difference), "")
    return "" if stored == given else f"{setting} is {stored!r}, not {given!r}"


def _free(path: Path) -> Path:
    """A path of this kind where there is nothing yet."""
    others = (path.with_name(f"{path.stem}-{i}{path.suffix}") for i in count(2))
    return next(p for p in chain([path], others) if not os.path.lexists(p))


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """What the run says of its decisions, in a file."""
    if path.is_symlink():
        raise SettingError("out", str(path.parent), f"a folder where {path.name} is a file, not a link")
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.handleError = lambda record: None  # type: ignore[method-assign]  # a run goes on without its log
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("mfbo_torch")
    level, spread = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = spread
        handler.close()
