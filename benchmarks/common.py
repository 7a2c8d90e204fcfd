"""What every benchmark does alike: its options, where results go, with what they were measured, how panels look."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import signal
import subprocess
import sys
import warnings
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch
from threadpoolctl import threadpool_info

import mfbo_torch
from benchmarks import dependencies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "torch",
    "botorch",
    "gpytorch",
    "ax-platform",
    "sqlalchemy",
    "distributed",
    "optuna",
    "smac",
    "scikit-learn",
)
"""Whose versions are listed where they are installed."""


def parser(page: str | None, **defaults: Any) -> ArgumentParser:
    """A parser with ``--results`` and an option for each default; a list takes several values, words from it only."""
    made = ArgumentParser(description=page, formatter_class=RawDescriptionHelpFormatter)
    made.add_argument("--results", type=_folder, default=RESULTS, metavar="FOLDER", help="where results go")
    for name, default in defaults.items():
        several = isinstance(default, Sequence) and not isinstance(default, str)
        form: dict[str, Any] = {"type": type(default[0]), "nargs": "+"} if several else {"type": type(default)}
        if form["type"] is str and several:
            form["choices"] = default
        made.add_argument(f"--{name}", default=default, metavar=name.upper(), **form)
    return made


def _folder(name: str) -> Path:
    path = Path(name)
    path.mkdir(parents=True, exist_ok=True)
    return path


def quiet(threads: int = 1) -> None:
    """Set the number of threads, and no warnings."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")


@contextmanager
def cut_after(minutes: float) -> Iterator[None]:
    """Interrupt what takes more processor time than that, as Ctrl-C would: a run ends with the history so far.

    Ctrl-C itself raises ``KeyboardInterrupt``: a run that somebody stops is none that was too long.
    """
    asked = False

    def interrupt(number: int, _: object) -> None:
        nonlocal asked
        asked = asked or number == signal.SIGINT
        raise KeyboardInterrupt

    former = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGPROF, interrupt)
    if former != signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    signal.setitimer(signal.ITIMER_PROF, 60 * minutes)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGINT, former)
    if asked:
        raise KeyboardInterrupt


def standard_error(values: Sequence[float]) -> float:
    """Of the mean of some seeds; NaN of one."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def mean_and_error(values: Sequence[float], mean: str, error: str) -> str:
    """The mean of some seeds ± its standard error, each in a format; of one seed without."""
    shown = f"{fmean(values):{mean}}"
    return f"{shown} ± {standard_error(values):{error}}" if len(values) > 1 else shown


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """The lines of a table, its first ``left`` columns aligned to the left and the others to the right."""
    line = "| --- " * left + "| ---: " * (len(head) - left) + "|"
    return [f"| {' | '.join(head)} |", line, *(f"| {' | '.join(row)} |" for row in rows)]


def about(device: str = "cpu") -> dict[str, Any]:
    """Where, when and with what something is measured."""
    found = {"mfbo-torch": mfbo_torch.__version__}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    name = torch.cuda.get_device_name() if device == "cuda" else f"{_processor()} {os.cpu_count()} cores"
    return found | {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "blas": _blas(),
        "machine": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        "device": device,
        "cuda": torch.version.cuda if device == "cuda" else None,
        "threads": torch.get_num_threads(),
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _blas() -> str | None:
    """NumPy's BLAS and the processor that its kernels are for."""
    for library in threadpool_info():
        if library["user_api"] == "blas" and "numpy" in library["filepath"]:
            return " ".join(library[key] for key in ("internal_api", "version", "architecture") if library.get(key))
    return None


def _commit() -> str | None:
    """The commit, and whether files have changed since that are no results."""
    git = ["git", "-C", str(RESULTS.parent)]
    commands = ["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "-uno", "--", ":/", ":(exclude)results"]
    try:
        commit, changed = (subprocess.check_output(git + c, stderr=subprocess.DEVNULL, text=True) for c in commands)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.strip() + ("-dirty" if changed else "")


def write_json(path: Path, report: Mapping[str, Any], device: str = "cpu") -> None:
    """Write a report; its first key is ``about``, its own if it has one, and its second what it depends on: the
    ``code`` of the ``main`` of a module, the caller's."""
    module = sys._getframe(1).f_globals["__spec__"].name
    code = {"module": module, "hash": dependencies.digest([(module, "main")])}
    path.write_text(json.dumps({"about": about(device), "code": code, **shortened(report)}, indent=1) + "\n")


def shortened(report: Any) -> Any:
    """A report with nine digits of each of its numbers: no measurement has more, and the files stay small."""
    if isinstance(report, Mapping):
        return {name: shortened(value) for name, value in report.items()}
    if isinstance(report, list | tuple):
        return [shortened(value) for value in report]
    return float(f"{report:.9g}") if isinstance(report, float) else report


def tidy(axes: Axes) -> None:
    """A faint grid, and no frame above and to the right."""
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
