"""Every block of the README and of the documentation runs as it is written, page by page, in an empty folder.

Blocks of Python share a page's names. A block that begins with ``# NAME.py`` or ``# NAME.yaml`` is that file too. Of
shell blocks each ``mfbo`` line is run; what other jobs run, and what takes minutes, is named here.
"""

import importlib
import io
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from mfbo_torch.app import cli
from mfbo_torch.app.schema import RUN, settings_of_command

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
KINDS = ("python", "yaml", "bash", "text", "bibtex")
SLOW = (
    "configs/quickstart.yaml",
    "configs/indirect",
    "configs/bandit",
    "configs/compare",
    "--executor",
    "--follow",
    "mfbo serve",
)
"""Settings of commands that are checked and not run."""
LONG = ("ax-and-optuna", "clusters", "five-users", "long-runs", "outcomes")
"""Pages whose blocks run for seconds."""
ELSEWHERE = ("pytest", "ruff", "mypy", "mkdocs", "bash .ci/", "python train.py --multirun")
"""What other jobs run."""
NEEDS = {"optuna": "optuna", "ax": "ax", "sklearn": "sklearn", "pandas": "pandas", "distributed": "distributed"}
NEEDS |= {
    "hydra": "hydra.core",
    "ray": "ray.exceptions",
    "tune": "pyarrow",
}  # not tests/hydra, tests/ray
NEEDS |= {name: name for name in ("lightning", "transformers")} | {"tracking.tensorboard": "tensorboard"}


class Block(NamedTuple):
    kind: str
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, indented ones too."""
    for found in re.finditer(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL):
        lines = found[3].split("\n")
        inner = "\n".join(line.removeprefix(found[1]) for line in lines)
        yield Block(found[2], inner, text[: found.start()].count("\n") + 1)


def forget(folder: Path) -> None:
    """Modules from below a folder are imported anew: other tests have an ``objective.py`` of their own."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder with the package's configs, as the current one."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    forget(tmp_path.parent)
    yield tmp_path
    forget(tmp_path)


def execute(source: str, name: str, names: dict) -> None:
    exec(compile(source, name, "exec"), names)


def shell(text: str, where: str) -> None:
    """The commands of a shell block."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lines = re.sub(r"\\\n\s*", " ", text).split("\n")
    commands = [
        part for line in lines for part in re.split(r"\s+&&\s+|\s*;\s+", re.sub(r"(^|\s)#.*", "", line).strip())
    ]
    for command in filter(None, commands):
        words = shlex.split(command)
        if words[:2] == ["pip", "install"]:
            named = re.findall(r"\[([\w,-]+)\]", command)
            assert {extra for some in named for extra in some.split(",")} <= set(extras), where
        elif words[0] == "mfbo":
            argv = words[1:]
            if any(slow in command for slow in SLOW):
                if argv[0] == "run" and (ROOT / argv[1]).exists():
                    settings_of_command(RUN, [word for word in argv[1:] if word != "--detach"])
                continue
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.stdin", io.StringIO())
                assert cli.main(argv) == 0, f"{where}: {command}"
        else:
            assert command.startswith(ELSEWHERE), f"{where}: {command} is not run by any test"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=[pytest.mark.slow] * (page.stem in LONG))
        for page in PAGES
    ],
)
def test_blocks_run_as_written(page, place):
    text = page.read_text("utf-8")
    names: dict = {"__name__": "__page__"}
    for need, module in NEEDS.items():
        if f"import {need}" in text or f"mfbo_torch.{need}" in text:
            pytest.importorskip(module)
    for kind, source, line in blocks(text):
        where = f"{page.name}:{line}"
        assert kind in KINDS, f"{where}: say what kind of block it is, one of {KINDS}"
        if file := re.match(r"# (\w[\w./]*\.(py|yaml))\b", source):
            (place / file[1]).parent.mkdir(parents=True, exist_ok=True)
            (place / file[1]).write_text(source)
        if kind == "python":
            execute("\n" * line + source, where, names)
        elif kind == "yaml":
            assert isinstance(yaml.safe_load(source), dict), where
        elif kind == "bash":
            shell(source, where)


def test_examples_search_by_what_their_page_is_about():
    """A random search shows nothing of it; it is a baseline of comparisons."""
    for page in (ROOT / "docs" / "how-to").glob("*.md"):
        assert not [block for block in blocks(page.read_text("utf-8")) if "RandomSearch" in block.text], page.name


CONFIGS = [file for file in sorted((ROOT / "configs").rglob("*.*")) if file.suffix != ".pyc"]  # left by runs
NAMING = [*PAGES, *NOTEBOOKS, ROOT / "CHANGELOG.md", *CONFIGS]


@pytest.mark.parametrize("page", NAMING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_name_exists(page):
    """Each ``mfbo_torch.a.b`` that a page or a config names can be imported, each ``mfbo_torch/a/b`` is a file."""
    text = page.read_text("utf-8")
    for name in sorted(set(re.findall(r"(?<![\w/.])mfbo_torch(?:\.\w+)+", text))):
        assert resolved(name) is not None, name
    for path in sorted(set(re.findall(r"`((?:mfbo_torch|tests|benchmarks|configs)/[\w/.-]+)`", text))):
        assert (ROOT / path).exists(), path


def resolved(name: str) -> object:
    """What a dotted name stands for, an attribute of the longest module that there is."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("mfbo_torch"):
                continue
            pytest.skip(f"{error.name} is not installed")
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found
    return None


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_run(page, place):
    names: dict = {"__name__": "__notebook__"}
    for i, cell in enumerate(json.loads(page.read_text("utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            execute("".join(cell["source"]), f"{page.name}, cell {i}", names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    """Files of the repository that a page points to."""
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_blocks_are_seen():
    page = "a\n```python\nx = 1\n```\n\n    ```bash\n    mfbo --help\n    ```\n"
    assert [*blocks(page)] == [("python", "x = 1\n", 2), ("bash", "mfbo --help\n", 6)]
    with pytest.raises(AssertionError, match="is not run by any test"):
        shell("rm -rf x", "here")
    with pytest.raises(AssertionError):
        shell('pip install "mfbo-torch[nope]"', "here")


def test_licences_are_those_of_the_packages_that_are_needed():
    """The table has each package of the core and of the extras for users, and no other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {"core": project["dependencies"], **project["optional-dependencies"]}
    wanted = {}
    for extra in extras.keys() - {"test", "benchmarks", "docs", "dev"}:
        for requirement in extras[extra]:
            wanted.setdefault(re.split(r"[<>=\[; ]", requirement)[0], set()).add(extra)
    rows = re.findall(r"^\| \[(.+?)\].*\| (.*) \|$", (ROOT / "docs" / "licences.md").read_text("utf-8"), re.MULTILINE)
    assert {name: {*re.findall(r"`(\w+)`", text)} or {"core"} for name, text in rows} == wanted
