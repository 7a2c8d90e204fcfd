"""The command ``python -m benchmarks.gpu``."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from benchmarks import gpu
from benchmarks.common import about, parser, quiet
from benchmarks.gpu.sections import SECTIONS, Bench
from benchmarks.gpu.sizes import DRY, Sizes
from mfbo_torch.ops import _dispatch
from mfbo_torch.ops.posterior.tiles import TABLE


def page(report: dict[str, Any]) -> str:
    """Measured and measured ÷ ceiling, a table a section."""
    here = report["about"]
    lines = [f"# {here['machine']}", "", f"torch {here['torch']}, commit {here['commit']}, {here['date']}.", ""]
    for section, found in report["sections"].items():
        rows = found if isinstance(found, list) else [found]
        lines += [f"## {section}", ""]
        if all(not isinstance(value, dict | list | tuple) for row in rows for value in row.values()):
            names = list(dict.fromkeys(name for row in rows for name in row))
            lines += [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
            lines += [f"| {' | '.join(_told(row.get(name)) for name in names)} |" for row in rows]
        else:
            lines += [f"- {name}: {json.dumps(value)}" for row in rows for name, value in row.items()]
        lines.append("")
    return "\n".join(lines)


def _told(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "-" if value is None else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure section by section; 1 if a test failed or a result was wrong."""
    made = parser(gpu.__doc__, only=list(SECTIONS), minutes=9.0)
    made.add_argument("--dry", action="store_true", help="on the processor, at sizes of no account")
    made.add_argument("--tiles", action="store_true", help="write the best block sizes into the kernels' table")
    made.add_argument("--anew", action="store_true", help="measure again what was measured at this commit")
    options = made.parse_args(arguments)
    if not options.dry and not torch.cuda.is_available():
        print("There is no CUDA device; --dry runs the same on the processor, under TRITON_INTERPRET=1")
        return 2
    if options.dry and not _dispatch.interpreted():
        print("--dry is for Triton's interpreter: set TRITON_INTERPRET=1")
        return 2
    quiet(torch.get_num_threads())
    device, until = "cpu" if options.dry else "cuda", time.monotonic() + 60 * options.minutes
    here = about(device) | ({"machine": "dry"} if options.dry else {})
    path = options.results / f"{here['machine']}.json"
    before = json.loads(path.read_text()) if path.exists() and not (options.anew or options.dry) else {}
    done = before.get("sections", {}) if before.get("about", {}).get("commit") == here["commit"] else {}
    bench = Bench(device, DRY if options.dry else Sizes(), options.dry, done, until)
    for name, section in SECTIONS.items():
        if name not in options.only or name in done:
            continue
        if time.monotonic() > until:
            print(f"no time left for {name}: the same command goes on with it")
            break
        started = time.monotonic()
        try:
            done[name] = section(replace(bench, until=min(until, time.monotonic() + 150)))
        except Exception as error:  # the other sections are worth having
            done[name] = {"error": f"{type(error).__name__}: {error}"}
        print(f"{name} ({time.monotonic() - started:.0f} s): {json.dumps(done[name])}", flush=True)
        report = {"about": here, "sections": done}
        path.write_text(json.dumps(report, indent=1) + "\n")
        path.with_suffix(".md").write_text(page(report))
        if device == "cuda":
            torch.cuda.empty_cache()
    if options.tiles and "tiles" in done:
        table = json.loads(TABLE.read_text())
        for kind, ways in done["tiles"].items():
            for way, found in ways.items():
                table[way][kind] = list(found["best"])
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
    wrong = [name for name, found in done.items() if isinstance(found, dict) and found.get("error")]
    wrong += [name for name in ("forward", "backward") for row in done.get(name, []) if row.get("right") is False]
    return int(bool(wrong) or bool(done.get("tests", {}).get("rc")))


if __name__ == "__main__":
    raise SystemExit(main())
