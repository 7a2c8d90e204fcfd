"""Folders of runs and comparisons as a stranger may hand them over: journals forged in SQL and in bytes, values of
other types in configs and summaries, and pipes, devices, folders and links in the place of files."""

import contextlib
import copy
import json
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from mfbo_torch.app import notes
from mfbo_torch.app.serve.live_run import LiveRun
from mfbo_torch.history.storage.journal import COLUMNS, Journal, limit
from mfbo_torch.history.storage.journal_rows import rows
from mfbo_torch.utils.checksum import COLUMN, chained
from mfbo_torch.utils.errors import SettingError

EVIL = "evilmod"
OWN = "strangers_own"
DEEP = "[" * 2000 + "]" * 2000
"""Stands for lists in lists; what writes it is not what it is written with."""
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 3, 1e308, -1e308, 10**400, 2**63, float("nan"), float("inf"), "abc", "", "=1+1", "a" * 10**5),
    *([], [1], [None], [[1, 2]], {}, {"a": 1}, {"class_path": f"{EVIL}.Problem"}, {"": {"": []}}, DEEP, [0.5] * 5000),
    *(
        "\x1b[31mred\n",
        "\u202e",
        "../../outside",
        "/dev/zero",
        "1e5",
        "mfbo_torch.strategies.MFGPUCB",
        {"parameters": 3},
    ),
)
"""Values that are somewhere of the wrong kind."""
WORDS = (
    *(b"evilmod:f", b"evilmod.Problem", b"{class_path: evilmod.Problem}"),
    *(b'{"class": "evilmod.Problem", "settings": {}}', b'{"function": "evilmod:f"}'),
    *(b"&a ", b"*a", b"\0", b'"\\0\\ud800"', b"\xff\xfe", b"[" * 3000, b"{a: " * 300),
    *(b"1e999", b".nan", b"null", b"-1", b"9" * 400, b"!!python/name:evilmod.f"),
    *(b"\n", b"  ", b": ", b",", b'"'),
)
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
STATEMENTS = (
    "CREATE TRIGGER swallow BEFORE INSERT ON event BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER more AFTER INSERT ON event BEGIN DELETE FROM event; END",
    "DROP TRIGGER event_is_never_changed",
    "CREATE VIEW other AS SELECT * FROM event",
    "CREATE INDEX other ON event (abs(cost))",
    "CREATE TABLE other (a)",
    "ALTER TABLE event ADD COLUMN more TEXT",
    f"ALTER TABLE event RENAME TO kept; CREATE VIEW event AS {ENDLESS} SELECT i AS sequence FROM n",
    f"ALTER TABLE event RENAME TO kept; CREATE VIEW event ({', '.join(COLUMNS)}) AS {ENDLESS} "
    f"SELECT {', '.join(['i'] * len(COLUMNS))} FROM n",
    "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, 'REAL', 'TEXT')",
    "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = 3",
    "PRAGMA writable_schema = 1; DELETE FROM sqlite_schema WHERE type = 'index'",
    "PRAGMA user_version = 6",
    "PRAGMA application_id = 1",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA encoding = 'UTF-16'; VACUUM",
    "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM",
    "DROP TABLE event",
)
"""What makes another schema of a journal's."""
NAMES = (
    *("history.csv", "history.sqlite-wal", "history.sqlite-shm", "history.sqlite-journal", ".history.sqlite.lock"),
    *("report.html", ".report.html", ".config.yaml", ".history.csv", "history.repaired.sqlite", "problem.json"),
    *("recommended.json", "progress.png", "run.log", "trials", "regret.csv", "regret.png", "summary.json"),
    *("notes.json", "history.output", "00001.txt", "curves.png", "jobs"),
)
"""Files that commands read or write, there or not."""


def mutated(content: bytes, numbers: random.Random) -> bytes:
    """A few changes anywhere."""
    changed = bytearray(content)
    for _ in range(numbers.randint(1, 4)):
        at, size = numbers.randrange(len(changed) + 1), numbers.choice([0, 1, 5, 40])
        match numbers.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << numbers.randrange(8)
            case 1:
                changed[at : at + size] = numbers.choice(WORDS)
            case 2:
                changed[at : at + size] = numbers.randbytes(numbers.randrange(6))
            case 3:
                other = numbers.randrange(len(changed) + 1)
                changed[at:at] = changed[other : other + 40]
            case 4 if numbers.random() < 0.2:
                del changed[at:]
    return bytes(changed)


