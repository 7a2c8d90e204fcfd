"""Imports go one way: every module of the package is read, none is run."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import pytest

import mfbo_torch

ROOT = Path(mfbo_torch.__file__).parent
FILES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
"""Every module of the package by its dotted name."""

FLOORS = (
    *("utils", "space", "history", "metrics", "confidence", "ops", "models", "acquisition"),
    *("problems", "strategies", "tracking", "loop", "app", "ax callbacks hydra optuna ray sklearn"),
)
"""Rooms from the ground up: a room imports itself and rooms of lower floors;
rooms of one floor do not know each other."""

BESIDE = {"problems": {"models", "acquisition", "ops"}, "strategies": {"problems"}, "models": {"history.storage"}}
"""Lower rooms that are none of a room's business all the same."""

EXTRAS = {"ax": "ax", "hydra": "hydra", "optuna": "optuna"}
"""Libraries that one room alone imports."""

LONG: dict[str, str] = {}
"""Modules of more than 400 lines, and why."""


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def floor_of(room: str) -> int:
    return next(i for i, floor in enumerate(FLOORS) if room in floor.split())


def imports(source: str, module: str, package: bool = False) -> Iterator[str]:
    """Dotted names that a module imports, relative ones, late ones and those for types included."""
    parents = module.split(".") if package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = [f"{base}.{alias.name}" for alias in node.names]
            known = [name for name in inner if name in FILES]
            yield from known
            if len(known) < len(inner):
                yield base


def wrong_arrows(names: Iterable[str], module: str) -> list[str]:
    """What a module imports and must not."""
    room, wrong = room_of(module), []
    for name in names:
        package, other = name.split(".")[0], room_of(name)
        if package in EXTRAS and room != EXTRAS[package]:
            wrong.append(f"{module} imports {name}: only the room {EXTRAS[package]} does")
        if package != "mfbo_torch" or other == room or module in ("mfbo_torch", "mfbo_torch.__main__"):
            continue
        forbidden = any(name.startswith(f"mfbo_torch.{lower}") for lower in BESIDE.get(room, ()))
        if not other or floor_of(other) >= floor_of(room) or forbidden:
            wrong.append(f"{module} imports {name}")
    return wrong


NAMES = {
    module: set(imports(path.read_text("utf-8"), module, path.name == "__init__.py")) for module, path in FILES.items()
}


def test_nothing_lies_loose():
    files = {path.name for path in ROOT.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}
    assert {path.name for path in ROOT.iterdir() if path.is_dir()} - {"__pycache__"} == set(" ".join(FLOORS).split())


@pytest.mark.parametrize("module", FILES)
def test_imports_go_one_way(module):
    assert wrong_arrows(NAMES[module], module) == []


@pytest.mark.parametrize("module", [module for module in FILES if room_of(module) == "ops"])
def test_operations_know_no_model(module):
    """Tensors in, tensors out: GPyTorch's kernels are described, BoTorch's models are not."""
    assert not [name for name in NAMES[module] if name.startswith("botorch.") and name != "botorch.exceptions"]
    assert not [name for name in NAMES[module] if name.startswith("gpytorch.") and name != "gpytorch.kernels"]


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
    """Imports under ``TYPE_CHECKING`` and late ones count."""
    needs = {module: {name for name in names if name in FILES and name != module} for module, names in NAMES.items()}
    assert circles(needs) == []


def test_circles_are_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == [{"a", "b", "c"}]
    assert circles({"a": {"a"}, "b": {"a"}}) == [{"a"}]
    late = "def f():\n    import mfbo_torch.ops\nif TYPE_CHECKING:\n    import mfbo_torch.ax\nfrom .. import utils"
    assert set(imports(late, "mfbo_torch.loop.runner")) == {"mfbo_torch.ops", "mfbo_torch.ax", "mfbo_torch.utils"}


