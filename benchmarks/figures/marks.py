"""Which results older code has measured, and the notes that say so on the pages that show them.

Rows and pictures are stale where code that they depend on has changed since (:mod:`benchmarks.provenance`). A page of
``benchmarks/results`` then names them in a note under its title. On the other pages a link to a stale result has a
dagger behind it, and the last line says what that means.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import yaml
from PIL import Image

from benchmarks import quality
from benchmarks.common import RESULTS
from benchmarks.dependencies import digest
from benchmarks.figures import claims, quoted, tour
from benchmarks.provenance import Code, Group, states
from benchmarks.quality.batch.run import code_of
from benchmarks.robustness import faults
from benchmarks.study import Study, read

ROOT = RESULTS.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DAGGER, MEANING = "†", "† Measured with older code: parts that it depends on have changed since."
NOTE = "**Measured with older code**"
LINK = re.compile(r"\]\(([^)\s]*benchmarks/results/[^)#\s]+)(#[^)\s]*)?\)" + DAGGER + "?")
DRAWN = "code"
"""The key of a picture's text that has the hash of what it depends on."""


@cache
def codes() -> dict[str, Code]:
    """The hash of each file of rows, by its name without ending."""
    found: dict[str, Code] = {"faults": faults.code}
    for module in walk_packages(quality.__path__, "benchmarks.quality."):
        study = getattr(import_module(module.name), "STUDY", None)
        if isinstance(study, Study):
            found[study.name] = study.code
    for config in sorted((ROOT / "configs" / "batch").glob("*.yaml")):
        found[f"batch/{config.stem}"] = partial(code_of, yaml.safe_load(config.read_text()))
    return found


@cache
def rows_of(name: str) -> dict[Group, str]:
    """The state of each group of rows of a file."""
    path = RESULTS / f"{name}.csv"
    return states(path, read(path), codes()[name])


def stale(target: Path) -> dict[str, list[str]]:
    """What of a result is stale or untold: by problem the methods, none where it is all of them; else its own name."""
    name = target.relative_to(RESULTS).as_posix()
    if target.suffix == ".png" and target.exists():
        with Image.open(target) as picture:
            drawn = json.loads(picture.text.get(DRAWN, "null"))  # type: ignore[attr-defined]
        if drawn is not None:
            return {} if drawn["hash"] == digest([tuple(drawn["of"])]) else {name: []}
    if target.suffix == ".json" or name.startswith("bandit"):
        report = json.loads((target if target.suffix == ".json" else RESULTS / "bandit.json").read_text())
        code = report.get("code", {"module": "", "hash": ""})
        return {} if code["hash"] == digest([(code["module"], "main")]) else {name: []}
    stem = name.split(".")[0]
    of = max((known for known in codes() if stem.startswith(known)), key=len, default=None)
    if of is None:
        return {name: []}
    old, fresh = defaultdict[str, list[str]](list), set[str]()
    for (problem, method), state in rows_of(of).items():
        if state == "fresh":
            fresh.add(problem)
        else:
            old[problem].append(method)
    return {problem: methods if problem in fresh else [] for problem, methods in old.items()}


def noted(page: Path, text: str) -> str:
    """A page of results with its note, where something of it is stale."""
    title, _, rest = unmarked(text).partition("\n")
    found = stale(page)
    if not found:
        return f"{title}\n{rest}"
    parts = [f"{problem} ({', '.join(methods)})" if methods else problem for problem, methods in found.items()]
    parts = ["all of it"] if {*found} >= problems(page) and not any(found.values()) else parts
    return f"{title}\n\n{NOTE}, which has changed since: {'; '.join(parts)}.\n{rest}"


def unmarked(text: str) -> str:
    """A page of results without its note."""
    return re.sub(rf"\n{re.escape(NOTE)}[^\n]*\n", "", text)


def daggered(page: Path, text: str) -> str:
    """A page of the documentation whose links to stale results have a dagger."""

    def link(found: re.Match[str]) -> str:
        old = stale_part((page.parent / found[1]).resolve(), found[2] or "")
        return f"]({found[1]}{found[2] or ''})" + DAGGER * old

    marked = LINK.sub(link, text.replace(f"\n{MEANING}\n", ""))
    return marked + f"\n{MEANING}\n" * (DAGGER in marked)


def stale_part(target: Path, anchor: str) -> bool:
    """Whether a result is stale; of a page with an anchor only the problem that the anchor begins with, if any does."""
    found = stale(target)
    slugs = {re.sub(r"[^a-z0-9]+", "-", problem.lower()).strip("-"): problem for problem in problems(target)}
    begun = [slug for slug in slugs if anchor.startswith(f"#{slug}")]
    return slugs[max(begun, key=len)] in found if begun else bool(found)


def problems(target: Path) -> set[str]:
    """The problems of a file of rows."""
    stem = target.relative_to(RESULTS).as_posix().split(".")[0]
    return {problem for problem, _ in rows_of(stem)} if stem in codes() else set()


def wanted() -> Iterator[tuple[Path, str, str]]:
    """Every page, as it is and as it should be."""
    for page in [*PAGES, *sorted(RESULTS.rglob("*.md"))]:
        text = page.read_text("utf-8")
        yield page, text, daggered(page, claims.drawn(text)) if page in PAGES else noted(page, text)


def untold() -> list[str]:
    """Rows that nothing tells what measured them, and files that nobody measures."""
    found = []
    for path in sorted({path.with_name(path.name.split(".")[0]) for path in RESULTS.rglob("*.csv*")}):
        name = path.relative_to(RESULTS).as_posix()
        if name in codes():
            old = [group for group, state in rows_of(name).items() if state == "untold"]
            found += [f"{name}.csv: no entry in {name}.about.json for {problem}, {method}" for problem, method in old]
        elif not name.startswith("bandit"):
            found.append(f"{name}.csv: no study measures it")
    return found


def mark() -> None:
    """Write the notes."""
    for page, text, right in wanted():
        if text != right:
            page.write_text(right, "utf-8")


def check() -> int:
    """Print what is stale and what is wrong; the exit status, 1 where something is wrong."""
    wrong = [*untold(), *quoted.wrong()]
    wrong += [f"{page.relative_to(ROOT)}: notes are not true, --mark writes them" for page, a, b in wanted() if a != b]
    for name in sorted(codes()):
        if (RESULTS / f"{name}.csv").exists() or (RESULTS / f"{name}.csv.gz").exists():
            old = [group for group, state in rows_of(name).items() if state != "fresh"]
            print(f"{name}: {len(old)} of {len(rows_of(name))} groups are stale" if old else f"{name}: fresh")
    print(f"tour: {'fresh' if tour.fresh(DRAWN) else 'some pictures are of older code, --tour draws them anew'}")
    print(*wrong, sep="\n")
    return int(bool(wrong))