def odd(content: Any, numbers: random.Random) -> Any:
    """A value of JSON or YAML with an odd one somewhere in it, or without one of its parts."""
    if not isinstance(content, dict | list) or not content or numbers.random() < 0.15:
        return numbers.choice(ODD)
    key = numbers.choice([*content]) if isinstance(content, dict) else numbers.randrange(len(content))
    changed = copy.copy(content)
    if numbers.random() < 0.15:
        del changed[key]
    elif isinstance(content, dict) and numbers.random() < 0.1:
        changed[str(numbers.choice(ODD))[:300]] = content[key]
    else:
        changed[key] = odd(content[key], numbers)
    return changed


def _written(content: Any) -> str:
    return json.dumps(content).replace(json.dumps(DEEP), DEEP)


def forge_values(path: Path, numbers: random.Random) -> None:
    """Values of other types in a file of YAML or JSON."""
    path.write_text(_written(odd(yaml.safe_load(path.read_text()), numbers)))


def forge_rows(path: Path, numbers: random.Random) -> None:
    """Odd values in some cells of a journal, rows twice or gone, and right checksums behind them."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        limit(connection, path)
        kept = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        found = [*rows(connection)]
        for name, _ in kept:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA ignore_check_constraints = 1")
        for _ in range(numbers.randint(1, 3)):
            row = numbers.choice(found)
            name = numbers.choice([name for name in row if name != COLUMN])
            try:
                value = odd(json.loads(row[name]), numbers)
            except (TypeError, ValueError):
                value = numbers.choice(ODD)
            plain = isinstance(value, str | float | None) and numbers.random() < 0.5
            row[name] = value if plain else _written(value)
            if numbers.random() < 0.1:
                found.insert(numbers.randrange(len(found)), dict(numbers.choice(found)))
        last = b""
        connection.execute("DELETE FROM event")
        for row in found:
            (last,) = chained([row], last)
            with contextlib.suppress(sqlite3.Error):  # what SQLite itself does not take
                values = [*(row | {COLUMN: last}).values()]
                places = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO event ({', '.join(row)}) VALUES ({places})", values)
        for _, sql in kept:
            connection.execute(sql)
        connection.commit()


def forge_schema(path: Path, numbers: random.Random) -> None:
    """Another schema of a journal."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        limit(connection, path)
        connection.executescript(numbers.choice(STATEMENTS))


def forge_bytes(path: Path, numbers: random.Random) -> None:
    """Other bytes in a file; in a database also whole pages in the place of others."""
    content = path.read_bytes()
    if path.suffix == ".sqlite" and numbers.random() < 0.15:
        pages = [content[i : i + 4096] for i in range(0, len(content), 4096)]
        for _ in range(numbers.randint(1, 3)):
            pages[numbers.randrange(len(pages))] = numbers.choice(pages)
        path.write_bytes(b"".join(pages))
        return
    path.write_bytes(mutated(content, numbers))


def put_in_place(path: Path, outside: Path, numbers: random.Random) -> None:
    """Something else in the place of a file: a pipe, a folder, a link, nothing, or other bytes."""
    with contextlib.suppress(OSError):
        path.unlink()
    match numbers.randrange(6):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2 | 3:
            ends = [outside, *(outside / name for name in ("file", "none", "history.sqlite")), path, path.parent]
            path.symlink_to(numbers.choice([*ends, Path("/dev/zero"), Path("/dev/null")]))
        case 4:
            path.write_bytes(mutated(b"", numbers))


