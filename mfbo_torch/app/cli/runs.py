"""``mfbo run`` and ``mfbo compare``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mfbo_torch.app import run_folder, schema
from mfbo_torch.app.cli import BROKEN, CONTINUES, INTERRUPTED, complain


def run(arguments: list[str]) -> int:
    """Spend a capital, or continue."""
    schema.check_run(arguments)
    from mfbo_torch.app import experiment
    from mfbo_torch.app.builder import resolve, run_parser
    from mfbo_torch.app.cli.texts import told

    _current_folder_first()
    resolved = resolve(run_parser(), arguments)
    problem, strategy = experiment.prepare(resolved)

    def spend() -> int:
        history, finished, stopped = experiment.execute(resolved, problem, strategy)
        bound = strategy.bind(problem.space, resolved["capital"])
        print(told(experiment.Experiment(resolved, problem, bound, history, stopped)))
        print(f"Picture       {Path(resolved['out']) / run_folder.PICTURE}")
        return 0 if finished or stopped else complain(CONTINUES, INTERRUPTED)

    return _hoping(spend)


def compare(arguments: list[str]) -> int:
    """Run strategies side by side, or continue."""
    resolved = schema.resolve(schema.compare_parser(), arguments)
    from mfbo_torch.app import compare
    from mfbo_torch.app.cli.texts import compared

    _current_folder_first()

    def spend() -> int:
        comparison = compare.compare(resolved)
        print(compared(comparison))
        print(f"\nPicture: {Path(resolved['out']) / compare.PICTURE}")
        for error in comparison.errors:
            complain(error, BROKEN)
        return BROKEN if comparison.errors else 0

    return _hoping(spend)


def _hoping(spend: Callable[[], int]) -> int:
    from mfbo_torch.loop.early_failures import Hopeless

    try:
        return spend()
    except Hopeless as error:
        advice = "raise --capital or take a new --out" if error.spent else "the same command continues"
        return complain(f"{error}; {advice} once that is repaired", BROKEN)


def _current_folder_first() -> None:
    """For class paths in the current folder."""
    from mfbo_torch.problems.user.function import first_on_path

    first_on_path(os.getcwd())
