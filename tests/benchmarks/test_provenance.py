"""Rows say with which code they were measured, and pages say where that has changed."""

import ast

import pytest

from benchmarks import dependencies
from benchmarks.figures import __main__ as figures
from benchmarks.figures import marks
from benchmarks.provenance import entries, forget, states
from benchmarks.quality import regret
from benchmarks.quality.indirect import run as indirect
from benchmarks.study import Job, again, measure, read

COLUMNS = ("problem", "method", "seed", "capital", "value", "seconds")
GRID = [Job("line", method, seed, (10, 20)) for seed in range(2) for method in ("first", "second")]


def execute(job):
    return [(*job[:3], capital, capital / (job.seed + 1), 0.5) for capital in job.capitals]


def other(job):
    return [(*row[:4], row[4] + (job.method == "second"), 0.7) for row in execute(job)]


def test_no_row_is_untold_and_every_stale_figure_is_marked(capsys):
    assert figures.main(["--check"]) == 0, capsys.readouterr().out


def test_rows_are_fresh_until_their_code_changes_and_when_a_seed_gives_the_same(tmp_path):
    path = tmp_path / "rows.csv"
    measure(GRID[:2], execute, path, COLUMNS, lambda problem, method: "a")
    assert states(path, read(path), lambda *_: "a") == {("line", "first"): "fresh", ("line", "second"): "fresh"}
    measure(GRID, execute, path, COLUMNS, lambda problem, method: "b" if method == "second" else "a")
    old = {("line", "first"): "fresh", ("line", "second"): "stale"}
    assert states(path, read(path), lambda _, method: "b" if method == "second" else "a") == old
    assert again(GRID, other, path, lambda *_: "c") == 1
    assert states(path, read(path), lambda *_: "c") == {("line", "first"): "fresh", ("line", "second"): "stale"}
    forget(path, read(path), [("line", "second")])
    assert {row["method"] for row in read(path)} == {"first"}
    assert [entry.get("first_row") for entry in entries(path)] == [0, 2, None]
    path.with_suffix(".about.json").unlink()
    assert states(path, read(path), lambda *_: "a") == {("line", "first"): "untold"}


def test_of_a_run_that_was_cut_the_rows_until_then_are_compared(tmp_path):
    path, columns = tmp_path / "rows.csv", (*COLUMNS[:4], "spent", "queries")

    def until(end):
        return lambda job: [(*job[:3], capital, min(capital, end), min(capital, end)) for capital in job.capitals]

    measure(GRID[:1], until(15), path, columns, lambda *_: "a")
    assert again(GRID[:1], until(17), path, lambda *_: "b") == 0
    assert {*states(path, read(path), lambda *_: "b").values()} == {"fresh"}
    assert again(GRID[:1], until(7), path, lambda *_: "c") == 1
    assert {*states(path, read(path), lambda *_: "c").values()} == {"stale"}
    forget(path, read(path), [("line", "first")])
    measure(GRID[:1], until(7), path, columns, lambda *_: "a")  # before the first row: nothing else to compare
    assert again(GRID[:1], until(7), path, lambda *_: "b") == 0


