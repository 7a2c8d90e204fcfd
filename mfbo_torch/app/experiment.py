"""One run in one folder: its settings, its history, a summary and a picture."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from importlib.metadata import version
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mfbo_torch.app import tabular_io
from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.app.import_guard import foreign, nothing_imported
from mfbo_torch.app.problem_snapshot import known_of, stand_in
from mfbo_torch.app.run_folder import CONFIG, JOURNAL, KNOWN, LOG, PICTURE, SUMMARY, TRIALS, recorded, stopped
from mfbo_torch.app.schema import read_mapping
from mfbo_torch.history import History, Recommendation, Record, Status
from mfbo_torch.history.storage.journal import Journal, JournalGone
from mfbo_torch.loop import plots
from mfbo_torch.loop.early_failures import Hopeless
from mfbo_torch.loop.eta import forecast
from mfbo_torch.loop.evaluation import describe
from mfbo_torch.loop.optimizer import check_history
from mfbo_torch.loop.run_options import RunOptions, check_capital
from mfbo_torch.loop.runner import Ended, drive
from mfbo_torch.loop.stopping import Stopping
from mfbo_torch.problems.base import Problem
from mfbo_torch.space.outcome_constraints import Limit
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.utils.errors import SettingError

LOGGER = logging.getLogger(__name__)
MAY_DIFFER = ("capital", "out", *(option.name for option in fields(RunOptions)))  # when a run is continued
STAND_INS = {
    "problem": {"class_path": "mfbo_torch.problems.Currin", "init_args": {}},
    "strategy": {"class_path": "mfbo_torch.strategies.RandomSearch", "init_args": {}},
}
"""In the place of classes that are not imported, while the other settings are read."""


class Experiment(NamedTuple):
    """A run and what has become of it."""

    settings: Mapping[str, Any]
    problem: Problem
    strategy: Strategy
    history: History
    stopped: str = ""
    """Why it ended before its capital was spent."""


def prepare(settings: Mapping[str, Any]) -> tuple[Problem, Strategy]:
    """Make the problem and the strategy of a run and see whether it can start; nothing is written.

    Raises:
        SettingError: A setting cannot work, or the output folder holds something else.
    """
    problem, strategy = build(settings)
    check_capital(problem, settings["capital"])
    options = RunOptions.of(settings)
    options.start()
    options.check(problem)
    Stopping(options, problem, strategy.bind(problem.space, settings["capital"]))
    given(settings, problem)
    check_folder(settings)
    return problem, strategy


def begun(settings: Mapping[str, Any]) -> History:
    """What the journal of a run holds already, if there is one."""
    path = Path(settings["out"]) / JOURNAL
    return recorded(path.parent) if path.exists() and path.stat().st_size else History()


def given(settings: Mapping[str, Any], problem: Problem) -> list[Record]:
    """The observations a run begins with; none where it has begun."""
    if settings["warm_start"] is None or len(begun(settings)):
        return []
    path = Path(settings["warm_start"])
    if not path.is_dir():
        return tabular_io.read(path, problem)
    try:
        source = load(path)
    except SettingError as error:
        raise SettingError("warm_start", str(path), f"the folder of a run: {error}") from error
    return tabular_io.taken(source.history, source.problem, problem, str(path))


def check_folder(settings: Mapping[str, Any]) -> None:
    """See whether the output folder is new or holds a part of the same run.

    Raises:
        SettingError: It holds something else, or more was spent already than the capital.
    """
    out = Path(settings["out"])
    if out.exists() and not out.is_dir():
        raise SettingError("out", str(out), "a folder")
    history = begun(settings)
    if not len(history) and (out / TRIALS).exists():
        wanted = f"without {TRIALS}, which has checkpoints of a run whose history is not there"
        raise SettingError("out", str(out), wanted)
    if not (out / CONFIG).exists():
        for name in (JOURNAL, SUMMARY, PICTURE):
            if (out / name).exists() and (len(history) or name != JOURNAL):
                raise SettingError("out", str(out), f"a new folder or one of this run; it has {name} but no {CONFIG}")
        return
    stored = read_mapping(out / CONFIG, "out")
    if "strategies" in stored:
        raise SettingError("out", str(out), "a new folder or one of this run; it holds a comparison")
    spent = history.spent
    if not spent:
        return
    if any(stored.get(setting) != settings[setting] for setting in settings):
        with suppress(SettingError), nothing_imported(stored):
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
) -> Ended:
    """Start or continue the run of a folder that :func:`prepare` has found good.

    Args:
        settings: Resolved settings.
        problem: Their problem.
        strategy: Their strategy.
        progress: Whether to show a progress bar.
        picture: Whether to draw the progress at the end.

    Returns:
        How it ended.
    """
    out = Path(settings["out"]).absolute()  # an objective may go elsewhere
    with writable("out", out, "folder"):
        out.mkdir(parents=True, exist_ok=True)
    options, earlier = RunOptions.of(settings), given(settings, problem)
    with Journal(out / JOURNAL) as journal, logged(out / LOG):
        try:
            with options.start() as workers:
                write_settings(settings, out)  # by the one process that has the journal
                keep(problem, out)
                capital = settings["capital"]
                how = (options, workers, journal, progress, earlier, out / TRIALS)
                ended = drive(problem, strategy, capital, *how)
        except JournalGone as error:
            saved = _free(out.with_name(f"{out.name}.saved.sqlite"))
            journal.save(saved)
            wanted = f"left where it is during a run; what is known is in {saved}"
            raise SettingError("out", str(out), wanted) from error
        except Hopeless:
            _conclude(Experiment(settings, problem, strategy, journal.history()), out, False, picture)
            raise
    _conclude(Experiment(settings, problem, strategy, ended.history, ended.stopped), out, ended.finished, picture)
    return ended


def _free(path: Path) -> Path:
    """A path of this kind where there is nothing yet."""
    others = (path.with_name(f"{path.stem}-{i}{path.suffix}") for i in count(2))
    return next(p for p in chain([path], others) if not p.exists())


def _conclude(experiment: Experiment, out: Path, finished: bool, picture: bool) -> None:
    """Write the summary and the picture."""
    strategy = experiment.strategy.bind(experiment.problem.space, experiment.settings["capital"])
    experiment = experiment._replace(strategy=strategy)
    with writable("out", out, "folder"):
        write(out / SUMMARY, json.dumps({**summarise(experiment), "finished": finished}, indent=2) + "\n")
        if picture:
            name = type(experiment.strategy).__name__
            plots.progress(experiment.history, experiment.problem, name).savefig(out / f".{PICTURE}", format="png")
            os.replace(out / f".{PICTURE}", out / PICTURE)


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """What the run says of its decisions, in a file."""
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


def load(out: str | Path) -> Experiment:
    """The run of a folder, finished or not.

    Raises:
        SettingError: There is none.
    """
    stored = read_mapping(Path(out) / CONFIG, "folder")
    if "strategies" in stored:
        raise SettingError("folder", str(out), "that of a single run; this one holds a comparison")
    with nothing_imported(stored):
        settings = read_settings(stored)
        history = recorded(Path(out))
        problem, strategy = shown(settings, Path(out))
        check_history(history, problem.space)
    return Experiment(
        settings, problem, strategy.bind(problem.space, settings["capital"]), history, stopped(Path(out), history)
    )


def read_settings(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that is shown, all spelt out but for those of classes that are not imported."""
    kept = {name: stored[name] for name in STAND_INS if foreign(stored.get(name))}
    return {**resolve_run({**stored, **{name: STAND_INS[name] for name in kept}}), **kept}


