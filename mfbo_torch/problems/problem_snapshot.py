"""What is kept of a problem, to show results without importing the problem's own class."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from mfbo_torch.history import History
from mfbo_torch.history.observation import Outcome, judged
from mfbo_torch.history.storage.beside import digest_path
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.objectives import known_values
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import write_text
from mfbo_torch.utils.validation import number

_SHOWN = ("signed", "value_of", "pseudo_rewards")
"""The methods that showing results calls; a problem with its own ones cannot be replaced by what is kept of it."""


class _Recorded(Problem):
    """A problem of which the space, the sign and the known values are kept; it cannot be evaluated."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._name, space = str(known["name"]), dict(known["space"])
        parameters = tuple(Parameter(**parameter) for parameter in space.pop("parameters"))
        if space.get("epochs") is not None:
            space.pop("fidelities", None)  # they follow from the epochs
        self.space = Space(parameters, tuple(space.pop("costs")), **space)
        self.maximize = bool(known["maximize"])
        ends = [None if known[name] is None else number(name, known[name]) for name in ("optimum", "worst")]
        self.optimum, self.worst = ends

    @property
    def name(self) -> str:
        return self._name

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        raise SettingError("problem", self._name, "imported, to be evaluated")


def known_of(problem: Problem) -> dict[str, Any] | None:
    """What is needed to show results of a problem, as JSON values; ``None`` where its class itself is needed."""
    kind = type(problem)
    if isinstance(problem, IndirectProblem) or type(problem.space) is not Space:
        return None
    if any(getattr(kind, name) is not getattr(Problem, name) for name in _SHOWN):
        return None
    space = {field.name: getattr(problem.space, field.name) for field in fields(Space)}
    space["parameters"] = [{f.name: getattr(p, f.name) for f in fields(Parameter)} for p in space["parameters"]]
    space["objectives"] = [one._replace(known=None) for one in problem.space.objectives]  # a journal has what they were
    values = {"name": problem.name, "maximize": problem.maximize, "optimum": problem.optimum, "worst": problem.worst}
    try:
        known: dict[str, Any] = json.loads(json.dumps({**values, "space": space}))
    except (TypeError, ValueError):
        return None
    return known


def shown_of(problem: Problem) -> dict[str, Any]:
    """What is needed to show a run in a few lines without its problem, as JSON values."""
    value = getattr(problem, "value", None)
    own = {"name": problem.name, "maximize": problem.maximize, "value": value if isinstance(value, str) else None}
    return {**own, **_shown(problem.space)}


def _shown(space: Space) -> dict[str, Any]:
    return {
        "parameters": _parameters(space),
        "levels": [[space.stretch_name(each), each.start, each.stop] for each in space.stretches],
        "named": space.fidelities is not None,
        "costs": list(space.costs),
        "measured": space.measured,
        "limits": [list(limit) for limit in space.limits],
        **({"objectives": [[one.name, one.maximize] for one in space.objectives]} if space.objectives else {}),
    }


def _parameters(space: Space) -> list[dict[str, Any]]:
    kept = ("name", "lower", "upper", "integer", "when")
    return [{**{name: getattr(p, name) for name in kept}, "choices": list(p.choices)} for p in space.parameters]


def note(journal: Journal | None, problem: Problem, **run: Any) -> None:
    """Keep beside a journal what it is about: the problem as :func:`shown_of` and :func:`known_of` have it, and what
    the ``run`` is; a run goes on without it."""
    if journal is None:
        return
    with suppress(OSError, TypeError, ValueError):
        known = {**shown_of(problem), "problem": known_of(problem), **run}
        write_text(digest_path(journal.path), json.dumps(known) + "\n")


def check_noted(journal: Journal, problem: Problem) -> None:
    """Refuse a journal whose note says that its values have the other sign, or belong to other objectives; one without
    a note is taken. :func:`check_space` has seen its parameters and fidelities."""
    before, now = _note_of(journal), json.loads(json.dumps(shown_of(problem), default=str))
    own, new = _objectives(before), _objectives(now)
    if own and new and own != new and 1 in (len(own), len(new)):  # of several each value is kept by its name
        wanted = f"a history of this problem; its own has the objective{'s' * (len(own) > 1)} {', '.join(own)}"
        raise SettingError("journal", str(journal.path), wanted)
    if not problem.space.objectives and before.get("maximize", now["maximize"]) != now["maximize"]:
        wanted = f"a history of this problem; its own is one to {'maximize' if before['maximize'] else 'minimize'}"
        raise SettingError("journal", str(journal.path), wanted)


