"""From a YAML file and flags to a problem, a strategy and the settings of a run."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from types import FunctionType
from typing import Any

import numpy as np
import torch
from jsonargparse import ArgumentParser

from mfbo_torch import problems, strategies
from mfbo_torch.app import schema
from mfbo_torch.app.schema import add_run_settings, begin_run_parser
from mfbo_torch.loop.evaluation import describe
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.user.function import PROGRAM, unavailable
from mfbo_torch.space import Space
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.utils.errors import SettingError, meant
from mfbo_torch.utils.init_signature import settings_of

BASES: dict[str, type] = {"problem": Problem, "strategy": Strategy}
OFFERED = (problems.__name__, strategies.__name__)  # imported, so that short class names are found
SHARED = ("seed", "device", "dtype")  # settings of the run that go to the strategy if it takes them
_GIVEN_BY_THE_RUN = {*SHARED, "space", "capital"}
_TRUSTED: dict[str, FunctionType] = {}
"""Functions that stored strategies may call, by ``module:name``."""
_OBJECT, _FUNCTION = {"class_path", "init_args"}, {"function"}
"""The keys of a stored object and of a stored function."""


@cache
def run_parser() -> ArgumentParser:
    """What ``mfbo run`` understands."""
    parser = begin_run_parser()
    parser.add_subclass_arguments(Problem, "problem", required=True, help="what to optimise")
    parser.add_subclass_arguments(Strategy, "strategy", required=True, skip=_GIVEN_BY_THE_RUN, help="how to search")
    add_run_settings(parser)
    return parser


@cache
def _builder() -> ArgumentParser:
    """Makes objects of resolved settings; only here a strategy has its seed."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(Problem, "problem", required=False)
    parser.add_subclass_arguments(Strategy, "strategy", required=False, skip={"space", "capital"})
    return parser


def resolve(parser: ArgumentParser, arguments: Sequence[str]) -> dict[str, Any]:
    """:func:`mfbo_torch.app.schema.resolve`, which explains the settings of classes too."""
    return schema.resolve(parser, arguments, explain)


