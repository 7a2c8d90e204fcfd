"""Strategies as values that Ax can store: their class, what they were made with, and a space of their own.

Classes and functions are stored as where they are. Nothing is imported and no function is called because a file
says so: a strategy or a space of one's own has to be imported before loading, and a function has to be named to
:func:`trust`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from operator import attrgetter
from types import FunctionType
from typing import Any

import numpy as np
import torch

from mfbo_torch.loop.evaluation import describe
from mfbo_torch.space import Space
from mfbo_torch.strategies import Strategy
from mfbo_torch.utils.errors import SettingError

_PACKAGE = "mfbo_torch."
_TRUSTED: dict[str, FunctionType] = {}
_OBJECT, _FUNCTION = {"class", "settings"}, {"function"}


def trust(*functions: FunctionType) -> None:
    """Let stored strategies call these functions; those of a strategy that this process stores are known already.

    Args:
        functions: Such as the ``probabilities`` of a :class:`~mfbo_torch.space.indirect.Policy`, each at the top level
        of
            a module.

    Raises:
        SettingError: One of them is something else.
    """
    for function in functions:
        _encode("functions", function)
        if not isinstance(function, FunctionType):
            raise SettingError("functions", function, "functions at the top level of a module")


def encode(strategy: Strategy) -> dict[str, Any]:
    """A strategy as its class and settings; its space too, where it has one of its own.

    Raises:
        SettingError: A setting is not made of JSON values, tensors, strategies, spaces, dataclasses of this
            package, and functions at the top level of a module.
    """
    settings = {**strategy.settings, "space": strategy.own_space, "capital": strategy.capital}
    path = _path(type(strategy))
    if _class(path) is not type(strategy):
        raise SettingError("strategy", path, "a class at the top of a module")
    kept = {k: _encode(f"{type(strategy).__name__}.{k}", v) for k, v in settings.items() if v is not None}
    return {"class": path, "settings": kept}


def decode(stored: Any) -> Strategy:
    """The strategy that :func:`encode` described, not bound to another space than its own.

    Raises:
        SettingError: Its class or a function is not imported, or it is no strategy.
    """
    made = _decode(stored)
    if not isinstance(made, Strategy):
        raise SettingError("strategy", stored, "a strategy; import the module of your own before loading")
    return made


def _encode(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str, torch.Tensor, np.ndarray)):
        return value
    if isinstance(value, (list, tuple)):
        return [_encode(name, item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value) and set(value) not in (_OBJECT, _FUNCTION):
        return {key: _encode(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, Strategy):
        return encode(value)
    if isinstance(value, FunctionType):
        path = f"{value.__module__}:{value.__qualname__}"
        if _function(path) is not value:
            raise SettingError(name, path, "a function at the top level of a module: Ax stores where it is")
        _TRUSTED[path] = value
        return {"function": path}
    kind = type(value)
    if is_dataclass(kind) and _class(_path(kind)) is kind:
        settings = {f.name: getattr(value, f.name) for f in fields(kind) if f.init}
        return {"class": _path(kind), "settings": {k: _encode(f"{name}.{k}", v) for k, v in settings.items()}}
    kinds = "JSON values, tensors, spaces, or functions at the top level of a module"
    raise SettingError(name, kind.__name__, f"what Ax can store: {kinds}")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == _FUNCTION:
        path = value["function"]
        function = _TRUSTED.get(path) if isinstance(path, str) else None
        if function is None or _function(path) is not function:
            allowed = "one that this program has named before loading, as in mfbo_torch.ax.trust(policy)"
            raise SettingError("function", path, allowed)
        return function
    if set(value) != _OBJECT:
        return {key: _decode(item) for key, item in value.items()}
    kind = _class(value["class"])
    if kind is None:
        allowed = "a strategy or a space of a module that is imported before loading, or a class of mfbo_torch"
        raise SettingError("class", value["class"], allowed)
    settings = _decode(value["settings"])
    try:
        return kind(**settings)
    except SettingError:
        raise
    except Exception as error:  # of whatever kind: the file may say anything
        raise SettingError("settings", settings, f"what {kind.__name__} is made with: {describe(error)}") from error


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _class(path: Any) -> type | None:
    """A class by its path, if it is one that may be made: a strategy, a space, or plain values of this package."""
    module, _, name = path.rpartition(".") if isinstance(path, str) else ("", "", "")
    kind = _found(module, name)
    if not isinstance(kind, type) or kind.__module__ != module:
        return None
    values = module.startswith(_PACKAGE) and is_dataclass(kind)
    return kind if values or issubclass(kind, (Strategy, Space)) else None


def _function(path: str) -> FunctionType | None:
    """A function by ``module:name``, if it is defined there."""
    module, _, name = path.partition(":")
    function = _found(module, name)
    return function if isinstance(function, FunctionType) and function.__module__ == module else None


def _found(module: str, name: str) -> Any:
    """What a module that is imported has by a name."""
    try:
        return attrgetter(name)(sys.modules[module])
    except (KeyError, AttributeError):
        return None
