"""What a study takes from a module, the module has, also where only a long run would reach the line."""

import ast
from pathlib import Path
from types import ModuleType

import pytest

import benchmarks

HERE = Path(benchmarks.__file__).parent


def modules(tree: ast.Module) -> dict[str, ModuleType]:
    """Modules of the project that a file imports by name, by the name it has there."""
    rooms, names = ("benchmarks", "mfbo_torch"), {}
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    ours = [node for node in imports if node.module.split(".")[0] in rooms]
    exec(compile(ast.Module(ours, []), "imports", "exec"), names)
    return {name: value for name, value in names.items() if isinstance(value, ModuleType)}


@pytest.mark.parametrize("path", sorted(HERE.rglob("*.py")), ids=lambda path: path.relative_to(HERE).as_posix())
def test_names_of_modules_exist(path: Path) -> None:
    tree = ast.parse(path.read_text())
    known = modules(tree)
    used = {
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known
    }
    assert not [f"{name}.{part}" for name, part in sorted(used) if not hasattr(known[name], part)]
