"""Imports go one way: every module of the package is read, none is run."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mfbo_torch

ROOT = Path(mfbo_torch.__file__).parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py*") if path.suffix in (".py", ".pyi"))

FLOORS = [
    {"version", "errors", "checksum", "sharing", "wal", "lock", "streams", "plain_yaml", "brake", "markup", "lbfgsb"},
    {"checks", "signature", "reading", "own_state"},
    {"interval"},
    {"parameters", "fidelities", "calling", "outcomes"},
    {"space", "confidence", "concentration", "history", "prior", "scale"},
    {"indirect", "events", "warp", "trial", "continuing"},
    {"metrics", "journal", "folds"},
    {"problems"},
    {"ops"},
    {"models"},
    {"acquisition"},
    {"optim"},
    {"mixed"},
    {"strategies"},
    {"optimizer", "repair", "forecast"},
    {"executors", "evaluation", "progress", "table"},
    {"options", "beginning", "trials"},
    {"stopping"},
    {"runner", "simulator", "settings"},
    {"plots", "config", "recorded", "folders"},
    {"experiment", "minimization"},
    {"compare", "report"},
    {"ax", "cli", "optuna", "sklearn"},
    {"__main__"},
]
"""Rooms from the ground up: a room imports itself and rooms of lower floors."""

BESIDE = {
    "problems": {"journal", "events", "confidence"},
    **{
        room: {"problems", "journal", "events"}
        for room in ("ops", "models", "acquisition", "optim", "mixed", "strategies")
    },
}
"""Lower rooms that are none of a room's business all the same."""

FRONT_DOOR = {"__init__"}
"""The public names come from anywhere below the command line."""


def room_of(module: str) -> str:
    return module.split("/")[0].partition(".")[0]


def floor_of(room: str) -> int:
    return next(i for i, floor in enumerate(FLOORS) if room in floor)


def imports(source: str, module: str) -> Iterator[str]:
    """Dotted names that a module imports, relative ones and those under a condition included."""
    parents = ["mfbo_torch", *module.split("/")[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # ``from mfbo_torch import plots`` imports a room, ``from mfbo_torch.plots import x`` a name of it
            yield from ([f"{base}.{alias.name}" for alias in node.names] if base == "mfbo_torch" else [base])


def wrong_arrows(source: str, module: str) -> list[str]:
    """What a module imports and must not."""
    room, wrong = room_of(module), []
    for name in imports(source, module):
        package, _, rest = name.partition(".")
        other = rest.split(".")[0]
        if package in ("ax", "optuna") and room != package:
            wrong.append(f"{module} imports {name}: only the room {package} does")
        if package != "mfbo_torch" or other == room:
            continue
        if room in FRONT_DOOR:
            allowed = other in set().union(*FLOORS[:-2])
        else:
            below = set().union(*FLOORS[: floor_of(room)]) - BESIDE.get(room, set())
            allowed = other in below
        if not allowed:
            wrong.append(f"{module} imports {name}")
    return wrong


def test_every_room_has_a_floor():
    rooms = {room_of(module) for module in MODULES} - FRONT_DOOR
    assert rooms <= set().union(*FLOORS)


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module):
    assert wrong_arrows((ROOT / module).read_text(), module) == []


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module) == "ops"])
def test_operations_know_no_model(module):
    """Tensors in, tensors out: GPyTorch's kernels are described, BoTorch's models are not."""
    named = list(imports((ROOT / module).read_text(), module))
    assert not [name for name in named if name.startswith("botorch.") and name != "botorch.exceptions"]
    assert not [name for name in named if name.startswith("gpytorch.") and name != "gpytorch.kernels"]


