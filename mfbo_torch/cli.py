"""The command line: ``mfbo run``, ``mfbo compare``, ``mfbo show``, ``mfbo export`` and ``mfbo repair``."""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

from mfbo_torch import compare, experiment, table
from mfbo_torch.config import compare_parser, read_mapping, resolve, run_parser
from mfbo_torch.errors import SettingError
from mfbo_torch.history import Recommendation, Status
from mfbo_torch.journal import DiskFull
from mfbo_torch.problems.user import first_on_path
from mfbo_torch.repair import salvage
from mfbo_torch.runner import Hopeless

USAGE = """usage: mfbo COMMAND ...

  mfbo run CONFIG [--out DIR] [--SETTING VALUE ...]      spend a capital on a problem, or continue
  mfbo compare CONFIG [--out DIR] [--SETTING VALUE ...]  strategies side by side, or continue
  mfbo show DIR [--follow | --html]                      what a folder holds, finished or not; --html: as a page
  mfbo export DIR [FILE.csv | FILE.parquet]              its observations as a table
  mfbo repair DIR | JOURNAL [NEW]                        what is good in a damaged journal, as a new one

mfbo run --help lists the settings, mfbo run --strategy.help MFGPUCB those of a strategy."""
USAGES = {
    "show": "usage: mfbo show DIR [--follow | --html]",
    "export": "usage: mfbo export DIR [FILE.csv | FILE.parquet]",
    "repair": "usage: mfbo repair DIR | JOURNAL [NEW]",
}

WRONG_SETTING, BROKEN, INTERRUPTED = 2, 1, 130
FOLLOW_SECONDS = 1.0
"""Between two looks at a run that is going on."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The arguments, those of the process if not given.

    Returns:
        0; 1 if a run broke down, or nothing but failures came of it; 2 if a setting cannot work; 130 if
        interrupted. What went wrong is told in one line on the standard error.
    """
    command, *arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    commands: dict[str, Callable[[list[str]], int]] = {
        "run": _run,
        "compare": _compare,
        "show": _show,
        "export": _export,
        "repair": _repair,
    }
    if command in ("run", "compare"):
        first_on_path(os.getcwd())  # for class paths in the current folder
    try:
        if command in ("-h", "--help"):
            print(USAGE)
            return 0
        if command not in commands:
            raise SettingError("command", command, f"one of {', '.join(commands)}")
        if command in USAGES and arguments in (["-h"], ["--help"]):
            print(USAGES[command])
            return 0
        return commands[command](arguments)
    except (DiskFull, BrokenExecutor) as error:
        return _complain(error, BROKEN)
    except Hopeless as error:
        advice = "raise --capital or take a new --out" if error.spent else "the same command continues"
        return _complain(f"{error}; {advice} once that is repaired", BROKEN)
    except SettingError as error:
        return _complain(error, WRONG_SETTING)
    except KeyboardInterrupt:
        return _complain("interrupted; the same command continues", INTERRUPTED)


def _complain(what: object, code: int) -> int:
    print("mfbo:", " ".join(str(what).split()), file=sys.stderr)
    return code


def _run(arguments: list[str]) -> int:
    settings = resolve(run_parser(), arguments)
    problem, strategy = experiment.prepare(settings)
    history, finished = experiment.execute(settings, problem, strategy)
    strategy = strategy.bind(problem.space, settings["capital"])
    print(_report(experiment.Experiment(settings, problem, strategy, history)))
    print(f"Picture       {Path(settings['out']) / experiment.PICTURE}")
    return 0 if finished else _complain("interrupted; the same command continues", INTERRUPTED)


def _compare(arguments: list[str]) -> int:
    settings = resolve(compare_parser(), arguments)
    comparison = compare.compare(settings)
    print(_comparison(comparison))
    print(f"\nPicture: {Path(settings['out']) / compare.PICTURE}")
    for error in comparison.errors:
        _complain(error, BROKEN)
    return BROKEN if comparison.errors else 0


def _show(arguments: list[str]) -> int:
    folders = [argument for argument in arguments if argument not in ("--follow", "--html")]
    follow, html = "--follow" in arguments, "--html" in arguments
    out = _folder(folders, USAGES["show"])
    if "strategies" in read_mapping(out / experiment.CONFIG, "folder"):
        if follow or html:
            raise SettingError("folder", str(out), "that of a single run where --follow or --html is given")
        print(_comparison(compare.load(out)))
        return 0
    run = experiment.load(out)
    if html:
        from mfbo_torch import report

        print(f"Page          {report.write(run, out / 'report.html')}")
        return 0
    print(_report(run), flush=True)
    while follow and not experiment.finished(out):
        time.sleep(FOLLOW_SECONDS)
        seen, run = run.history, run._replace(history=experiment.recorded(out))
        if run.history != seen:
            print(f"\n{_report(run)}", flush=True)
    return 0


