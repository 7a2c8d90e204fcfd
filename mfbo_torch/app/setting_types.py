"""Settings by the types of what takes them: read as JSON values, and made into objects.

A setting whose type is a class is a mapping, ``{"class_path": path, "init_args": settings}``, or the settings alone.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import yaml

from mfbo_torch.utils import safe_yaml
from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.init_signature import parameters_of

REQUIRED = inspect.Parameter.empty
"""The default of a setting that has to be given."""
PACKAGE = "mfbo_torch"
OBJECT = {"class_path", "init_args"}
"""The keys of an object."""


class Setting(NamedTuple):
    """What a setting may be."""

    kind: Any
    default: Any = REQUIRED
    help: str = ""


class ClassEntry(dict):
    """A class and its settings, which are read once the class is known."""


class FlagText(str):
    """A value as it was typed on the command line: YAML, or the text itself where that is what is wanted."""


PLAIN = {float: "a number", int: "a whole number", bool: "true or false", str: "text", NoneType: "null"}
"""Types of single values, in words."""
WORDS = PLAIN | {
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
    ClassEntry: "a mapping of class_path and init_args",
}
"""Types of all values but those of classes, in words."""


def read_all(
    given: Mapping[Any, Any], known: Mapping[str, Setting], owner: str = "", of: str = "", importing: bool = True
) -> dict[str, Any]:
    """Settings as JSON values, with the defaults of those that are not given.

    ``owner`` is the setting that they belong to, such as ``"strategy"``, and ``of`` its class; ``importing`` is whether
    a module may be imported because a setting names it.
    """
    prefix = f"{owner}." if owner else ""
    for name in given:
        if name not in known:
            names = f"one of the settings{f' of {of}:' if of else ''} {', '.join(known) or 'it has none'}"
            raise SettingError(f"{prefix}{name}", given[name], f"{names}{did_you_mean(name, known)}")
    found = {}
    for name, setting in known.items():
        value = given.get(name, setting.default)
        if setting.default is REQUIRED and value in (REQUIRED, None):
            raise SettingError(f"{prefix}{name}", None, f"given, in CONFIG or as --{prefix}{name}")
        if name in given:
            found[name] = read(f"{prefix}{name}", value, setting.kind, importing)
        else:
            with suppress(SettingError):  # a default that no file can hold stays the constructor's
                found[name] = _as_json(name, value)
    return found


def read(setting: str, value: Any, kind: Any, importing: bool = True) -> Any:
    """A value as a JSON value of a type."""
    if isinstance(value, FlagText):
        return _read_text(setting, value, kind, importing)
    if kind is Any:
        found = _as_json(setting, value)
        if isinstance(value, Mapping):  # a flag may have set one of them
            return {str(key): read(f"{setting}.{key}", item, Any, importing) for key, item in value.items()}
        return found
    family, parts = _family(kind)
    if family is Union:
        return _read_union(setting, value, kind, importing)
    if family is Literal and any(value == part and type(value) is type(part) for part in parts):
        return value
    if family is float and (isinstance(value, float) or (type(value) is int and abs(value) < 1e300)):
        return float(value)
    if family in PLAIN and type(value) is family:
        return value
    if family in (list, tuple) and isinstance(value, list | tuple):
        return [read(setting, item, parts[0] if parts else Any, importing) for item in value]
    if isinstance(value, Mapping):
        if family is ClassEntry:
            return dict(value)
        if family is dict:
            inner = parts[-1] if parts else Any
            return {str(key): read(f"{setting}.{key}", item, inner, importing) for key, item in value.items()}
        if isinstance(family, type) and family not in WORDS and (family is not Callable or "class_path" in value):
            return _read_object(setting, value, family, importing)
    raise SettingError(setting, value, in_words(kind))


def make(value: Any, kind: Any) -> Any:
    """What is passed to a constructor: a value that :func:`read` gave, objects made."""
    family, parts = _family(kind)
    if family is Union:
        made = (make(value, part) for part in parts)
        return next((found for found in made if found is not value), value)
    if family is tuple and isinstance(value, list):
        return tuple(value)
    if isinstance(family, type) and family not in WORDS and isinstance(value, Mapping) and set(value) == OBJECT:
        return make_object(located(value["class_path"]), value["init_args"])
    return value


def make_object(kind: type, settings: Mapping[str, Any]) -> Any:
    """An object of a class, with settings that :func:`read_all` gave."""
    kinds = parameters_of(kind)
    return kind(**{name: make(value, kinds[name].annotation) for name, value in settings.items()})


def class_settings(kind: type) -> dict[str, Setting]:
    """The settings of a class, with their help from the ``Args:`` of its docstring and those of its bases."""
    helps = {name: text for base in reversed(kind.__mro__) for name, text in _argument_docs(base).items()}
    parameters = parameters_of(kind).values()
    return {p.name: Setting(p.annotation, p.default, helps.get(p.name, "")) for p in parameters}


def read_class_settings(
    owner: str, given: Mapping[str, Any], kind: type, path: str, *, skip: Collection[str] = (), importing: bool = True
) -> dict[str, Any]:
    """The settings of a class as JSON values; those that are ``None`` because nobody set them are left out."""
    known = {name: setting for name, setting in class_settings(kind).items() if name not in skip}
    found = read_all(given, known, owner, path, importing)
    return {name: value for name, value in found.items() if not (value is None and known[name].default is None)}


def located(path: Any, importing: bool = True) -> Any:
    """What is at an import path, ``"package.module.Name"``; a ``LookupError`` says why there is nothing.

    Unless ``importing``, its module is this package's or imported already.
    """
    module, _, name = path.rpartition(".") if isinstance(path, str) else ("", "", "")
    if not module:
        raise LookupError("no import path")
    if not importing and is_foreign(path):
        raise LookupError(f"No module named {module!r} is imported to read a file")
    try:
        return getattr(import_module(module), name)
    except SystemExit as error:
        raise LookupError(f"the module calls sys.exit({error.code!r})") from error
    except Exception as error:  # a module may raise anything
        kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
        raise LookupError(f"{kind}{error}") from error


def is_foreign(path: Any) -> bool:
    """Whether an import path is in a module that is neither this package's nor imported already."""
    module = path.rpartition(".")[0] if isinstance(path, str) else ""
    return bool(module) and module.partition(".")[0] != PACKAGE and module not in sys.modules