@pytest.mark.parametrize(
    ("source", "module", "found"),
    [
        ("from mfbo_torch.strategies import MFGPUCB", "models.multi_fidelity.level", 1),
        ("import mfbo_torch.app.cli", "loop.runner", 1),
        ("from mfbo_torch import run", "loop.optimizer", 1),
        ("from ..loop.runner import run", "strategies.base", 1),
        ("from .base import Strategy", "strategies.direct", 0),
        ("if TYPE_CHECKING:\n    from mfbo_torch.app.compare import table", "loop.plots", 1),
        ("def late():\n    import ax", "strategies.base", 1),
        ("from ax.api.client import Client", "ax.client", 0),
        ("import optuna", "loop.runner", 1),
        ("from mfbo_torch.optuna import Sampler", "sklearn.search", 1),
        ("import sklearn.svm", "problems.real.svm", 0),
        ("from mfbo_torch.models import PerFidelityGP", "problems.base", 1),
        ("from mfbo_torch.history import History", "metrics.regret", 0),
        ("from mfbo_torch.metrics import best_values", "history.history", 1),
        ("from mfbo_torch.utils.errors import SettingError\nimport torch", "ops.cache", 0),
    ],
)
def test_wrong_arrows_are_seen(source, module, found):
    assert len(wrong_arrows(imports(source, f"mfbo_torch.{module}"), f"mfbo_torch.{module}")) == found


def drawn() -> str:
    """The map of the house: each room with its modules, what it is for, and which rooms it imports."""
    rows, rooms = ["| floor | room | modules | imports |", "| ---: | --- | --- | --- |"], " ".join(FLOORS).split()
    for room in rooms:
        own = [module for module in FILES if room_of(module) == room]
        used = {room_of(name) for module in own for name in NAMES[module] if name in FILES} - {room}
        below = ", ".join(other for other in rooms if other in used)
        for folder in sorted({FILES[module].parent for module in own}):
            said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
            inside = sorted(path.stem for path in folder.glob("[!_]*.py"))
            modules = " ".join(
                [*said.partition("\n\n")[0].replace("``", "`").split(), *(f"`{name}`" for name in inside)]
            )
            first = (f"{floor_of(room)}", below) if folder == ROOT / room else ("", "")
            rows.append(f"| {first[0]} | `{folder.relative_to(ROOT).as_posix()}` | {modules} | {first[1]} |")
    return "\n".join(rows)


PAGE = ROOT.parent / "docs" / "design.md"
BETWEEN = ("<!-- drawn by python tests/test_architecture.py -->\n", "\n<!-- end -->")


def test_the_map_is_true():
    """``python tests/test_architecture.py`` draws it anew."""
    begin, end = BETWEEN
    assert PAGE.read_text("utf-8").partition(begin)[2].partition(end)[0] == drawn()


def test_sizes():
    lines = {module: path.read_text("utf-8").count("\n") for module, path in FILES.items()}
    assert {module for module, count in lines.items() if count > 400} == set(LONG)
    assert median(lines.values()) <= 120
    folders = Counter(path.parent for path in FILES.values())
    assert max(folders.values()) <= 16, folders.most_common(1)


def test_no_two_classes_share_a_name():
    names = Counter(
        node.name
        for path in FILES.values()
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_importing_the_package_is_light():
    """Nothing that draws, parses a command line or needs an extra is loaded with the public names, nor are any
    of them before one is used; a worker that evaluates loads no model."""
    everything = loaded_by("from mfbo_torch import *")
    assert "mfbo_torch.loop.runner" in everything
    extras = {"ax", "optuna", "sklearn"}
    assert not everything & {*extras, "matplotlib", "jsonargparse", "mfbo_torch.loop.plots", "mfbo_torch.app.cli"}
    assert "torch" not in loaded_by("import mfbo_torch, mfbo_torch.__main__")
    worker = loaded_by("import mfbo_torch.problems, mfbo_torch.loop.executors")
    assert not worker & {"mfbo_torch.models", "botorch.models"}


def loaded_by(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has after some code."""
    command = [sys.executable, "-W", "ignore", "-c", f"{code}; import sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_public_names():
    assert sorted(mfbo_torch.__all__) == sorted(set(mfbo_torch.__all__))
    for name in mfbo_torch.__all__:
        assert getattr(mfbo_torch, name).__doc__, name


if __name__ == "__main__":
    from benchmarks.figures.marks import mark

    mark()
    start, _, rest = PAGE.read_text("utf-8").partition(BETWEEN[0])
    PAGE.write_text(f"{start}{BETWEEN[0]}{drawn()}{BETWEEN[1]}{rest.partition(BETWEEN[1])[2]}", "utf-8")
