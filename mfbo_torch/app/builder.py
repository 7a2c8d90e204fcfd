"""From a YAML file and flags to a problem, a strategy and the settings of a run."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import torch
from jsonargparse import ArgumentParser

from mfbo_torch import problems, strategies
from mfbo_torch.app import schema
from mfbo_torch.app.schema import add_run_settings, begin_run_parser
from mfbo_torch.loop.evaluation import describe
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.user.function import PROGRAM, unavailable
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.utils.errors import SettingError, meant
from mfbo_torch.utils.init_signature import settings_of

BASES: dict[str, type] = {"problem": Problem, "strategy": Strategy}
OFFERED = (problems.__name__, strategies.__name__)  # imported, so that short class names are found
SHARED = ("seed", "device", "dtype")  # settings of the run that go to the strategy if it takes them
_GIVEN_BY_THE_RUN = {*SHARED, "space", "capital"}


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
