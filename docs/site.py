"""What was measured lies in ``benchmarks/results``; the site has it in ``results``. It has no tests and no rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

MEASURED = Path(__file__).parent.parent / "benchmarks" / "results"
SHOWN = (".md", ".png")
ELSEWHERE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?:tests/[^)]*|benchmarks/results/[^)#]*\.(?:json|csv|csv\.gz))\)")
"""Links to files that the site does not have."""


def on_files(files: Files, config: Any) -> Files:
    """Add tables and pictures to the site."""
    for path in sorted(MEASURED.rglob("*")):
        if path.suffix in SHOWN:
            name = f"results/{path.relative_to(MEASURED).as_posix()}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links out of the documentation to where the site has the results; what it does not have is text."""
    up = "../" * page.file.src_uri.count("/")
    return re.sub(r"\]\((?:\.\./)+benchmarks/results/", f"]({up}results/", ELSEWHERE.sub(r"\1", markdown))