def _export(arguments: list[str]) -> int:
    out = _folder(arguments[:1], USAGES["export"])
    if len(arguments) > 2:
        raise SettingError("arguments", " ".join(arguments), f"a folder and a file: {USAGES['export']}")
    run = experiment.load(out)
    file = Path(arguments[1]) if len(arguments) == 2 else out / "history.csv"
    table.write(run.history, run.problem, file)
    print(f"{len(run.history)} records in {file}")
    return 0


def _repair(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        raise SettingError("journal", " ".join(arguments), f"a folder or a journal: {USAGES['repair']}")
    path = Path(arguments[0])
    path = path / experiment.JOURNAL if path.is_dir() else path
    new = Path(arguments[1]) if len(arguments) == 2 else path.with_suffix(f".repaired{path.suffix}")
    print(f"{salvage(path, new)} good rows in {new}")
    print(f"{path} is as it was. To go on: remove {path}* and move {new} there.")
    return 0


def _folder(arguments: list[str], usage: str) -> Path:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise SettingError("folder", " ".join(arguments), f"one folder, as in mfbo show runs/mine; {usage}")
    if not Path(arguments[0]).is_dir():
        raise SettingError("folder", arguments[0], "an existing folder")
    return Path(arguments[0])


def _report(run: experiment.Experiment) -> str:
    """A run in a few lines."""
    summary, space = experiment.summarise(run), run.problem.space
    rows = [("Problem", summary["problem"])]
    rows.append(("Strategy", f"{summary['strategy']}, seed {summary['seed']}"))
    paid = space.measured or run.history.spent + space.costs[-1] <= summary["capital"]
    none = "none at the target yet" if paid else f"none: the target costs {space.costs[-1]:g} a query, no longer paid"
    best = summary["best_value"]
    rows.append(("Best value", none if best is None else f"{best:.8g}"))
    rows.append(("at", _point(summary["best_parameters"])))
    advised = experiment.advice(run)
    if isinstance(advised, Recommendation):
        expected = f"{run.problem.signed(advised.mean):.5g} ± {advised.deviation:.2g} is expected"
        rows.append(("Recommended", f"{_point(experiment.parameters_of(advised, run.problem))}, where {expected}"))
        known = [
            f"{noise:.2g} at {space.fidelity_name(m)}" for m, noise in enumerate(advised.noise) if noise is not None
        ]
        if known:
            rows.append(("Noise", f"{', '.join(known)} (standard deviations)"))
    elif advised is not None:
        rows.append(("Recommended", _point(space.named(advised.query.x))))
    rows.append(("Spent", f"{summary['spent']:g} of {summary['capital']:g}{' seconds' if space.measured else ''}"))
    spending, explained = run.history.spent_per_fidelity(space.num_fidelities), summary["explained"]
    for m, (count, spent) in enumerate(zip(summary["queries_per_fidelity"], spending, strict=True)):
        told = (
            "" if explained is None or m == space.target else f", explains {explained[m]:.0%} of the target's variance"
        )
        queries = f"{count} {'query' if count == 1 else 'queries'}"
        rows.append((f"  {space.fidelity_name(m)}", f"{spent:g} for {queries}{told}"))
    rows.append(("Failed", str(summary["failures"])))
    if pending := len(run.history.pending):
        rows.append(("Pending", str(pending)))
    failed = run.history.select(Status.FAILED)
    if failed:
        rows.append(("  the last", failed[-1].reason.partition("\n")[0]))
    seconds = (summary["decision_seconds"], summary["evaluation_seconds"])
    rows.append(("Time", f"{seconds[0]:.1f} s deciding, {seconds[1]:.1f} s evaluating"))
    return "\n".join(f"{name:<13} {value}" for name, value in rows)


def _comparison(comparison: compare.Comparison) -> str:
    """A comparison as a table: for each problem the strategies, the best first."""
    settings, problems, curves, total, _ = comparison
    metric = settings["metric"]
    done = sum(len(runs) for runs in curves.values())
    lines = [f"{done} of {total} runs begun or finished"]
    for name, problem in problems.items():
        regret = "simple regret" if metric == "simple" else "cumulative regret / capital"
        lines += ["", f"{name}: median {'best value' if compare.optimum_of(problem) is None else regret} at the end"]
        ends: list[tuple[float, str, int, int]] = []
        for (of, label), runs in curves.items():
            if of == name:
                values = [compare.final(run, problem, metric) for run in runs.values()]
                known = [value for value in values if not math.isnan(value)]
                ends.append((statistics.median(known or [math.nan]), label, len(known), len(values)))
        sign = 1 if compare.optimum_of(problem) is not None or not problem.maximize else -1
        for median, label, found, count in sorted(ends, key=lambda end: (end[2] == 0, sign * end[0], end[1])):
            part = "" if found == count else f"{found} of "
            lines.append(f"  {label:<24} {median:<12.5g} {part}{count} {'seed' if count == 1 else 'seeds'}")
    return "\n".join(lines)


def _point(parameters: dict[str, Any] | None) -> str:
    return "-" if parameters is None else ", ".join(f"{name} = {value:.6g}" for name, value in parameters.items())


if __name__ == "__main__":
    sys.exit(main())
