"""Ours beside BoTorch: checked, then timed in turn in one process.

    python -m benchmarks.ops.run [--device cpu|cuda] [--only TEXT] [--rounds 15] [--threads N] [--results DIR]

The same command on any machine; what a machine cannot run is said to be unmeasured. Writes
``<machine>.json`` and ``<machine>.png``. A time is only reported beside a passing check. The percentages
are of the matrix product and the copy measured in the same run, for the least flops and bytes of the case.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import botorch
import gpytorch
import torch

from benchmarks.ops.cases import CASES, SWEEPS, Case
from benchmarks.ops.operations import build
from benchmarks.ops.plot import draw_growth, exponent
from benchmarks.ops.timing import ceilings, peak_bytes, side_by_side, spread

RESULTS = Path(__file__).parents[1] / "results"


def measure(case: Case, device: str, ceiling: dict[str, float], rounds: int, span: float) -> dict[str, Any]:
    """The row of a case. ``error`` is there instead of times where the check fails or memory runs out."""
    row: dict[str, Any] = {"case": case.name, "operation": case.operation, "n": case.n, "m": case.m, "d": case.d}
    row |= {"dtype": str(case.dtype).removeprefix("torch."), "flops": case.flops, "bytes": case.bytes}
    try:
        pair = build(case, device)
        row["difference"] = pair.error()
    except torch.OutOfMemoryError as error:
        return row | {"error": f"out of memory: {error}"}
    if not row["difference"] <= pair.limit:
        return row | {"error": f"differs by {row['difference']:.1e}, at most {pair.limit:.0e} is allowed"}
    calls = [pair.ours] if pair.peer is None else [pair.ours, pair.peer]
    times = side_by_side(calls, device, rounds, span)
    row["ours"] = spread(times[0])
    row["peak_bytes"] = peak_bytes(pair.ours, device)
    row["percent_of_product"] = 100 * case.flops / row["ours"]["median"] / ceiling["flops"]
    row["percent_of_copy"] = 100 * case.bytes / row["ours"]["median"] / ceiling["bytes"]
    if pair.peer is not None:
        row["peer"] = spread(times[1])
        row["ratio"] = median(theirs / ours for ours, theirs in zip(*times, strict=True))
    if case.bar is not None:
        row["bar"] = case.bar
    return row


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    if "error" in row:
        return f"{row['case']:46s} {row['error']}"
    ours, peer = row["ours"], row.get("peer")
    text = f"{row['case']:46s} {1e6 * ours['median']:10.1f} {1e6 * ours['q10']:9.1f}-{1e6 * ours['q90']:<9.1f}"
    text += f"{1e6 * peer['median']:10.1f} {row['ratio']:6.1f}" if peer else f"{'-':>10s} {'-':>6s}"
    text += f" {row.get('bar', float('nan')):5.1f} {row['percent_of_product']:6.1f} {row['percent_of_copy']:6.1f}"
    return text + f" {row['peak_bytes'] / 2**20:9.2f}"


HEADER = (
    f"{'case':46s} {'ours / µs':>10s} {'10-90 %':>15s}    {'peer / µs':>10s} {'ratio':>6s} {'bar':>5s} "
    f"{'% prod':>6s} {'% copy':>6s} {'peak MiB':>9s}"
)


def machine(device: str) -> str:
    """A name for the results: the GPU, or the processor and its number of cores."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"{_processor()} {os.cpu_count()} cores"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def about(device: str) -> dict[str, Any]:
    """Where and with what."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None
    return {
        "machine": machine(device),
        "device": device,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if device == "cuda" else None,
        "botorch": botorch.__version__,
        "gpytorch": gpytorch.__version__,
        "commit": commit,
    }


def main(arguments: list[str] | None = None, cases: list[Case] = CASES, sweeps: dict[str, list[Case]] = SWEEPS) -> int:
    """Check, measure, print, write; 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--span", type=float, default=0.01, help="seconds of a turn")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--ceiling", type=int, default=None, help="size of the product that gives the ceiling")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    device = options.device
    limits = {dtype: ceilings(device, dtype, options.ceiling) for dtype in {case.dtype for case in cases}}
    report: dict[str, Any] = about(device)
    report["ceilings"] = {str(dtype).removeprefix("torch."): limit for dtype, limit in limits.items()}
    print(*(f"{key} {value}" for key, value in report.items()), HEADER, sep="\n", flush=True)
    rows = []
    for case in cases:
        if options.only in case.name:
            if device in case.devices:
                row = measure(case, device, limits[case.dtype], options.rounds, options.span)
            else:
                row = {"case": case.name, "error": f"unmeasured: needs {' or '.join(case.devices)}"}
            rows.append(row)
            print(line(row), flush=True)
    report["rows"] = rows
    report["growth"] = growth = {}
    for axis, sweep in sweeps.items():
        found = [measure(case, device, limits[case.dtype], max(options.rounds // 3, 2), options.span) for case in sweep]
        sizes = [getattr(case, axis) for case in sweep]
        growth[axis] = {"fixed": {"m": "n", "n": "m"}[axis], "sizes": sizes}
        for who in ("ours", "peer"):
            times = [row[who]["median"] for row in found]
            growth[axis][who] = {"seconds": times, "exponent": exponent(sizes, times)}
        print(
            f"time against {axis}:",
            *(f"{who} ~ {axis}^{growth[axis][who]['exponent']:.2f}" for who in ("ours", "peer")),
        )
    options.results.mkdir(parents=True, exist_ok=True)
    stem = options.results / report["machine"]
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    if growth:
        draw_growth(growth, sweeps, stem.with_suffix(".png"), report)
    return int(any(row.get("error", "unmeasured").startswith("differs") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