def shown(settings: Mapping[str, Any], out: Path) -> tuple[Problem, Strategy]:
    """The problem and the strategy of a run that is shown; stand-ins where their classes are not imported.

    Raises:
        SettingError: There is too little in the folder to stand in for the problem.
    """
    apart = {name: settings[name] for name in STAND_INS if foreign(settings[name])}
    problem, strategy = build({**settings, **{name: STAND_INS[name] for name in apart}}, to_evaluate=False)
    paths = {name: str(value["class_path"] if isinstance(value, Mapping) else value) for name, value in apart.items()}
    if path := paths.get("problem"):
        file = out / KNOWN
        problem = stand_in(read_mapping(file, "folder") if file.exists() else None, path)
    if path := paths.get("strategy"):
        strategy = type(path.rpartition(".")[2], (RandomSearch,), {})(seed=settings["seed"])
    return problem, strategy


def keep(problem: Problem, out: Path) -> None:
    """Note what is needed to show a run of a problem of one's own without importing it."""
    known = None if type(problem).__module__.startswith("mfbo_torch.") else known_of(problem)
    if known is not None:
        with writable("out", out, "folder"):
            write(out / KNOWN, json.dumps(known, indent=2) + "\n")


def advice(experiment: Experiment) -> Record | Recommendation | None:
    """What the strategy recommends; the best observation, and a warning, where its model cannot be made here."""
    _, problem, strategy, history, _ = experiment
    try:
        return strategy.recommend(history)
    except SettingError:
        raise
    except Exception as error:  # a device that is not here, data that no model can be made of
        LOGGER.warning("the best observation is recommended, as the model failed: %s", describe(error))
        return history.best(problem.space.target)


