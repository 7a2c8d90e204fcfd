"""From settings to a problem and a strategy, and from a strategy to what a file can hold of it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from operator import attrgetter
from types import FunctionType
from typing import Any

import numpy as np
import torch

from mfbo_torch import problems, strategies
from mfbo_torch.app import schema
from mfbo_torch.app.schema import RUN, entry
from mfbo_torch.app.setting_types import (
    OBJECT,
    class_settings,
    is_foreign,
    located,
    make_object,
    read_all,
    read_class_settings,
)
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.user.function import PROGRAM, unavailable
from mfbo_torch.space import Space
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.by_name import usual
from mfbo_torch.utils.device import usable_device
from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.validation import describe, whole

BASES: dict[str, type] = {"problem": Problem, "strategy": Strategy}
OFFERED = {"problem": problems, "strategy": strategies}
SHARED = ("seed", "device", "dtype")  # settings of the run that go to the strategy if it takes them
_GIVEN_BY_THE_RUN = {*SHARED, "space", "capital"}
_TRUSTED: dict[str, FunctionType] = {}
"""Functions that stored strategies may call, by ``module:name``."""
_FUNCTION = {"function"}
"""The key of a stored function."""


def resolve_run(given: Mapping[str, Any], importing: bool = True) -> dict[str, Any]:
    """The settings of one run, given as a mapping, all spelt out as JSON values; see :func:`resolve_classes`."""
    return resolve_classes(read_all(given, RUN.settings), importing)


def resolve_classes(settings: Mapping[str, Any], importing: bool = True) -> dict[str, Any]:
    """The settings of one run that were read, with those of its problem and its strategy spelt out.

    Without a strategy it is the :func:`~mfbo_torch.strategies.by_name.usual` one of the problem. Unless ``importing``,
    a problem or a strategy of a module that is not imported stays as it is.
    """
    found = dict(settings)
    for setting in BASES:
        named = entry(setting, {} if setting == "strategy" and settings[setting] is None else settings[setting])
        if setting == "strategy" and named["class_path"] is None and importing:
            named["class_path"] = usual(build_problem(found, to_evaluate=False).space).__name__
        found[setting] = named
        if importing or not is_foreign(named["class_path"]):
            found[setting] = _resolve_class(setting, named, importing)
    return found


def build(settings: Mapping[str, Any], to_evaluate: bool = True) -> tuple[Problem, Strategy]:
    """The problem and the strategy that resolved settings describe."""
    return build_problem(settings, to_evaluate), build_strategy(settings)


def build_problem(settings: Mapping[str, Any], to_evaluate: bool = True) -> Problem:
    """The problem of :func:`build`; the user's objective, which may be gone, is imported only to evaluate it."""
    kind, given = located(settings["problem"]["class_path"]), dict(settings["problem"]["init_args"])
    if not to_evaluate and "objective" in class_settings(kind):
        given = {name: value for name, value in given.items() if name not in PROGRAM}
        given["objective"] = f"{unavailable.__module__}:{unavailable.__name__}"
    with _constructing("problem", settings["problem"]["class_path"], "one that can be made"):
        problem: Problem = make_object(kind, given)
    if problem.trial is None:  # the stream of noise is the run's, unless it is set
        problem.trial = whole("seed", settings["seed"], 0)
    return problem


def build_strategy(settings: Mapping[str, Any]) -> Strategy:
    """The strategy of :func:`build`."""
    usable_device("device", settings["device"])
    path, given = settings["strategy"]["class_path"], settings["strategy"]["init_args"]
    kind = located(path)
    shared = {name: settings[name] for name in SHARED if name in class_settings(kind)}
    with _constructing("strategy", path, "one that can be made"):
        strategy: Strategy = make_object(kind, {**given, **shared})
    return strategy


def explain_class(setting: str, name: str) -> str:
    """What ``--problem.help CLASS`` and ``--strategy.help CLASS`` print."""
    kind, _ = _class(setting, name)
    skip = _GIVEN_BY_THE_RUN if setting == "strategy" else ()
    known = {name: each for name, each in class_settings(kind).items() if name not in skip}
    summary = " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].split())
    return schema.parser(RUN._replace(description=summary), known, f"{setting}.").format_help()


def _resolve_class(setting: str, named: Mapping[str, Any], importing: bool) -> dict[str, Any]:
    """The entry of a problem or a strategy, its class by its import path and its settings spelt out."""
    kind, path = _class(setting, named["class_path"], importing)
    given, skip = named["init_args"], _GIVEN_BY_THE_RUN if setting == "strategy" else ()
    for name in set(SHARED) & set(given) & set(skip):
        raise SettingError(f"strategy.{name}", given[name], f"left out; it is set by {name} for the whole run")
    settings = read_class_settings(setting, given, kind, path, skip=skip, importing=importing)
    return {"class_path": path, "init_args": settings}