def loaded_first(source: str, module: str) -> set[str]:
    """Modules of the package that a module needs before it is there: late imports and those for types excluded."""
    tree = ast.parse(source)
    now = list(tree.body)
    for node in now:  # grows as blocks are opened
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            now.extend(node.orelse)
        elif isinstance(node, ast.ClassDef | ast.If | ast.Try | ast.ExceptHandler | ast.With):
            for name in ("body", "handlers", "orelse", "finalbody"):
                now.extend(getattr(node, name, []))
    parents, found = ["mfbo_torch", *module.split("/")[:-1]], set()
    for node in now:
        if isinstance(node, ast.Import):
            found |= {path_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = {path_of(f"{base}.{alias.name}") for alias in node.names}
            # a package is only waited for where a name of its own is asked of it
            found |= inner if None not in inner else inner | {path_of(base)}
    return {path for path in found if path is not None}


def path_of(name: str) -> str | None:
    """The module of a dotted name."""
    package, _, rest = name.partition(".")
    stem = rest.replace(".", "/")
    found = [path for path in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")) if path in MODULES]
    return found[0] if package == "mfbo_torch" and found else None


def circles(needs: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that need each other."""
    reached = {module: set(others) for module, others in needs.items()}
    for middle in reached:
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    found = {frozenset(other for other in others if module in reached[other]) for module, others in reached.items()}
    return [set(circle) for circle in found if circle]


def test_no_circles():
    assert circles({module: loaded_first((ROOT / module).read_text(), module) for module in MODULES}) == []


def test_circles_are_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == [{"a", "b", "c"}]
    assert circles({"a": {"a"}, "b": {"a"}}) == [{"a"}]
    source = (
        "import torch\nfrom ..errors import SettingError\nfrom mfbo_torch.models import cached\nimport mfbo_torch.ops"
    )
    assert loaded_first(source, "ops/cache.py") == {"errors.py", "models/cached.py", "ops/__init__.py"}
    late = (
        "def f():\n    import mfbo_torch\nif TYPE_CHECKING:\n    import mfbo_torch.ax\nelse:\n    import mfbo_torch.cli"
    )
    assert loaded_first(late, "runner.py") == {"cli/__init__.py"}
    tried = "try:\n    from .base import Strategy\nexcept ImportError:\n    from . import arms"
    assert loaded_first(tried, "strategies/direct.py") == {"strategies/base.py", "strategies/arms.py"}


@pytest.mark.parametrize(
    ("source", "module", "found"),
    [
        ("from mfbo_torch.strategies import MFGPUCB", "models/level.py", 1),
        ("import mfbo_torch.cli", "runner.py", 1),
        ("from mfbo_torch import runner", "optimizer.py", 1),
        ("from mfbo_torch import run", "optimizer.py", 1),
        ("from ..runner import run", "strategies/base.py", 1),
        ("from .base import Strategy", "strategies/direct.py", 0),
        ("if TYPE_CHECKING:\n    from mfbo_torch.compare import table", "plots.py", 1),
        ("def late():\n    import ax", "strategies/base.py", 1),
        ("from ax.api.client import Client", "ax/client.py", 0),
        ("import optuna", "runner.py", 1),
        ("from mfbo_torch.optuna import Sampler", "sklearn/search.py", 1),
        ("import sklearn.svm", "problems/svm.py", 0),
        ("import mfbo_torch.ax", "cli.py", 1),
        ("from mfbo_torch.ax import multi_fidelity_client", "__init__.py", 1),
        ("from mfbo_torch.models import PerFidelityGP", "problems/base.py", 1),
        ("from mfbo_torch.journal import Journal", "strategies/base.py", 1),
        ("from mfbo_torch.history import History", "metrics.py", 0),
        ("from mfbo_torch.metrics import best_values", "history.py", 1),
        ("from mfbo_torch.errors import SettingError\nimport torch", "ops/cache.py", 0),
    ],
)
def test_wrong_arrows_are_seen(source, module, found):
    assert len(wrong_arrows(source, module)) == found


def test_importing_the_package_is_light():
    """Nothing that draws, parses a command line or needs an extra is loaded with the public names, nor are any
    of them before one is used; a worker that evaluates loads no model."""
    everything = loaded_by("from mfbo_torch import *")
    assert "mfbo_torch.runner" in everything
    extras = {"ax", "optuna", "sklearn"}
    assert not everything & {*extras, "matplotlib", "jsonargparse", "mfbo_torch.plots", "mfbo_torch.cli"}
    assert "torch" not in loaded_by("import mfbo_torch, mfbo_torch.__main__")
    assert not loaded_by("import mfbo_torch.problems, mfbo_torch.executors") & {"mfbo_torch.models", "botorch.models"}


def loaded_by(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has after some code."""
    command = [sys.executable, "-W", "ignore", "-c", f"{code}; import sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_public_names():
    assert sorted(mfbo_torch.__all__) == sorted(set(mfbo_torch.__all__))
    for name in mfbo_torch.__all__:
        assert getattr(mfbo_torch, name).__doc__, name
