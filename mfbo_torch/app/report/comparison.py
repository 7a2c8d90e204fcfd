"""Runs side by side: the best value so far of each against the capital it has spent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mfbo_torch.app import experiment, run_folder
from mfbo_torch.app.report.figures import best_so_far
from mfbo_torch.app.report.view import ReportView, axis, figure, plain, short
from mfbo_torch.loop.plots import CURVES
from mfbo_torch.utils.errors import SettingError

MOST_RUNS, MOST_BYTES = 8, 2**24
"""Runs that are drawn, the newest ones; and bytes of the largest journal that is read for it."""


def siblings(folder: Path) -> Iterator[Path]:
    """The folders of other runs beside one, the newest first."""
    try:
        places = [p for p in folder.absolute().parent.iterdir() if p.is_dir() and p.name != folder.absolute().name]
    except OSError:
        return
    runs = [p for p in places if (p / run_folder.CONFIG).is_file() and (p / run_folder.JOURNAL).is_file()]
    yield from sorted(runs, key=run_folder.changed, reverse=True)


def comparison(view: ReportView, folder: Path | None) -> tuple[list[dict[str, Any]], str]:
    """A line for each run of the same problem in the folder that this one is in."""
    found = [("this run", view)]
    for other in siblings(folder) if folder is not None else ():
        if len(found) == MOST_RUNS:
            break
        try:
            if (other / run_folder.JOURNAL).stat().st_size > MOST_BYTES or run_folder.compares(other):
                continue
            run = experiment.load(other)
        except (SettingError, OSError):
            continue
        if (run.problem.name, run.problem.maximize) == (view.problem.name, view.problem.maximize) and (
            [p.name for p in run.problem.space.parameters] == [p.name for p in view.space.parameters]
        ):
            found.append((f"{other.name}: {type(run.strategy).__name__}, seed {run.settings['seed']}", ReportView(run)))
    if len(found) == 1:
        return [], "There is no other run of this problem beside this one."
    data = []
    for k, (name, each) in enumerate(found):
        line = best_so_far(each)
        look = {
            "shape": "hv",
            "color": "--ink" if k == 0 else CURVES[(k - 1) % len(CURVES)],
            "width": 2.5 if k == 0 else 1.5,
        }
        data.append({**line, "name": plain(short(name, 60)), "line": look, "hoverinfo": "x+y+name"})
    layout: dict[str, Any] = {"showlegend": True, "legend": {"orientation": "v", "x": 1, "y": 1, "xanchor": "right"}}
    layout |= {
        "xaxis": axis(f"capital spent{view.unit}", rangemode="tozero"),
        "yaxis": axis("best value at the target"),
    }
    return [figure(data, **layout)], "The runs of this problem in the same folder, the newest ones."
