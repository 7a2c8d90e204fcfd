"""Settings of a file that is only read: no module is imported because they name it, no function is called."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from mfbo_torch.utils.errors import SettingError

_PACKAGE = "mfbo_torch."
_VALUES = tuple(f"{_PACKAGE}{room}." for room in ("prior", "space", "indirect"))
_ENTRIES = ("problem", "problems", "strategy", "strategies")
_PATH = re.compile(r"\w+(?:\.\w+)*(?::\w+(?:\.\w+)*)?")


def foreign(entry: Any) -> bool:
    """Whether the class of a problem or a strategy is in a module that is neither ours nor imported already."""
    path = entry.get("class_path") if isinstance(entry, Mapping) else entry
    module = path.rpartition(".")[0] if isinstance(path, str) else ""
    return bool(module) and not module.startswith(_PACKAGE) and module not in sys.modules


@contextmanager
def nothing_imported(settings: Mapping[str, Any]) -> Iterator[None]:
    """Where a module that settings name is only there if it was imported before.

    Raises:
        SettingError: Settings name a class within those of a problem or a strategy: it would be made.
    """
    for path in _inner(settings):
        if not (isinstance(path, str) and path.startswith(_VALUES)):
            raise SettingError("class_path", path, "that of a problem or a strategy in a file that is only read")
    refusing = _Refusing(set(_modules(settings)))
    sys.meta_path.insert(0, refusing)
    try:
        yield
    finally:
        sys.meta_path.remove(refusing)


class _Refusing(MetaPathFinder):
    """Finds none of some modules."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r} is imported to read a file", name=fullname)
        return None


def _inner(settings: Mapping[str, Any]) -> Iterator[Any]:
    """The class paths that are not those of a problem or a strategy, which settings would make as well."""
    several = [settings.get("problems"), settings.get("strategies")]
    entries = [
        settings.get("problem"),
        settings.get("strategy"),
        *(entry for some in several for entry in _parts(some)),
    ]
    entries = [entry for entry in entries if not foreign(entry)]  # those have stand-ins
    others = [value for name, value in settings.items() if name not in _ENTRIES]
    for value in [*others, *(part for entry in entries for part in _parts(entry))]:
        yield from _class_paths(value)


def _class_paths(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping) and "class_path" in value:
        yield value["class_path"]
    for part in _parts(value):
        yield from _class_paths(part)


def _parts(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else []


def _modules(value: Any) -> Iterator[str]:
    """The modules that texts may name: ``a``, ``a.b`` and ``a.b.c`` of ``"a.b:c"`` and ``"a.b.c"``."""
    for part in _parts(value):
        yield from _modules(part)
    if isinstance(value, str) and _PATH.fullmatch(value) and not value.startswith(_PACKAGE):
        parts = re.split("[.:]", value)
        if len(parts) > 1:
            yield from (".".join(parts[: i + 1]) for i in range(len(parts)))
