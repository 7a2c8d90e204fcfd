"""The progress bar of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tqdm.auto import tqdm

from mfbo_torch.history import History

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem


class Progress:
    """A bar in units of capital, with the best value at the target and the queries so far."""

    def __init__(self, problem: Problem, capital: float, shown: bool) -> None:
        self.problem, self.capital, self.shown = problem, capital, shown
        self.bar: tqdm | None = None  # made when the first query has been decided

    def show(self, history: History) -> None:
        if not self.shown:
            return
        if self.bar is None:
            layout = "{l_bar}{bar}| {n:.4g}/{total:.4g} [{elapsed}<{remaining}{postfix}]"
            self.bar = tqdm(total=self.capital, desc=self.problem.name, bar_format=layout, miniters=0)
        best = self.problem.value_of(history.best(self.problem.space.target))
        queries = "/".join(map(str, history.queries_per_fidelity(self.problem.space.num_fidelities)))
        shown = "-" if best is None else f"{best:.6g}"
        self.bar.set_postfix_str(f"best {shown}, queries {queries}", refresh=False)
        self.bar.update(min(history.settled, self.capital) - self.bar.n)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
