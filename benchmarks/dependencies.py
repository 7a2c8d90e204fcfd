"""What a result depends on, read from the sources: definitions, and the definitions that these name.

A definition is a class, a function or a constant at the top of a module of ``mfbo_torch`` or ``benchmarks``. It depends
on what it names: in its own module, imported from another one, or as an attribute of an imported module. Docstrings,
comments and annotations of functions do not count, nor do refusals of a setting, which change no row that there is, nor
does what only reports, stores or distributes (:data:`BESIDE`). What is reached by text alone (``getattr``, a registry)
is not seen.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGES = ("mfbo_torch", "benchmarks")
BESIDE = tuple(
    f"{room}.{name}"
    for room, names in {
        "mfbo_torch.utils": "errors files html_table output_streams validation version",
        "mfbo_torch.history": "storage",
        "mfbo_torch.problems": "shown_history",
        "mfbo_torch": "app",
        "mfbo_torch.loop": "early_failures eta evaluation executors interrupt optimizer plots progress run_options "
        "runner trial_folders waiting_trainings",
        "benchmarks": "common dependencies provenance study",
    }.items()
    for name in names.split()
)
"""Modules that pass values on and make none."""

Name = tuple[str, str]
"""A module and a definition in it."""


class Module(NamedTuple):
    """The definitions of a module, and where imported names come from; ``("package.module", "")`` is a module."""

    definitions: dict[str, list[ast.AST]]
    imported: dict[str, Name]


@cache
def module(name: str) -> Module | None:
    """A module of the packages, parsed; none where there is no file. A stub of the same name has its names too."""
    path = ROOT.joinpath(*name.split("."))
    files = [path.with_suffix(".py"), path / "__init__.py", path / "__init__.pyi"]
    sources = [file.read_text("utf-8") for file in files if file.is_file()]
    if not sources or name.split(".")[0] not in PACKAGES:
        return None
    found = Module({}, {})
    for tree in map(ast.parse, sources):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                base = ".".join(filter(None, [name if node.level else "", node.module]))  # only a stub's are relative
                found.imported.update((alias.asname or alias.name, (base, alias.name)) for alias in node.names)
            elif isinstance(node, ast.Import):
                found.imported.update((alias.asname, (alias.name, "")) for alias in node.names if alias.asname)
        for node in tree.body:
            for defined in _names_of(node):
                found.definitions.setdefault(defined, []).append(node)
    return found


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [part.id for target in targets if target for part in ast.walk(target) if isinstance(part, ast.Name)]


@cache
def resolved(name: Name) -> Name | None:
    """Where a name is defined, through packages that pass it on; none outside of the packages."""
    where, what = name
    inner = f"{where}.{what}".rstrip(".")
    if (found := module(where)) is None or where.startswith(BESIDE):
        return None
    if what in found.definitions:
        return name
    if what in found.imported and found.imported[what] != name:
        return resolved(found.imported[what])
    return (inner, "") if module(inner) is not None else None


def named(node: ast.AST, where: str) -> Iterator[Name]:
    """The definitions that a piece of a module's source names."""
    found = module(where)
    assert found is not None
    for part in _parts(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            base = resolved(found.imported.get(part.value.id, ("", "")))
            if base is not None and base[1] == "" and (inner := resolved((base[0], part.attr))) is not None:
                yield inner
        elif isinstance(part, ast.Name) and (inner := resolved((where, part.id))) is not None and inner[1]:
            yield inner


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """A piece of source without annotations of functions and without refusals."""
    yield node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns") or isinstance(node, ast.AnnAssign):
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, ast.AST) and not _refuses(inner):
                    yield from _parts(inner)


def text(node: Any) -> str:
    """A piece of source, the same in every version of Python, without docstrings, annotations of functions and
    refusals."""
    if isinstance(node, list):
        return "[" + ",".join(text(part) for part in node if not _is_text(part) and not _refuses(part)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    kept = (
        f"{field}={text(value)}"
        for field, value in ast.iter_fields(node)
        if value not in (None, []) and (field not in ("annotation", "returns") or isinstance(node, ast.AnnAssign))
    )
    return f"{type(node).__name__}({','.join(kept)})"


def _is_text(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _refuses(node: Any) -> bool:
    """Whether a statement does nothing but raise a ``SettingError``, under a condition or not; a condition that assigns
    a name may do more."""
    if isinstance(node, ast.If):
        *before, last = node.body
        assigns = any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test))
        alone = not node.orelse and not assigns and all(isinstance(part, ast.Assign) for part in before)
        return alone and _refuses(last)
    made = node.exc if isinstance(node, ast.Raise) else None
    return isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "SettingError"


def closure(roots: Iterable[Name], skipped: Iterable[Name] = ()) -> set[Name]:
    """The roots and everything that they depend on; what is skipped is not followed."""
    left, found, leave = [name for root in roots if (name := resolved(root))], set[Name](), set(skipped)
    while left:
        name = left.pop()
        if name in found or name in leave:
            continue
        found.add(name)
        left += _named_by(name)
    return found


@cache
def _named_by(name: Name) -> tuple[Name, ...]:
    return tuple(inner for node in _nodes(name) for inner in named(node, name[0]))


@cache
def _text_of(name: Name) -> str:
    return f"{name[1]}:{''.join(map(text, _nodes(name)))}"


def _nodes(name: Name) -> list[ast.AST]:
    parsed = module(name[0])
    return parsed.definitions.get(name[1], []) if parsed else []


def digest(roots: Iterable[Name], skipped: Iterable[Name] = (), extra: Iterable[ast.AST] = ()) -> str:
    """A hash of the definitions of a :func:`closure`, by name, wherever they are; ``extra`` is hashed with them."""
    lines = [*map(_text_of, closure(roots, skipped)), *map(text, extra)]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12]


def entry(label: str, where: str) -> tuple[Name, ast.AST] | None:
    """The constant of a module that is a table with this key, and what it has there: the function, where it is one."""
    parsed = module(where)
    for name, nodes in parsed.definitions.items() if parsed else ():
        for node in (node for root in nodes if isinstance(root, ast.Assign | ast.AnnAssign) for node in ast.walk(root)):
            pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
            for key, value in pairs:
                if isinstance(key, ast.Constant) and key.value == label:
                    functions = [part for part in ast.walk(value) if isinstance(part, ast.Lambda)]
                    return (where, name), functions[0] if functions else value
    return None
