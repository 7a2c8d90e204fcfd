"""What the page about the papers names is there, and what it says stands in the files that it links."""

import re
from pathlib import Path

import pytest

from benchmarks.figures.claims import CLAIMS, Claim, compared, holds

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PAGE = (DOCS / "papers.md").read_text(encoding="utf-8")
FILES = {path.name: path.read_text(encoding="utf-8") for path in HERE.rglob("test_*.py")}
DRAWN = re.compile(r"<!-- compared: ([\w-]+) -->.*?<!-- end -->", re.DOTALL)
ITEMS = re.findall(r"^\| \d+ \|.*$", PAGE, re.MULTILINE)
FIGURES = [line for line in DRAWN.sub("", PAGE).split("\n") if re.match(r"\| (Figs?\. \d|several)", line)]
ANSWERS = ("yes", "in part", "no", "proof only", "an illustration")


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split(" | ")]


def test_every_item_has_its_number():
    assert [int(cells(row)[0]) for row in ITEMS] == list(range(1, 79))


@pytest.mark.parametrize("row", [*ITEMS, *FIGURES], ids=lambda row: row[2:30])
def test_every_row_answers_and_links_what_it_rests_on(row):
    answer = cells(row)[-1]
    assert answer.startswith(ANSWERS)
    if not answer.startswith(("proof only", "an illustration")):
        assert re.search(r"\]\((\.\./tests/|\.\./benchmarks/results/)", row) or "optima numerically" in row


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: row[2:30])
def test_numbers_stand_in_the_files_that_a_row_links(row):
    """Those with a decimal point, or an exponent; they may be rounded there to more digits."""
    linked = re.findall(r"\]\((\.\./benchmarks/results/[^)#]+\.(?:md|json))", row)
    text = "\n".join((DOCS / path).read_text("utf-8") for path in linked)
    told = {float(number) for number in re.findall(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?", text)}
    for number in re.findall(r"(?<![\w.=])\d+\.\d+(?:e-\d+)?", re.sub(r"`[^`]*`|\[[^]]*\]", "", cells(row)[-1])):
        digits = len(number.partition("e")[0].partition(".")[2])
        scale = float("1e" + (number.partition("e")[2] or "0"))
        assert any(abs(float(number) - other) <= 0.5 * 10**-digits * scale * 1.001 for other in told), number


@pytest.mark.parametrize("row", [row for row in FIGURES if "below" in cells(row)[-1]], ids=lambda row: row[2:30])
def test_answers_are_those_of_the_comparisons(row):
    paper = DRAWN.findall(PAGE)[[PAGE.index(row) < found.start() for found in DRAWN.finditer(PAGE)].index(True)]
    numbers = set(re.findall(r"\d+", cells(row)[0].partition("(")[0]))
    parts = set(re.findall(r"\b[a-h]\b", cells(row)[0].partition("(")[0]))
    claims = [c for c in CLAIMS[paper] if set(re.findall(r"\d+", c.figure)) <= numbers]
    claims = [c for c in claims if set(re.findall(r"\b[a-h]\b", c.figure)) <= parts]
    found = {holds(claim) for claim in claims}
    assert cells(row)[-1].startswith(*found if len(found) == 1 else ("in part",))


def test_a_comparison_by_hand(monkeypatch):
    known = {
        "A": {1.0: (0.3, 0.01), 2.0: (0.2, 0.02), 3.0: (0.1, 0.01)},
        "B": {1.0: (0.1, 0.01), 2.0: (0.21, 0.01), 3.0: (0.3, 0.1), 4.0: (0.0, 0.0)},
    }
    monkeypatch.setattr("benchmarks.figures.claims.curves", lambda *_: known)
    claim = Claim("Fig. 1", "less", "name", "problem", "column", "A", ("B",))
    assert [state for state, *_ in compared(claim).values()] == ["behind", "level", "ahead"]
    assert holds(claim) == "in part"
    assert holds(claim._replace(ours="B", others=("A",))) == "in part"
    known["A"].pop(1.0)
    assert holds(claim) == "yes"
    assert holds(claim._replace(ours="B", others=("A",))) == "no"
    assert holds(claim._replace(ours="B", others=("A",), comparable=True)) == "in part"
    assert [state for state, *_ in compared(claim._replace(larger=True)).values()] == ["level", "behind"]


def test_the_site_leads_nowhere_that_it_is_not():
    source = re.search(r'^ELSEWHERE = re\.compile\(r"(.*)"\)$', (DOCS / "site.py").read_text("utf-8"), re.MULTILINE)[1]
    left = re.sub(source, r"\1", PAGE)
    assert "../tests/" not in left
    assert set(re.findall(r"\]\([^)#]*\.(\w+)(?:#[\w-]+)?\)", left)) <= {"md", "png"}
    assert "[regret.md](../benchmarks/results/regret.md#currin)" in left


@pytest.mark.parametrize("name", sorted(set(re.findall(r"::(test_\w+)`", PAGE))))
def test_tests_that_it_names(name):
    assert any(f"def {name}(" in text for text in FILES.values())


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w-]+(?:/[\w-]+)?\.(?:md|png|json))`", PAGE))))
def test_results_that_it_names(name):
    assert (HERE.parent / "benchmarks" / "results" / name).exists()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(configs/[\w/*.-]+)`", PAGE))))
def test_configurations_that_it_names(name):
    assert list(HERE.parent.glob(name))