def _class(setting: str, path: Any, importing: bool = True) -> tuple[type, str]:
    """The class that a setting names, and its import path: by its name alone where it is imported."""
    base, offered, why = BASES[setting], OFFERED[setting], ""
    kinds = {each.__name__: each for each in _below(base) if not inspect.isabstract(each)}
    own = {name: each for name, each in kinds.items() if getattr(offered, name, None) is each}
    kind: Any = (kinds | own).get(path) if isinstance(path, str) else None
    if kind is None and isinstance(path, str) and "." in path:
        try:
            kind = located(path, importing)
        except LookupError as error:
            why = f" ({' '.join(str(error).split())})"
    if isinstance(kind, type) and issubclass(kind, base) and not inspect.isabstract(kind):
        if kind in own.values():
            return kind, f"{offered.__name__}.{kind.__name__}"
        return kind, path if "." in path else _path_of(kind)
    hint = did_you_mean(path, own) if isinstance(path, str) else ""
    allowed = f"one of {', '.join(sorted(own))}, or the import path of your own{why}{hint}"
    raise SettingError(f"{setting}.class_path", path, allowed)


def _below(base: type) -> set[type]:
    """The classes below one, of all modules that are imported."""
    children: list[type] = base.__subclasses__()
    return {cls for child in children for cls in ({child} | _below(child))}


@contextmanager
def _constructing(setting: str, value: Any, wanted: str) -> Iterator[None]:
    """Where a constructor is called, which may raise anything."""
    try:
        yield
    except SettingError:
        raise
    except Exception as error:
        raise SettingError(setting, value, f"{wanted}: {describe(error)}") from error


def strategy_to_settings(strategy: Strategy) -> dict[str, Any]:
    """A strategy as its class and settings, and its space and capital where it has its own.

    The settings hold JSON values, tensors and arrays; strategies, spaces and dataclasses of this package as
    ``{"class_path": path, "init_args": settings}``; functions as ``{"function": "module:name"}``.
    """
    path = _path_of(type(strategy))
    if _storable_class(path) is not type(strategy):
        raise SettingError("strategy", path, "a class at the top of a module")
    settings = {**strategy.settings, "space": strategy.own_space, "capital": strategy.capital}
    kept = {k: _to_stored(f"{type(strategy).__name__}.{k}", v) for k, v in settings.items() if v is not None}
    return {"class_path": path, "init_args": kept}


def strategy_from_settings(stored: Any) -> Strategy:
    """The strategy that :func:`strategy_to_settings` described, not bound to another space than its own.

    Nothing is imported and no function is called because ``stored`` names it: a class of your own has to be imported
    before, and a function given to :func:`trust`.
    """
    made = _from_stored(stored)
    if not isinstance(made, Strategy):
        raise SettingError("strategy", stored, "a strategy; import the module of your own before loading")
    return made


def trust(*functions: FunctionType) -> None:
    """Let stored strategies call these functions; those of a strategy that this process stores are trusted already.

    They are at the top level of a module, such as the ``probabilities`` of a
    :class:`~mfbo_torch.space.indirect.Policy`; something else is a :class:`SettingError`.
    """
    for function in functions:
        if not isinstance(function, FunctionType):
            raise SettingError("functions", function, "functions at the top level of a module")
        _to_stored("functions", function)


def _to_stored(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str, torch.Tensor, np.ndarray)):
        return value
    if isinstance(value, (list, tuple)):
        return [_to_stored(name, item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value) and set(value) not in (OBJECT, _FUNCTION):
        return {key: _to_stored(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, Strategy):
        return strategy_to_settings(value)
    if isinstance(value, FunctionType):
        path = f"{value.__module__}:{value.__qualname__}"
        if _imported(*path.split(":")) is not value:
            raise SettingError(name, path, "a function at the top level of a module: what is stored is its place")
        _TRUSTED[path] = value
        return {"function": path}
    kind = type(value)
    if is_dataclass(kind) and _storable_class(_path_of(kind)) is kind:
        settings = {f.name: getattr(value, f.name) for f in fields(kind) if f.init}
        stored = {key: _to_stored(f"{name}.{key}", item) for key, item in settings.items()}
        return {"class_path": _path_of(kind), "init_args": stored}
    kinds = "JSON values, tensors, spaces, or functions at the top level of a module"
    raise SettingError(name, kind.__name__, f"what can be stored: {kinds}")


def _from_stored(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_stored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == _FUNCTION:
        path = value["function"]
        function = _TRUSTED.get(path) if isinstance(path, str) else None
        if function is None or _imported(*path.split(":")) is not function:
            raise SettingError("function", path, "one that this program has named before loading, as in trust(policy)")
        return function
    if set(value) != OBJECT:
        return {key: _from_stored(item) for key, item in value.items()}
    kind = _storable_class(value["class_path"])
    if kind is None:
        allowed = "a strategy or a space of a module that is imported before loading, or a class of mfbo_torch"
        raise SettingError("class_path", value["class_path"], allowed)
    settings = _from_stored(value["init_args"])
    with _constructing("init_args", settings, f"what {kind.__name__} is made with"):
        return kind(**settings)


def _path_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _storable_class(path: Any) -> type | None:
    """A class by its path, if a file may have it made: a strategy, a space, or plain values of this package."""
    module, _, name = path.rpartition(".") if isinstance(path, str) else ("", "", "")
    kind = _imported(module, name)
    if not isinstance(kind, type) or kind.__module__ != module:
        return None
    values = module.startswith("mfbo_torch.") and is_dataclass(kind)
    return kind if values or issubclass(kind, (Strategy, Space)) else None


def _imported(module: str, name: str) -> Any:
    """What a module that is imported has by a name."""
    try:
        return attrgetter(name)(sys.modules[module])
    except (KeyError, AttributeError):
        return None
