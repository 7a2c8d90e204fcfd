"""The progress bar of a run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tqdm.auto import tqdm

from mfbo_torch.history import History
from mfbo_torch.loop.eta import Forecast
from mfbo_torch.utils.output_streams import TolerantStream, printable

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem


class Progress:
    """A bar in units of capital: what is left, the best value, the queries so far, its fidelity, a forecast."""

    def __init__(
        self, problem: Problem, capital: float, shown: bool, forecast: Callable[[History], Forecast | None]
    ) -> None:
        self.problem, self.capital, self.shown, self.forecast = problem, capital, shown, forecast
        self.bar: tqdm | None = None  # made when the first query has been decided

    def show(self, history: History) -> None:
        if not self.shown:
            return
        if self.bar is None:
            layout = "{l_bar}{bar}| {n:.4g}/{total:.4g} [{elapsed}{postfix}]"
            total, stream = self.capital, TolerantStream(sys.stderr)  # nobody may read it, and the run goes on
            self.bar = tqdm(
                total=total,
                desc=printable(self.problem.name),
                file=stream,
                dynamic_ncols=True,
                bar_format=layout,
                miniters=0,
            )
        space = self.problem.space
        best = self.problem.value_of(history.best(space.target))
        counts = history.queries_per_fidelity(space.num_fidelities)
        queries = "/".join(str(sum(counts[part.start : part.stop])) for part in space.stretches)
        shown, coming = "-" if best is None else f"{best:.6g}", self.forecast(history)
        rest = "" if coming is None else f", {coming}"
        left = f"{max(self.capital - history.settled, 0.0):.4g} left"
        now = f"at {space.fidelity_name(history.records[-1].query.fidelity)}" if len(history) else "begins"
        now = printable(f"{left}, best {shown}, queries {queries}, {now}{rest}")
        self.bar.set_postfix_str(now, refresh=False)
        self.bar.update(min(history.settled, self.capital) - self.bar.n)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
