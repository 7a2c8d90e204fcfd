"""Lines and seconds to a first result, for the five programs of ``docs/five-users.md``, whose table it writes."""

import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

PAGE = Path(__file__).parent.parent / "docs" / "five-users.md"
BEGIN, END = "<!-- written by python -m benchmarks.first_result -->\n", "<!-- end -->"


def programs() -> dict[str, str]:
    """The programs of the page by their users."""
    return dict(re.findall(r"^## (.*?)\n\n```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.M | re.S))


def lines(program: str) -> int:
    """Number of lines that are not blank."""
    return sum(bool(line.strip()) for line in program.splitlines())


def seconds(program: str) -> float:
    """Time of a fresh process from its start to its end; an error where it fails."""
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True)
        return time.perf_counter() - began


def main() -> None:
    rows = [f"| {user} | {lines(text)} | {seconds(text):.0f} |" for user, text in programs().items()]
    table = "\n".join(["| user | lines | seconds |", "| --- | ---: | ---: |", *rows])
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{table}\n\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
