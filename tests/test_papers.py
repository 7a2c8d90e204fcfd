"""What the page about the papers names is there."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = (HERE.parent / "docs" / "papers.md").read_text(encoding="utf-8")
FILES = {path.name: path.read_text(encoding="utf-8") for path in HERE.rglob("test_*.py")}


def test_every_item_has_its_number():
    assert [int(n) for n in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == list(range(1, 79))


@pytest.mark.parametrize("file", sorted(set(re.findall(r"(test_\w+\.py)", PAGE))))
def test_files_that_it_names(file):
    assert file in FILES


@pytest.mark.parametrize("name", sorted(set(re.findall(r"::(test_\w+)`", PAGE))))
def test_tests_that_it_names(name):
    assert any(f"def {name}(" in text for text in FILES.values())


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w-]+(?:/[\w-]+)?\.(?:md|png|json))`", PAGE))))
def test_results_that_it_names(name):
    assert (HERE.parent / "benchmarks" / "results" / name).exists()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(configs/[\w/*.-]+)`", PAGE))))
def test_configurations_that_it_names(name):
    assert list(HERE.parent.glob(name))
