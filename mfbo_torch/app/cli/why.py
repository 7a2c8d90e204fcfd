"""``mfbo why``."""

from __future__ import annotations

from mfbo_torch.app import run_folder
from mfbo_torch.app.cli.terminal import say
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import whole


def why(folder: str | None, query: str) -> int:
    """Print why a query of a run was made, and what came of it."""
    try:
        number = int(query)
    except ValueError:
        raise SettingError("query", query, "its number, as in mfbo why 17 or mfbo why runs/mine 17") from None
    out = run_folder.chosen(folder, "mfbo why runs/mine 17", single=True, journal=True)
    from mfbo_torch.app import experiment
    from mfbo_torch.strategies.explanation import Explanation

    run = experiment.load(out)
    last = len(run.history) - 1
    known = "there is none yet" if last < 0 else f"0 to {last}"
    whole("query", number, 0, last, wanted=f"the number of a query of {out} ({known})")
    say(Explanation(run.history.records[number], run.history, run.problem.space, run.problem.signed))
    return 0
