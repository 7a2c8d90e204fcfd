"""Strategies as values that Ax can store: their class and what they were made with.

A stored class is looked up, never executed blindly: it has to be a strategy that is imported already,
or a class of this package.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
import torch

from mfbo_torch.errors import SettingError
from mfbo_torch.strategies import Strategy

_PACKAGE = "mfbo_torch."


def encode(strategy: Strategy) -> dict[str, Any]:
    """A strategy as its class and settings; its space, which is the experiment's, is left out.

    Raises:
        SettingError: A setting is not made of JSON values, tensors, or objects of this package whose
            attributes are named like their settings.
    """
    settings = {**strategy.settings, "capital": strategy.capital}
    settings.pop("space", None)
    path = _path(type(strategy))
    if _class(path) is not type(strategy):
        raise SettingError("strategy", path, "a class at the top of a module")
    kept = {k: _encode(f"{type(strategy).__name__}.{k}", v) for k, v in settings.items() if v is not None}
    return {"class": path, "settings": kept}


def decode(stored: Mapping[str, Any]) -> Strategy:
    """The strategy that :func:`encode` described, not bound to a space.

    Raises:
        SettingError: Its class is not imported, or is no strategy.
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
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _encode(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, Strategy):
        return encode(value)
    kind = type(value)
    if kind.__module__.startswith(_PACKAGE):
        named = [p.name for p in signature(kind).parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        if all(hasattr(value, n) for n in named) and _class(_path(kind)) is kind:
            return {"class": _path(kind), "settings": {n: _encode(f"{name}.{n}", getattr(value, n)) for n in named}}
    raise SettingError(name, value, "storable: JSON values, tensors, or objects of this package made of such")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"class", "settings"}:
        return {key: _decode(item) for key, item in value.items()}
    kind = _class(value["class"])
    if kind is None:
        raise SettingError("class", value["class"], "a strategy that is imported, or a class of mfbo_torch")
    return kind(**{name: _decode(item) for name, item in value["settings"].items()})


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _class(path: str) -> type | None:
    """A class by its path, if it is one that may be made."""
    module, _, name = path.rpartition(".")
    ours = module.startswith(_PACKAGE)
    try:
        kind = getattr(import_module(module) if ours else sys.modules.get(module), name, None)
    except ImportError:
        return None
    if not isinstance(kind, type) or kind.__module__ != module:
        return None
    return kind if ours or issubclass(kind, Strategy) else None
