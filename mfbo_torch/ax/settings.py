"""Strategies as values that Ax can store: their class, what they were made with, and a space of their own.

Classes and functions are stored as where they are, and looked up again, never executed blindly: the module of
one's own has to be imported before loading.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from operator import attrgetter
from types import FunctionType
from typing import Any

import numpy as np
import torch

from mfbo_torch.errors import SettingError
from mfbo_torch.space import Space
from mfbo_torch.strategies import Strategy

_PACKAGE = "mfbo_torch."
_OBJECT, _FUNCTION = {"class", "settings"}, {"function"}


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


def decode(stored: Mapping[str, Any]) -> Strategy:
    """The strategy that :func:`encode` described, not bound to another space than its own.

    Raises:
        SettingError: Its class or a function is not imported, or it is no strategy.
    """
    made = _decode(stored)
    if not isinstance(made, Strategy):
        raise SettingError("strategy", stored.get("class"), "a strategy; import the module of your own before loading")
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
        function = _function(value["function"])
        if function is None:
            raise SettingError("function", value["function"], "a function of a module that is imported before loading")
        return function
    if set(value) != _OBJECT:
        return {key: _decode(item) for key, item in value.items()}
    kind = _class(value["class"])
    if kind is None:
        allowed = "a strategy or a space of a module that is imported before loading, or a class of mfbo_torch"
        raise SettingError("class", value["class"], allowed)
    return kind(**{name: _decode(item) for name, item in value["settings"].items()})


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _class(path: str) -> type | None:
    """A class by its path, if it is one that may be made."""
    module, _, name = path.rpartition(".")
    kind = _found(module, name)
    if not isinstance(kind, type) or kind.__module__ != module:
        return None
    return kind if module.startswith(_PACKAGE) or issubclass(kind, (Strategy, Space)) else None


def _function(path: str) -> FunctionType | None:
    """A function by ``module:name``, if it is defined there."""
    module, _, name = path.partition(":")
    function = _found(module, name)
    return function if isinstance(function, FunctionType) and function.__module__ == module else None


def _found(module: str, name: str) -> Any:
    """What a module of this package, or one that is imported, has by a name."""
    try:
        owner = import_module(module) if module.startswith(_PACKAGE) else sys.modules.get(module)
        return attrgetter(name)(owner)
    except (ImportError, AttributeError):
        return None
