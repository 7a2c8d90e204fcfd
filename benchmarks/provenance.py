"""With which code the rows of a file were measured, and whether it is still the same: ``NAME.about.json``.

Its entries are what :func:`told` says of a command; ``first_row`` is the number of its first row, and ``code`` has by
problem and method the hash of what their rows depend on (:mod:`benchmarks.dependencies`). An entry without
``first_row`` has added none: it has found the rows of a seed the same.
"""

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import about

ABOUT = ".about.json"
"""Beside the file of rows."""
Group = tuple[str, str]
"""A problem and a method."""
Code = Callable[[str, str], str]
"""The hash of what the rows of a problem and a method depend on."""
Rows = Sequence[Mapping[str, str]]


def told(groups: Iterable[Group], code: Code) -> dict[str, Any]:
    """What an entry says of the groups that it is about."""
    codes = defaultdict[str, dict[str, str]](dict)
    for problem, method in sorted(groups):
        codes[problem][method] = code(problem, method)
    return {**about(), "code": codes}


def entries(path: Path) -> list[dict[str, Any]]:
    """The entries beside a file of rows."""
    file = path.with_suffix(ABOUT)
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return found


def note(path: Path, entry: Mapping[str, Any]) -> None:
    """Put an entry behind those of a file of rows."""
    _write(path, [*entries(path), entry])


def states(path: Path, rows: Rows, code: Code) -> dict[Group, str]:
    """Of each group of a file's rows: ``"fresh"``, ``"stale"`` where code that it depends on has changed since, or
    ``"untold"`` where there is no entry for a row."""
    known = entries(path)
    added = [entry for entry in known if "first_row" in entry]
    codes = defaultdict[Group, set[str | None]](set)
    for number, row in enumerate(rows):
        group = row["problem"], row["method"]
        before = [entry for entry in added if entry["first_row"] <= number]
        codes[group].add(_code(before[-1], group) if before else None)
    found = {}
    for group, then in codes.items():
        now = code(*group)
        repeated = any(_code(entry, group) == now for entry in known if "first_row" not in entry)
        found[group] = "untold" if None in then else "fresh" if repeated or then == {now} else "stale"
    return found


def _code(entry: Mapping[str, Any], group: Group) -> str:
    found: str = entry.get("code", {}).get(group[0], {}).get(group[1], "")
    return found


def forget(path: Path, rows: Rows, groups: Iterable[Group]) -> None:
    """Take the rows of some groups out of a file."""
    gone = {*groups}
    if not gone:
        return
    kept = [number for number, row in enumerate(rows) if (row["problem"], row["method"]) not in gone]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[number] for number in kept)
    path.with_name(f"{path.name}.gz").unlink(missing_ok=True)
    changed = []
    for entry in entries(path):
        if "first_row" in entry:
            entry["first_row"] = sum(number < entry["first_row"] for number in kept)
        changed.append(entry if "first_row" in entry else _without(entry, gone))
    _write(path, changed)


def _without(entry: Mapping[str, Any], groups: set[Group]) -> dict[str, Any]:
    """A repeat without what it says of some groups."""
    left = {p: {m: code for m, code in of.items() if (p, m) not in groups} for p, of in entry["code"].items()}
    return {**entry, "code": {problem: of for problem, of in left.items() if of}}


def _counting(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries without those that the later ones leave nothing to say of: no row, no group that was repeated."""
    counting, first, repeated = list[Mapping[str, Any]](), set[int](), set[Group]()
    for entry in reversed(found):
        if "first_row" in entry:
            counts = entry["first_row"] not in first
            first.add(entry["first_row"])
        else:
            entry = _without(entry, repeated)
            counts = bool(entry["code"])
            repeated |= {(problem, method) for problem, of in entry["code"].items() for method in of}
        counting += [entry] if counts else []
    return counting[::-1]


def _write(path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    draft = path.with_suffix(".draft")
    lines = ",\n".join(map(json.dumps, _counting(found)))
    draft.write_text(f"[\n{lines}\n]\n")
    draft.replace(path.with_suffix(ABOUT))