def in_words(kind: Any) -> str:
    """What values of a type are, as messages say it; null and functions are no part of a union's words."""
    family, parts = _family(kind)
    if family is Union:
        said = [part for part in parts if part is not NoneType and _family(part)[0] is not Callable]
        return " or ".join(dict.fromkeys(map(in_words, said)))
    if family is Literal:
        return f"one of {', '.join(map(repr, parts))}"
    return WORDS.get(family) or (
        f"settings of a {family.__name__}, as a mapping" if isinstance(family, type) else "a value"
    )


def _family(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without its parts, and these; ``list`` and ``dict`` stand for the abstract types that they have."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin is UnionType:
        return Union, parts
    for concrete in (list, dict):
        if isinstance(origin, type) and origin is not object and issubclass(concrete, origin):
            return concrete, parts
    return origin, parts


def _read_text(setting: str, text: FlagText, kind: Any, importing: bool) -> Any:
    """A flag's value, as YAML where that fits the type, else as the text that it is: a ``#`` begins no comment."""
    try:
        value = safe_yaml.load(text) if text.strip() else str(text)
    except yaml.YAMLError:
        value = str(text)
    plain = isinstance(value, str) and text.lstrip()[:1] not in ("'", '"')
    if "#" in text and (plain or value is None):
        value = str(text)
    try:
        return read(setting, value, kind, importing)
    except SettingError:
        with suppress(SettingError):
            return read(setting, str(text), kind, importing)
        raise


def _read_union(setting: str, value: Any, union: Any, importing: bool) -> Any:
    """A value of the first type that it fits; the error is that of the type it is nearest to, or names them all."""
    near = None
    for kind in get_args(union):
        try:
            return read(setting, value, kind, importing)
        except SettingError as error:
            if error.setting != setting or error.value is not value:
                near = error
    raise near or SettingError(setting, value, in_words(union))


def _read_object(setting: str, value: Mapping[str, Any], base: type, importing: bool) -> dict[str, Any]:
    """A mapping as the class and the settings of an object."""
    kind, path, settings = base, f"{base.__module__}.{base.__qualname__}", value
    if "class_path" in value:
        path, settings = value["class_path"], value.get("init_args") or {}
        try:
            kind = located(path, importing)
        except LookupError as error:
            raise SettingError(f"{setting}.class_path", path, f"that of a {base.__name__} ({error})") from error
    if not (isinstance(kind, type) and issubclass(kind, base)) or inspect.isabstract(kind):
        raise SettingError(f"{setting}.class_path", path, f"that of a {base.__name__}")
    if not isinstance(settings, Mapping) or ("class_path" in value and not set(value) <= OBJECT):
        raise SettingError(setting, value, "a mapping of class_path and init_args, nothing else")
    return {"class_path": path, "init_args": read_class_settings(setting, settings, kind, path, importing=importing)}


def _as_json(setting: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise SettingError(setting, str(value), "made of numbers, texts, lists and mappings") from error


def _argument_docs(kind: type) -> dict[str, str]:
    """What the ``Args:`` of a docstring say of each argument."""
    section = inspect.cleandoc(vars(kind).get("__doc__") or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}