def forge(folder: Path, outside: Path, numbers: random.Random) -> str:
    """One thing in a folder that is not as it was; what it was."""
    there = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    told = [path for path in there if path.suffix in (".sqlite", ".yaml", ".json")]
    path = numbers.choice(told or there or [folder / "config.yaml"])
    kinds: list[Callable[[Path, random.Random], None]] = {
        ".sqlite": [forge_rows, forge_rows, forge_schema, forge_bytes],
        ".yaml": [forge_values, forge_values, forge_bytes],
        ".json": [forge_values, forge_values, forge_bytes],
    }.get(path.suffix, [forge_bytes])
    if numbers.random() < 0.3 or not there:
        path = path.with_name(numbers.choice([path.name, path.name, *NAMES]))
        if numbers.random() < 0.1:
            late = numbers.choice([0.0, -1e11, 3e11, 9e15])
            with contextlib.suppress(OSError, OverflowError):
                os.utime(path, (late, late))
            return f"time of {path.name}"
        if not path.is_dir() or path.is_symlink():
            put_in_place(path, outside, numbers)
        return f"place of {path.name}"
    if any(not beside.is_file() for beside in path.parent.glob(f"{path.name}-*")):
        kinds = [forge_bytes]  # SQLite would wait for a pipe
    kind = numbers.choice(kinds)
    with contextlib.suppress(sqlite3.Error, yaml.YAMLError, OSError, UnicodeDecodeError, IndexError, RecursionError):
        kind(path, numbers)  # what was forged before may be in the way
    return f"{kind.__name__} of {path.name}"


CONFIG = {
    "problem": {
        "class_path": "mfbo_torch.problems.UserProblem",
        "init_args": {
            "objective": f"{__name__}:objective",
            "parameters": {
                "x": {"lower": 0.0, "upper": 1.0},
                "n": {"lower": 1, "upper": 9, "integer": True},
                "kind": {"choices": ["a", "b"]},
            },
            "constraints": {"latency": "<= 8"},
            "costs": [1, 10],
        },
    },
    "strategy": {"class_path": "mfbo_torch.strategies.RandomSearch"},
    "capital": 30,
}
MODEL = {
    "problem": {"class_path": "mfbo_torch.problems.Currin"},
    "strategy": {"class_path": "mfbo_torch.strategies.MFGPUCB"},
    "capital": 8,
}
SEVERAL = {
    "problem": {
        "class_path": "mfbo_torch.problems.UserProblem",
        "init_args": {
            "objective": f"{__name__}:several",
            "parameters": {"x": {"lower": 0.0, "upper": 1.0}, "kind": {"choices": ["a", "b"]}},
            "costs": [1, 10],
            "objectives": {"loss": "minimize", "gain": "maximize"},
            "reference": {"loss": 2.0},
        },
    },
    "strategy": "RandomSearch",
    "capital": 40,
}
TRAININGS = {
    "problem": {
        "class_path": "mfbo_torch.problems.UserProblem",
        "init_args": {
            "objective": f"{__name__}:training",
            "parameters": {"rate": {"lower": 0.01, "upper": 1.0, "log": True}},
            "epochs": 4,
        },
    },
    "strategy": "RandomSearch",
    "capital": 12,
}
SOURCE = """
from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Parameter, Space

class Hill(Problem):
    optimum, worst = 1.0, -60.0
    def __init__(self):
        self.space = Space((Parameter("x", 0.0, 10.0),), (1.0, 10.0))
    def evaluate(self, x, fidelity):
        return -((x[0] - 3.0) ** 2) + fidelity
"""
"""A problem of a module that is not imported where its run is shown."""


def objective(parameters: dict[str, Any], fidelity: int) -> dict[str, float]:
    """Something to run."""
    if parameters["n"] == 9:
        raise ValueError("no nine")
    return {"value": parameters["x"] + parameters["n"] + fidelity, "latency": parameters["n"]}


def served(out: Path) -> int:
    """Read a folder as ``mfbo serve`` does: 0, or 2 where it says why it cannot."""
    try:
        run = LiveRun(out)
        run.look()
        json.dumps([run.state(0), run.query(0)], allow_nan=False)
        run.note(0, "seen")
        run.page()
    except SettingError:
        return 2
    return 0


def several(parameters: dict[str, Any], fidelity: int) -> dict[str, float]:
    """Two objectives."""
    return {"loss": (parameters["x"] - 0.3) ** 2 + fidelity, "gain": parameters["x"]}


def training(parameters: dict[str, Any], trial: Any) -> None:
    """A training that saves nothing but what it reports."""
    for epoch in trial.epochs():
        print("epoch", epoch)
        trial.report(parameters["rate"] + 1 / epoch)