def check_space(journal: Journal | None, space: Space) -> None:
    """Refuse a journal whose note says that its values belong to other parameters, choices or fidelities; where there
    are no values or no note, keep one of the space beside it."""
    if journal is None:
        return
    path, now = digest_path(journal.path), json.loads(json.dumps(_shown(space), default=str))
    if not journal.sequence or not path.exists():
        with suppress(OSError):
            return write_text(path, json.dumps(now) + "\n")
        return
    before = _note_of(journal)
    if (known := _names(before)) != _names(now) and known:
        raise SettingError("journal", str(journal.path), f"a history of this problem; its own has {', '.join(known)}")
    for name, choices in _choices(before).items():
        if _choices(now).get(name, [])[: len(choices)] != choices:  # a history keeps their numbers
            own = ", ".join(map(str, choices))
            wanted = f"a history of this problem; the choices of its own {name} begin with {own}, in this order"
            raise SettingError("journal", str(journal.path), wanted)
    costs, named = before.get("costs", now["costs"]), before.get("named", now["named"])
    levels = before.get("levels", now["levels"])
    renamed = named != now["named"] and costs != now["costs"]  # the same ones may be given names
    if renamed or (named and now["named"] and levels != now["levels"]):
        names = ", ".join(str(level[0]) for level in levels) if named else "not named"
        wanted = f"a history of this problem; the fidelities of its own are {names}"
        raise SettingError("journal", str(journal.path), wanted)
    others = isinstance(costs, list) and costs != now["costs"][: len(costs)]  # a target may be added above
    if others and len(costs) != len(now["costs"]):
        listed = ", ".join(map(str, costs))
        raise SettingError(
            "journal", str(journal.path), f"a history of this problem; the costs of its own are {listed}"
        )


def stored_history(journal: Journal | None, space: Space) -> History:
    """The history in a journal: its outcomes judged by the present limits, objectives that are known functions as these
    are now. It is refused where an outcome was not measured, or where it has several objectives and the space one."""
    history, limits = History() if journal is None else journal.history(), space.outcomes
    wanted, path = "a history of this problem", str(journal and journal.path)
    own = next((names for r in history if isinstance(names := r.query.meta.get("observed"), list)), None)
    if own and not space.objectives:
        raise SettingError("journal", path, f"{wanted}; its own has the objectives {', '.join(map(str, own))}")
    try:
        for record in history.done if limits or any(r.outcomes for r in history) else []:
            known = known_values(space.objectives, space.named(record.query.x))
            found = judged({**record.outcomes, **{name: Outcome(value) for name, value in known.items()}}, limits)
            for one in space.objectives[:1]:  # another one came first perhaps, or it had the other direction
                first = found[one.name]
                record = replace(record, value=one.signed(first.value), standard_error=first.standard_error)
            history = history.updated(replace(record, outcomes=found))
        return history
    except KeyError as missing:
        raise SettingError("journal", path, f"a history in which {missing.args[0]} was measured") from None


def _note_of(journal: Journal) -> dict[str, Any]:
    """What is kept beside a journal, nothing where that cannot be read."""
    try:
        return dict(json.loads(digest_path(journal.path).read_text("utf-8")))
    except (OSError, TypeError, ValueError):
        return {}


def _names(shown: Mapping[str, Any]) -> list[str]:
    """The parameters in what is shown of a problem, none where a stranger's note has something else."""
    found = shown.get("parameters")
    return [str(each.get("name")) for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _choices(shown: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The choices of each parameter that has some, in what is shown of a problem."""
    found = shown.get("parameters")
    listed = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return {str(p.get("name")): p["choices"] for p in listed if isinstance(p.get("choices"), list) and p["choices"]}


def _objectives(shown: Mapping[str, Any]) -> list[str]:
    """The names of the objectives in what is shown of a problem, none where it does not say."""
    found = shown.get("objectives", [[shown.get("value")]])
    names = [each[0] for each in found if isinstance(each, list) and each] if isinstance(found, list) else []
    return [*map(str, names)] if None not in names else []


def stand_in(known: Any, class_path: str) -> Problem:
    """A problem made of what :func:`known_of` has kept."""
    try:
        return _Recorded(known)
    except Exception as error:  # whatever a space that is none leads to
        package = class_path.partition(".")[0]
        wanted = f"imported first, as in python -c 'import {package}; import mfbo_torch.app.cli; ...'"
        raise SettingError("problem.class_path", class_path, wanted) from error
