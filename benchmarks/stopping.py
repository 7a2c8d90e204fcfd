"""What each rule that ends a run saves, and what it gives up, on functions of the MF-GP-UCB paper.

    python -m benchmarks.stopping [--problems NAME ...] [--seeds N] [--capital N]

A run of the default strategy to the end of its capital is looked at from its beginning: where would each rule have
ended it, and what had been found by then? Rows that are missing are added to ``stopping.csv`` (:mod:`benchmarks.runs`),
``stopping.md`` is their table. Capitals are in units of the target's cost.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import parser
from benchmarks.runs import measure, read
from mfbo_torch import problems
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.loop.stopping import Idle, gain, reached
from mfbo_torch.problems.base import Problem
from mfbo_torch.strategies import MFGPUCB, Strategy

FILE = "stopping.csv"
COLUMNS = ("problem", "seed", "rule", "capital", "regret", "capital_at_end", "regret_at_end")
PROBLEMS = ("Currin", "BadCurrin", "Borehole", "Hartmann3")
PATIENCE, GAINS, NEAR = (3, 5, 10), (1e-1, 1e-2, 1e-3, 1e-4), 0.01


class Job(NamedTuple):
    """One run, and how much it may spend."""

    problem: str
    seed: int
    rule: tuple[str, ...]
    capital: int


def rules(problem: Problem, strategy: Strategy) -> dict[str, Callable[[History], bool]]:
    """Each rule as what it says of a history."""
    target, top = problem.space.target, problem.space.costs[-1]
    best = problem.optimum or 0.0
    enough = best - problem.signed(NEAR * abs(best))
    shares: dict[int, float] = {}

    def left(history: History) -> float:
        """The bound changes most with a value of the target: between two of them it is not computed again."""
        values = len([r for r in history.done if r.query.fidelity == target])
        return shares[values] if values in shares else shares.setdefault(values, gain(strategy, history))

    found: dict[str, Callable[[History], bool]] = {
        f"--stop-at, {NEAR:.0%} off": lambda history: reached(history, problem, enough) is not None
    }
    for capital in PATIENCE:
        found[f"--patience {capital}"] = lambda history, most=capital * top: Idle(target)(history) >= most
    for share in GAINS:
        found[f"--stop-gain {share:g}"] = lambda history, least=share: left(history) <= least
    return found


NAMES = tuple(rules(problems.Currin(), MFGPUCB()))


def looked_at(history: History, problem: Problem, strategy: Strategy) -> list[tuple[str, float, float]]:
    """For each rule the capital at which it ends a run, and the regret by then; those of the whole run without it."""
    top, ends = problem.space.costs[-1], {}
    open_rules = rules(problem, strategy)
    for n in range(1, len(history) + 1):
        now = History(history.records[:n])
        for name in [name for name, says in open_rules.items() if says(now)]:
            ends[name] = now
            del open_rules[name]
    made = []
    for name in NAMES:
        now = ends.get(name, history)
        best = now.best(problem.space.target)
        regret = float("inf") if best is None else problem.signed(problem.optimum or 0.0) - (best.value or 0.0)
        made.append((name, now.spent / top, max(regret, 0.0)))
    return made


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job; one row a rule."""
    problem = getattr(problems, job.problem)()
    capital = job.capital * problem.space.costs[-1]
    strategy = MFGPUCB(seed=job.seed).bind(problem.space, capital)
    history = run(problem, strategy, capital, progress=False)
    best = history.best(problem.space.target)
    regret = problem.signed(problem.optimum or 0.0) - ((best.value or 0.0) if best else float("-inf"))
    end = (round(history.spent / problem.space.costs[-1], 4), max(regret, 0.0))
    return [
        (job.problem, job.seed, name, round(spent, 4), found, *end)
        for name, spent, found in looked_at(history, problem, strategy)
    ]


def report(results: Path) -> None:
    """The table."""
    rows = read(results / FILE)
    lines = [
        "# What ends a run, what that saves and what it gives up",
        "",
        "Medians over seeds: the share of the capital that is not spent, and the regret where the rule ends the run,",
        "beside that at the end of the capital. The strategy is the default; `python -m benchmarks.stopping`.",
        "A rule that does not end a run saves nothing.",
    ]
    for name in dict.fromkeys(row["problem"] for row in rows):
        own = [row for row in rows if row["problem"] == name]
        seeds = len({row["seed"] for row in own})
        end = statistics.median(float(row["regret_at_end"]) for row in own)
        capital = statistics.median(float(row["capital_at_end"]) for row in own)
        head = f"{name} ({seeds} {'seed' if seeds == 1 else 'seeds'}; {capital:.3g} spent in all, regret {end:.2g})"
        lines += ["", f"| {head} | saved | regret | worst seed's regret |", "| --- | ---: | ---: | ---: |"]
        for rule in NAMES:
            some = [row for row in own if row["rule"] == rule]
            if some:
                saved = statistics.median(1 - float(row["capital"]) / float(row["capital_at_end"]) for row in some)
                regrets = [float(row["regret"]) for row in some]
                lines.append(f"| `{rule}` | {saved:.0%} | {statistics.median(regrets):.2g} | {max(regrets):.2g} |")
    (results / "stopping.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    given = parser(__doc__, problems=PROBLEMS, seeds=3, capital=30).parse_args(arguments)
    jobs = [Job(name, seed, NAMES, given.capital) for seed in range(given.seeds) for name in given.problems]
    status = measure(jobs, execute, given.results / FILE, COLUMNS)
    report(given.results)
    return status


if __name__ == "__main__":
    sys.exit(main())