class Folders:
    """Whole folders of several kinds, in a place, and forged ones made of them.

    Args:
        place: Where they are.
        run: Runs a command with arguments.
    """

    def __init__(self, place: Path, run: Callable[..., Any]) -> None:
        self.place, self.outside, self.run = place, place / "outside", run
        self.outside.mkdir()
        (self.outside / "file").write_text("as it was")
        (place / f"{OWN}.py").write_text(SOURCE)
        sys.path.insert(0, str(place))
        compared = {**CONFIG, "strategies": {"a": CONFIG["strategy"], "b": "Direct"}, "seeds": [0]}
        compared["problem"] = "Currin"
        del compared["strategy"]
        averages = {"problem": "ShiftedPeak", "strategies": {"s": "ShrinkingWindow"}, "capital": 4, "seeds": 1}
        own = {**CONFIG, "problem": f"{OWN}.Hill"}
        kinds = {"plain": CONFIG, "model": MODEL, "own": own, "ab": compared, "avg": averages}
        for name, settings in {**kinds, "front": SEVERAL, "epochs": TRAININGS}.items():
            (place / f"{name}.yaml").write_text(yaml.safe_dump(settings))
            command = "compare" if "strategies" in settings else "run"
            more = ["--workers", 1] if command == "compare" else []
            run(command, place / f"{name}.yaml", "--out", place / "whole" / name, *more)
        sys.path.remove(str(place))
        sys.modules.pop(OWN)
        run("export", place / "whole" / "plain")
        notes.write(place / "whole" / "front", 1, "look again")
        killed = place / "whole" / "killed"
        shutil.copytree(place / "whole" / "plain", killed)
        (killed / "history.sqlite").unlink()
        with contextlib.closing(sqlite3.connect(place / "whole" / "plain" / "history.sqlite")) as connection:
            found = [*rows(connection)]
        with Journal(place / "alive.sqlite") as journal:  # its log is not yet in the file
            journal.copy({name: cell for name, cell in row.items() if name != "sequence"} for row in found)
            for suffix in ("", "-wal"):
                shutil.copyfile(place / f"alive.sqlite{suffix}", killed / f"history.sqlite{suffix}")
        self.before = self._outside()

    def __call__(self, numbers: random.Random) -> str:
        """Forge a folder and read it as anyone would; what was done to it."""
        top = self.place / "forged"
        shutil.rmtree(top, ignore_errors=True)
        (self.place / "new.sqlite").unlink(missing_ok=True)
        kinds = ["plain", "plain", "plain", "killed", "own", "own", "ab", "ab", "avg", "model"]
        kinds += ["front", "front", "front", "epochs", "epochs"]
        kind, name = numbers.choice(kinds), numbers.choice(["one", "one", "one", "o\nn\x1b[2Je", "-o", "ö" * 100])
        out = top / name
        shutil.copytree(self.place / "whole" / kind, out)
        shutil.copytree(self.place / "whole" / "plain", top / "untouched")
        done = [forge(out, self.outside, numbers) for _ in range(numbers.randint(1, 2))]
        self.done = f"{kind} as {name!r}: {'; '.join(done)}"
        fates = {"list": self.run("list", top), "show": self.run("show", out), "best": self.run("best", out)}
        fates |= {"best --json": self.run("best", out, "--json"), "export": self.run("export", out)}
        if numbers.random() < 0.15:
            fates["show --html"] = self.run("show", out, "--html")
        if kind in ("front", "epochs") or numbers.random() < 0.1:
            fates |= {"why": self.run("why", out, "1"), "show --output": self.run("show", out, "--output", 1)}
            if numbers.random() < 0.3:
                fates["serve"] = served(out)
        if kind == "epochs" and numbers.random() < 0.3:
            fates["show --curves"] = self.run("show", out, "--curves")
        new = [self.place / "new.sqlite"] if numbers.random() < 0.5 else []
        fates["repair"] = self.run("repair", out, *new)
        if kind in ("ab", "avg") and numbers.random() < 0.15:
            fates["compare"] = self.run("compare", self.place / f"{kind}.yaml", "--out", out, "--workers", 1)
        if fates["list"] != 0:
            raise RuntimeError(f"list ends with {fates['list']}")
        before, self.before = self.before, self._outside()
        if changed := {path for path, _ in before.items() ^ self.before.items()}:
            raise RuntimeError(f"outside the folder: {', '.join(changed)}")
        return f"{sum(fate == 0 for fate in fates.values())} of {len(fates)} commands show it"

    def _outside(self) -> dict[str, tuple[int, bytes]]:
        """Everything beside the folder that was forged, and when it was written."""
        found = [path for path in self.place.rglob("*") if "forged" not in path.parts and path.name != "new.sqlite"]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in found}
