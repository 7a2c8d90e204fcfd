"""The progress bar of a run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tqdm.auto import tqdm

from mfbo_torch.history import History
from mfbo_torch.loop.eta import Forecast
from mfbo_torch.utils.output_streams import TolerantStream, printable

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem


COLUMNS, WIDEST = 80, 160
"""Width of a bar where there is no terminal, and the largest one."""
LONGEST_NAME, BAR = 16, 33
"""Characters of a problem's name, and those of the bar and its numbers."""


def _fitting(told: Sequence[str], room: int) -> str:
    """The first of some texts, as many as there is room for."""
    kept = told[:1]
    for text in told[1:]:
        if len(", ".join([*kept, text])) <= room:
            kept = [*kept, text]
    return ", ".join(kept)


class Progress:
    """A bar in units of capital: the best value, the queries so far, a forecast, the fidelity, what is left; as many of
    these as fit a line."""

    def __init__(
        self, problem: Problem, capital: float, shown: bool, forecast: Callable[[History], Forecast | None]
    ) -> None:
        self.problem, self.capital, self.shown, self.forecast = problem, capital, shown, forecast
        self.bar: tqdm | None = None  # made when the first query has been decided

    def show(self, history: History, over: bool = False) -> None:
        """Draw it; without a forecast where the run is ``over``."""
        if not self.shown:
            return
        if self.bar is None:
            layout = "{l_bar}{bar}| {n:.4g}/{total:.4g} [{elapsed}{postfix}]"
            total, stream = self.capital, TolerantStream(sys.stderr)  # nobody may read it, and the run goes on
            self.bar = tqdm(
                total=total,
                desc=printable(self.problem.name)[:LONGEST_NAME],
                file=stream,
                dynamic_ncols=True,
                bar_format=layout,
                miniters=0,
            )
        space = self.problem.space
        best = self.problem.value_of(history.best(space.target))
        counts = history.queries_per_fidelity(space.num_fidelities)
        queries = "/".join(str(sum(counts[part.start : part.stop])) for part in space.stretches)
        coming = None if over else self.forecast(history)
        now = f"at {space.fidelity_name(history.records[-1].query.fidelity)}" if len(history) else "begins"
        told = [
            f"best {'-' if best is None else f'{best:.6g}'}",
            f"queries {queries}",
            "" if coming is None else str(coming),
            "" if over else now,
            f"{max(self.capital - history.settled, 0.0):.4g} left",
        ]
        self.bar.set_postfix_str(_fitting(list(filter(None, map(printable, told))), self._room()), refresh=False)
        self.bar.update(min(history.settled, self.capital) - self.bar.n)

    def _room(self) -> int:
        """Number of characters for what is told beside the bar."""
        columns = min(shutil.get_terminal_size((COLUMNS, 24)).columns, WIDEST)
        name = min(len(printable(self.problem.name)), LONGEST_NAME)
        return columns - name - BAR - 2 * len(f"{self.capital:.4g}")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