def resolve_run(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one run, given as a mapping, all spelt out.

    Raises:
        SettingError: Something is unknown, missing or of a wrong type.
    """
    parser = run_parser()
    return schema.attempt(parser, lambda: parser.parse_object(dict(given)), given, explain)


def build(settings: Mapping[str, Any], to_evaluate: bool = True) -> tuple[Problem, Strategy]:
    """The problem and the strategy that resolved settings describe.

    Args:
        settings: Resolved settings.
        to_evaluate: Whether the problem is going to be evaluated; if not, the user's objective is not imported, which
            may be somewhere else by now.

    Raises:
        SettingError: They cannot be made with these settings.
    """
    try:
        torch.zeros(1, device=settings["device"])
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise SettingError("device", settings["device"], f"a device of this machine: {reason}") from error
    problem, strategy = json.loads(json.dumps([settings["problem"], settings["strategy"]]))
    if not to_evaluate and "objective" in accepted(problem["class_path"]):
        kept = {name: value for name, value in problem.get("init_args", {}).items() if name not in PROGRAM}
        problem["init_args"] = {**kept, "objective": f"{unavailable.__module__}:{unavailable.__name__}"}
    for setting in SHARED:
        if setting in accepted(strategy["class_path"]):
            strategy.setdefault("init_args", {})[setting] = settings[setting]
    made = {}
    for setting, given in {"problem": problem, "strategy": strategy}.items():
        parser = _builder()
        try:
            made[setting] = parser.instantiate(parser.parse_object({setting: given}))[setting]
        except Exception as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, SettingError):
                cause = cause.__cause__ or cause.__context__
            if cause is not None:
                raise cause from None
            reason = describe(error.__cause__ or error.__context__ or error)
            raise SettingError(setting, given["class_path"], f"one that can be made: {reason}") from error
    if made["problem"].trial is None:  # the stream of noise is the run's, unless it is set
        made["problem"].trial = settings["seed"]
    return made["problem"], made["strategy"]


def accepted(class_path: str) -> list[str]:
    """The settings of a class by its import path."""
    module, _, name = class_path.rpartition(".")
    return list(settings_of(getattr(import_module(module), name)))


def explain(message: str, parser: ArgumentParser, given: Mapping[str, Any]) -> SettingError:
    """:func:`mfbo_torch.app.schema.explain`, which knows the settings of a problem and a strategy."""
    keys, full = re.findall(r'Parser key "([^"]+)"', message), message
    class_path = re.search(r"given class_path '([^']+)'", message)
    option = re.search(r"Option '([^']+)' is not accepted", message)
    if option and class_path:
        return _unknown(".".join([*keys, option[1]]), _given(full).get(option[1]), class_path[1])
    required = "arguments are required" in message
    if option or required or not keys or keys[0] not in BASES:
        return schema.explain(message, parser, given)
    message = re.sub(r"\n {4}- Expected a <class 'NoneType'>\n {2}Given .*\Z", "", message, flags=re.DOTALL)
    message = message.partition("Errors:")[2] or message
    return schema.wrong_type(keys, message) or _no_class(keys[0], full, _given(full))


def _given(message: str) -> dict[str, Any]:
    """What jsonargparse says it was given for a class, as ``class_path`` and its settings."""
    text = re.sub(r"\A.*Given value: ", "", message, flags=re.DOTALL)
    if flag := re.fullmatch(r"NestedArg\(key='([^']*)', val=(.*)\)", text, flags=re.DOTALL):
        key, text = flag.groups()
        return {key.removeprefix("init_args."): ast.literal_eval(text)}
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"class_path": text}
    if not isinstance(value, dict):
        return {"class_path": value}
    settings = value.get("init_args")
    return {**value, **settings} if isinstance(settings, dict) else value


def _unknown(setting: str, value: Any, class_path: str) -> SettingError:
    kind, _, option = setting.rpartition(".")
    if kind == "strategy" and option in SHARED:
        return SettingError(setting, value, f"left out; it is set by {option} for the whole run")
    known = [name for name in accepted(class_path) if kind != "strategy" or name not in _GIVEN_BY_THE_RUN]
    wanted = f"one of the settings of {class_path}: {', '.join(known) or 'it has none'}{meant(option, known)}"
    return SettingError(setting, value, wanted)


def _no_class(setting: str, message: str, given: Mapping[str, Any]) -> SettingError:
    if surplus := sorted(given.keys() - {"class_path", "init_args"}) if "is abstract" in message else []:
        return SettingError(setting, surplus, "a mapping of class_path and init_args, nothing else")
    path, known = given.get("class_path"), sorted(cls.__name__ for cls in concrete(BASES[setting]))
    reason = re.search(r"(No module named .*|module .* has no attribute .*)", message)
    why = f" ({reason[1]})" if reason else ""
    hint = meant(path, known) if isinstance(path, str) else ""
    return SettingError(
        f"{setting}.class_path", path, f"one of {', '.join(known)}, or the import path of your own{why}{hint}"
    )


def concrete(base: type) -> set[type]:
    """The classes below a base class that this package offers."""
    below: set[type] = set()
    children: list[type] = base.__subclasses__()
    for child in children:
        below |= {child} | concrete(child)
    offered = {cls for cls in below if cls.__module__.startswith(OFFERED) and not cls.__name__.startswith("_")}
    return {cls for cls in offered if not inspect.isabstract(cls)}


def strategy_to_settings(strategy: Strategy) -> dict[str, Any]:
    """A strategy as its class and settings, and its space and capital where it has its own.

    Returns:
        ``{"class_path": path, "init_args": settings}``. The settings hold JSON values, tensors and arrays; strategies,
        spaces and dataclasses of this package in the same form; functions as ``{"function": "module:name"}``.

    Raises:
        SettingError: A setting is something else, or a class or function is not at the top level of a module.
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

    Raises:
        SettingError: Its class or a function is not known, or it is no strategy.
    """
    made = _from_stored(stored)
    if not isinstance(made, Strategy):
        raise SettingError("strategy", stored, "a strategy; import the module of your own before loading")
    return made


def trust(*functions: FunctionType) -> None:
    """Let stored strategies call these functions; those of a strategy that this process stores are trusted already.

    Args:
        functions: Functions at the top level of a module, such as the ``probabilities`` of a
            :class:`~mfbo_torch.space.indirect.Policy`.

    Raises:
        SettingError: One of them is something else.
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
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value) and set(value) not in (_OBJECT, _FUNCTION):
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
    if set(value) != _OBJECT:
        return {key: _from_stored(item) for key, item in value.items()}
    kind = _storable_class(value["class_path"])
    if kind is None:
        allowed = "a strategy or a space of a module that is imported before loading, or a class of mfbo_torch"
        raise SettingError("class_path", value["class_path"], allowed)
    settings = _from_stored(value["init_args"])
    try:
        return kind(**settings)
    except SettingError:
        raise
    except Exception as error:  # of whatever kind: the file may say anything
        raise SettingError("init_args", settings, f"what {kind.__name__} is made with: {describe(error)}") from error


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