def explained(experiment: Experiment) -> list[float] | None:
    """How much of the target's variance each fidelity explains; ``None`` where no model tells, or it cannot be made."""
    _, _, strategy, history, _ = experiment
    try:
        found = strategy.explained(history)
    except Exception as error:  # as above; what is recommended has been said
        LOGGER.debug("no shares of the variance, as the model failed: %s", describe(error))
        return None
    return None if found is None else list(found)


def parameters_of(advised: Recommendation, problem: Problem) -> dict[str, Any]:
    """What is recommended by name: the parameters of a design, ``x1, x2, ...`` of an input."""
    if advised.best is None:
        return {f"x{i}": value for i, value in enumerate(advised.x, 1)}
    return problem.space.named(advised.x)


def summarise(experiment: Experiment) -> dict[str, Any]:
    """What a run has found and what it took, as JSON values.

    ``"recommended"`` is what the model expects to be best where that is not the best observation, see
    :class:`~mfbo_torch.history.Recommendation`; else ``None``. ``"explained"`` is the share of the target's variance
    that each fidelity explains, where a model tells. ``"stopped"`` is why the run ended before its capital was spent,
    ``"forecast"`` what the rest of that is likely to pay for, :class:`~mfbo_torch.loop.eta.Forecast`, or ``None``.
    """
    settings, problem, strategy, history, _ = experiment
    space = problem.space
    best, advised = history.best(space.target), advice(experiment)
    recommended = None
    if isinstance(advised, Recommendation):
        recommended = {
            "parameters": parameters_of(advised, problem),
            "mean": problem.signed(advised.mean),
            "deviation": advised.deviation,
            "noise": list(advised.noise),
            **({} if advised.feasible is None else {"feasible": advised.feasible}),
        }
    workers = settings.get("max_pending") or settings.get("workers") or 1
    coming = None if experiment.stopped else forecast(strategy, history, settings["capital"], workers)
    packages = ("mfbo-torch", "torch", "botorch", "gpytorch")
    return {
        "problem": problem.name,
        "strategy": type(strategy).__name__,
        "best_parameters": None if best is None else space.named(best.query.x),
        "best_value": problem.value_of(best),
        "recommended": recommended,
        **({"constraints": _kept_limits(space.limits, history, best)} if space.limits else {}),
        "capital": settings["capital"],
        "spent": history.spent,
        "stopped": experiment.stopped or None,
        "forecast": None if coming is None else coming._asdict(),
        "fidelities": None if space.fidelities is None else {space.fidelities.name: list(space.fidelities.values)},
        "queries_per_fidelity": history.queries_per_fidelity(space.num_fidelities),
        "explained": explained(experiment),
        "failures": len(history.select(Status.FAILED)),
        "decision_seconds": math.fsum(r.decision_seconds for r in history),
        "evaluation_seconds": math.fsum(r.evaluation_seconds for r in history),
        "seed": settings["seed"],
        "versions": {
            **{name.replace("-", "_"): version(name) for name in packages},
            "python": platform.python_version(),
        },
    }


def _kept_limits(limits: Sequence[Limit], history: History, best: Record | None) -> dict[str, Any]:
    """For each limit how many observations keep it, and what was measured at the best one."""
    found: dict[str, Any] = {}
    for limit in limits:
        met = [r.outcomes[limit.name].met for r in history.done]
        at_best = None if best is None else best.outcomes[limit.name].value
        found[limit.name] = {"limit": str(limit), "kept": sum(met), "of": len(met), "at_best": at_best}
    return found


@contextmanager
def writable(setting: str, path: Path, kind: str) -> Iterator[None]:
    """Where a file or folder is written that a setting names."""
    try:
        yield
    except OSError as error:
        raise SettingError(setting, str(path), f"a {kind} that can be written: {error.strerror}") from error


def write_settings(settings: Mapping[str, Any], out: Path | None = None) -> None:
    """Put the settings of a run or a comparison into its folder.

    Raises:
        SettingError: It cannot be written.
    """
    out = Path(settings["out"]) if out is None else out
    with writable("out", out, "folder"):
        out.mkdir(parents=True, exist_ok=True)
        write(out / CONFIG, yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))


def write(path: Path, text: str) -> None:
    """Replace a file at once, so that it is never half there."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