def test_entries_without_a_row_and_repeats_that_were_done_again_make_room(tmp_path):
    path = tmp_path / "rows.csv"
    measure(GRID, execute, path, COLUMNS, lambda *_: "a")
    for code in ("b", "c"):
        again(GRID, execute, path, lambda *_, code=code: code)
    assert [entry["code"]["line"]["first"] for entry in entries(path)] == ["a", "c"]
    assert {*states(path, read(path), lambda *_: "c").values()} == {"fresh"}
    forget(path, read(path), [("line", "first"), ("line", "second")])
    measure(GRID, execute, path, COLUMNS, lambda *_: "d")
    assert [entry["code"]["line"]["first"] for entry in entries(path)] == ["d"]


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Two modules of a package of their own."""
    (tmp_path / "mfbo_torch").mkdir()
    monkeypatch.setattr(dependencies, "ROOT", tmp_path)
    caches = [dependencies.module, dependencies.resolved, dependencies._named_by, dependencies._text_of]

    def write(**modules):
        for name, text in modules.items():
            (tmp_path / "mfbo_torch" / f"{name}.py").write_text(text)
        for cached in caches:
            cached.cache_clear()
        return dependencies.digest([("mfbo_torch.a", "f")])

    yield write
    for cached in caches:
        cached.cache_clear()


A = "from mfbo_torch.b import g\n\ndef f(x: int) -> int:\n    return g(x) + K\n\nK = 1\n"
B = "def g(x):\n    return x\n\ndef unused():\n    return 2\n"


def test_a_hash_follows_what_is_named_and_nothing_else(house):
    before = house(a=A, b=B)
    assert (
        house(a=A.replace("x: int", "x: float").replace("    return", '    """Doc."""  # why\n    return'), b=B)
        == before
    )
    assert house(a=A, b=B.replace("return 2", "return 3")) == before
    assert house(a=A, b=B.replace("return x", "return -x")) != before
    assert house(a=A.replace("K = 1", "K = 2"), b=B) != before
    assert house(a=A.replace("b import", "c import"), b="", c=B) == before


def test_a_method_depends_on_its_own_strategy():
    module = indirect.STUDY.module
    table, made = dependencies.entry("CMES", module)
    found = dependencies.closure([(module, "execute"), *dependencies.named(made, module)], [table])
    assert "CMES" in {name for _, name in found}
    assert "CMETS" not in {name for _, name in found}
    assert indirect.STUDY.code("fixed linear", "CMES") != indirect.STUDY.code("fixed linear", "MES")
    assert regret.STUDY.code("Currin", "LogEI") != regret.STUDY.code("Park", "LogEI")


def test_a_study_that_runs_as_a_program_has_the_same_hash(monkeypatch):
    before = indirect.STUDY.code("fixed linear", "CMES")
    monkeypatch.setattr(indirect.execute, "__module__", "__main__")
    assert indirect.STUDY.code("fixed linear", "CMES") == before


def test_source_reads_alike_without_what_does_not_count():
    one, two = (ast.parse(text) for text in ('def f(a: int):\n    """Doc."""\n    return a', "def f(a):\n    return a"))
    assert dependencies.text(one) == dependencies.text(two)


def test_a_refusal_changes_no_hash_and_what_else_a_condition_does_is_no_refusal(house):
    before = house(a=A, b=B)
    refusal = '    if x < 0:\n        wanted = "from 0 on"\n        raise SettingError("x", x, wanted)\n'
    assert house(a=A, b=B.replace("    return x", f"{refusal}    return x")) == before
    assert house(a=A, b=B.replace("    return x", f"{refusal}    return x").replace("x < 0", "(x := -x) < 0")) != before
    for other in (refusal.replace("SettingError", "NanError"), refusal.replace("wanted =", "x +="), "    x += 1\n"):
        assert house(a=A, b=B.replace("    return x", f"{other}    return x")) != before
    assert house(a=A, b=B.replace("    return x", f"{refusal}    else:\n        x = 1\n    return x")) != before


def test_notes_come_and_go(monkeypatch):
    page, name = marks.RESULTS / "regret.md", "../benchmarks/results/regret.md"
    text = "# Title\n\nText.\n"
    monkeypatch.setattr(marks, "stale", lambda target: {"Currin": ["LogEI"], "Park": []})
    noted = marks.noted(page, text)
    assert noted.splitlines()[2] == f"{marks.NOTE}, which has changed since: Currin (LogEI); Park."
    assert marks.unmarked(noted) == text
    guide = marks.ROOT / "docs" / "papers.md"
    shown = f"[a]({name}), [b]({name}#currin-x), [c]({name}#hartmann3), [d](design.md)\n"
    daggered = marks.daggered(guide, shown)
    assert (
        daggered == f"[a]({name})†, [b]({name}#currin-x)†, [c]({name}#hartmann3), [d](design.md)\n\n{marks.MEANING}\n"
    )
    assert marks.daggered(guide, daggered) == daggered
    monkeypatch.setattr(marks, "stale", lambda target: {})
    assert marks.daggered(guide, daggered) == shown
    assert marks.noted(page, noted) == text
