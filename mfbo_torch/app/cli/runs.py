"""``mfbo run`` and ``mfbo compare``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mfbo_torch.app import run_folder, schema
from mfbo_torch.app.cli import BROKEN, CONTINUES, INTERRUPTED, complain
from mfbo_torch.app.schema import COMPARE, RUN, settings_of_command


def run(arguments: list[str]) -> int:
    """Spend a capital, or continue."""
    if schema.asks_for_help(arguments):
        return _show(schema.help_of(RUN))
    if explained := schema.class_to_explain(arguments):
        from mfbo_torch.app import builder

        _current_folder_first()
        return _show(builder.explain_class(*explained))
    settings = settings_of_command(RUN, arguments)
    from mfbo_torch.app import experiment
    from mfbo_torch.app.cli.texts import described

    _current_folder_first()
    plan = experiment.prepare(settings)

    def spend() -> int:
        summary = experiment.execute(plan)
        print(described(summary))
        print(f"Picture       {Path(plan.settings['out']) / run_folder.PICTURE}")
        return 0 if summary.finished or summary.stopped else complain(CONTINUES, INTERRUPTED)

    return _hoping(spend)


def compare(arguments: list[str]) -> int:
    """Run strategies side by side, or continue."""
    if schema.asks_for_help(arguments):
        return _show(schema.help_of(COMPARE))
    settings = settings_of_command(COMPARE, arguments)
    from mfbo_torch.app import compare
    from mfbo_torch.app.cli.texts import compared

    _current_folder_first()

    def spend() -> int:
        comparison = compare.compare(settings)
        print(compared(comparison))
        print(f"\nPicture: {Path(settings['out']) / compare.PICTURE}")
        for error in comparison.errors:
            complain(error, BROKEN)
        return BROKEN if comparison.errors else 0

    return _hoping(spend)


def _show(text: str) -> int:
    print(text, end="")
    return 0


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
