"""Ours beside BoTorch: checked, then timed in turn in one process; ``MACHINE.json``.

    python -m benchmarks.speed.ops.run [--only TEXT ...] [--rounds 101] [--threads N]

A time is only reported beside a passing check; for a CUDA device there is :mod:`benchmarks.gpu`. The percentages
are of the matrix product and the copy measured in the same run, for the least flops and bytes of the case. Ours and
BoTorch's are called by turns, as between an optimiser's steps, not many times in a row with warm caches. ``--only`` is
for the cases whose name has one of these texts, without the growth; ``--span`` makes a turn as many calls as fit into
so many seconds. With other kernels of NumPy's OpenBLAS (``OPENBLAS_CORETYPE``) the files have their name.
"""

import os
from statistics import median
from typing import Any

import torch

from benchmarks.common import about, parser, quiet, write_json
from benchmarks.speed.ops.cases import CASES, SWEEPS, Case
from benchmarks.speed.ops.operations import OPERATIONS
from benchmarks.timing import ceilings, exponent, peak_bytes, side_by_side, spread


def measure(case: Case, ceiling: dict[str, float], rounds: int, span: float) -> dict[str, Any]:
    """The row of a case. ``error`` is there instead of times where the check fails."""
    row: dict[str, Any] = {"case": case.name, "operation": case.operation, "n": case.n, "m": case.m, "d": case.d}
    row |= {"dtype": str(case.dtype).removeprefix("torch."), "flops": case.flops, "bytes": case.bytes}
    pair = OPERATIONS[case.operation](case)
    row["difference"] = pair.error()
    if not row["difference"] <= pair.limit:
        return row | {"error": f"differs by {row['difference']:.1e}, at most {pair.limit:.0e} is allowed"}
    ours, peer = side_by_side([pair.ours, pair.peer], rounds, span)
    row |= {"ours": spread(ours), "peer": spread(peer), "peak_bytes": peak_bytes(pair.ours)}
    row["percent_of_product"] = 100 * case.flops / row["ours"]["median"] / ceiling["flops"]
    row["percent_of_copy"] = 100 * case.bytes / row["ours"]["median"] / ceiling["bytes"]
    row["ratio"] = median(theirs / mine for mine, theirs in zip(ours, peer, strict=True))
    return row if case.bar is None else row | {"bar": case.bar}


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    if "error" in row:
        return f"{row['case']:46s} {row['error']}"
    ours = row["ours"]
    text = f"{row['case']:46s} {1e6 * ours['median']:10.1f} {1e6 * ours['q10']:9.1f}-{1e6 * ours['q90']:<9.1f}"
    text += f"{1e6 * row['peer']['median']:10.1f} {row['ratio']:6.1f}"
    text += f" {row.get('bar', float('nan')):5.1f} {row['percent_of_product']:6.1f} {row['percent_of_copy']:6.1f}"
    return text + f" {row['peak_bytes'] / 2**20:9.2f}"


HEADER = (
    f"{'case':46s} {'ours / µs':>10s} {'10-90 %':>15s}    {'peer / µs':>10s} {'ratio':>6s} {'bar':>5s} "
    f"{'% prod':>6s} {'% copy':>6s} {'peak MiB':>9s}"
)


def named(machine: str) -> str:
    """A machine, and the kernels of OpenBLAS where they are not its own."""
    return "-".join(filter(None, [machine, os.environ.get("OPENBLAS_CORETYPE", "").lower()]))


def main(arguments: list[str] | None = None, cases: list[Case] = CASES, sweeps: dict[str, list[Case]] = SWEEPS) -> int:
    """Check, measure, print, write; 1 if a check failed."""
    made = parser(__doc__, rounds=101, span=0.0, threads=torch.get_num_threads())
    made.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="parts of the names of cases")
    made.add_argument("--ceiling", type=int, help="size of the product that gives the ceiling")
    options = made.parse_args(arguments)
    quiet(options.threads)
    limits = {dtype: ceilings("cpu", dtype, options.ceiling) for dtype in {case.dtype for case in cases}}
    here = about()
    report: dict[str, Any] = {"about": here}
    report["ceilings"] = {str(dtype).removeprefix("torch."): limit for dtype, limit in limits.items()}
    known = here | {"ceilings": report["ceilings"]}
    print(*(f"{key} {value}" for key, value in known.items()), HEADER, sep="\n", flush=True)
    rows = []
    for case in cases:
        if any(text in case.name for text in options.only):
            rows.append(measure(case, limits[case.dtype], options.rounds, options.span))
            print(line(rows[-1]), flush=True)
    report["rows"] = rows
    report["growth"] = growth = {}
    for axis, sweep in sweeps.items() if options.only == [""] else ():
        found = [measure(case, limits[case.dtype], max(options.rounds // 3, 2), options.span) for case in sweep]
        sizes = [getattr(case, axis) for case in sweep]
        growth[axis] = {"fixed": {"m": "n", "n": "m"}[axis], "sizes": sizes}
        for who in ("ours", "peer"):
            times = [row[who]["median"] for row in found]
            half = max(len(sizes) // 2, 2)  # the larger sizes, where a call's overhead matters least
            growth[axis][who] = {"seconds": times, "exponent": exponent(sizes[-half:], times[-half:])}
        print(
            f"time against {axis}:",
            *(f"{who} ~ {axis}^{growth[axis][who]['exponent']:.2f}" for who in ("ours", "peer")),
        )
    name = named(here["machine"])
    write_json(options.results / f"{name}.json", report)
    return int(any(row.get("error", "").startswith("differs") for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
