"""A run as a study of Optuna, for its dashboard and its plots."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from mfbo_torch.history import History, Record, Status
from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.parameter import text
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import replacing, temporary_folder

STATES = {
    Status.DONE: TrialState.COMPLETE,
    Status.FAILED: TrialState.FAIL,
    Status.STOPPED: TrialState.PRUNED,
    Status.PENDING: TrialState.RUNNING,
}
FIDELITY = "fidelity"
"""The parameter of the study that has the number of the fidelity, where it has no name."""


EXPORTED = "mfbo_torch:exported"
"""The user attribute of a study that was written here, and so may be written again."""


def write(history: History, problem: Problem, path: Path, explain: Callable[[Record], str] | None = None) -> int:
    """Write a run as a study in SQLite, ``optuna-dashboard sqlite:///FILE`` opens it; gives the number of its trials.

    A query is a trial with its number; the fidelity is a parameter, by its name where it has one. Only queries at the
    target are complete: those below are pruned trials, whose values are intermediate ones, so that the study's best
    trial is one at the target. Costs, standard errors, outcomes and what ``explain`` says are user attributes.

    Raises:
        SettingError: The file does not end with ``.db`` or ``.sqlite3``, or cannot be written.
    """
    if path.suffix not in (".db", ".sqlite3"):
        raise SettingError("file", str(path), "a name that ends with .db or .sqlite3")
    if path.exists() and not _exported(path):
        raise SettingError("file", str(path), "a new file, or one that was exported before")
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with temporary_folder() as folder:
            storage = optuna.storages.RDBStorage(f"sqlite:///{folder / 'study.db'}")
            study = _study(problem, storage)
            study.set_user_attr(EXPORTED, True)
            study.add_trials([_trial(record, problem, explain) for record in history])
            storage.remove_session()
            storage.engine.dispose()
            with replacing(path) as file:
                file.write((folder / "study.db").read_bytes())
    except OSError as error:
        raise SettingError("file", str(path), f"a file that can be written: {error.strerror or error}") from error
    finally:
        optuna.logging.set_verbosity(verbosity)
    return len(history)


def _exported(path: Path) -> bool:
    """Whether all studies in a file were written here."""
    own = "SELECT study_id FROM study_user_attributes WHERE key = ?"
    others = f"SELECT count(*) FROM studies WHERE study_id NOT IN ({own})"
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as known:
        return known.execute(others, (EXPORTED,)).fetchone() == (0,)
    return False


def _study(problem: Problem, storage: Any) -> Study:
    objectives = problem.space.objectives
    if objectives:
        directions = ["maximize" if one.maximize else "minimize" for one in objectives]
        study = optuna.create_study(storage=storage, study_name=problem.name, directions=directions)
        study.set_metric_names([one.name for one in objectives])
        return study
    direction = "maximize" if problem.maximize else "minimize"
    return optuna.create_study(storage=storage, study_name=problem.name, direction=direction)


def _trial(record: Record, problem: Problem, explain: Callable[[Record], str] | None) -> FrozenTrial:
    space, m = problem.space, record.query.fidelity
    parameters, distributions = dict[str, Any](), dict[str, BaseDistribution]()
    named = space.named(record.query.x)
    for parameter in space.parameters:
        if parameter.name in named:
            value = named[parameter.name]
            parameters[parameter.name] = _label(value) if parameter.choices else value
            distributions[parameter.name] = _distribution(parameter)
    if space.num_fidelities > 1:
        name, values = (FIDELITY, [*range(space.num_fidelities)]) if space.fidelities is None else space.fidelities
        name = name if name not in parameters else f"{name} (fidelity)"
        parameters[name], distributions[name] = values[m], CategoricalDistribution(list(values))
    state, value = STATES[record.status], problem.value_of(record)
    seen: dict[int, float] = {round(min(step, 2e9)): problem.signed(value) for step, value in record.curve}
    if state == TrialState.COMPLETE and m < space.target:
        state = TrialState.PRUNED
        seen = seen or {_step(space, m): value if value is not None else math.nan}
    values_of: list[float] | None = None
    if state == TrialState.COMPLETE and value is not None:
        values_of = [record.outcomes[one.name].value for one in space.objectives] or [value]
    noted = {"cost": record.cost, "standard_error": record.standard_error, "reason": record.reason or None}
    noted |= {f"{name} (outcome)" if name in noted else name: out.value for name, out in record.outcomes.items()}
    if explain is not None:
        noted["why"] = explain(record)
    found = create_trial(
        state=state,
        values=values_of,
        params=parameters,
        distributions=distributions,
        user_attrs={name: part for name, part in noted.items() if part is not None},
        intermediate_values={} if len(space.objectives) > 1 else seen,
    )
    found.datetime_start = datetime.now()
    found.datetime_complete = None
    if state.is_finished():
        seconds = max(0.0, min(record.evaluation_seconds, 1e9))
        found.datetime_complete = found.datetime_start + timedelta(seconds=seconds)
    return found


def _step(space: Space, m: int) -> int:
    """The step that a value at a fidelity is shown at: its value where that is a whole number, else its number."""
    value = next(iter(space.fidelity_value(m).values()), m)
    return int(value) if isinstance(value, int | float) and value == round(value) and value >= 0 else m


def _distribution(parameter: Parameter) -> BaseDistribution:
    if parameter.choices:
        return CategoricalDistribution([*map(_label, parameter.choices)])
    if parameter.integer:
        return IntDistribution(round(parameter.lower), round(parameter.upper), log=parameter.log)
    return FloatDistribution(parameter.lower, parameter.upper, log=parameter.log)


def _label(choice: Any) -> Any:
    """A choice as Optuna takes it: itself where it is a number, a text or nothing, else as a text."""
    return choice if choice is None or isinstance(choice, bool | int | float | str) else text(choice)
