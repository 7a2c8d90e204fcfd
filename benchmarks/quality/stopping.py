"""What each rule that ends a run saves, and what it gives up, on functions of the MF-GP-UCB paper.

A study (:mod:`benchmarks.study`): ``stopping.csv`` and ``stopping.md``. A run of the default strategy to the end of its
capital is looked at from its beginning: where would each rule have ended it, and what had been found by then?
"""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.common import markdown
from benchmarks.study import Job, Row, Study, read
from mfbo_torch import problems
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.loop.stopping import Idle, gain, reached
from mfbo_torch.problems.base import Problem
from mfbo_torch.strategies import MFGPUCB, Strategy

PROBLEMS = ("Currin", "BadCurrin", "Borehole", "Hartmann3")
PATIENCE, GAINS, NEAR = (3, 5, 10), (1e-1, 1e-2, 1e-3, 1e-4), 0.01


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


def regret_of(problem: Problem, history: History) -> float:
    """Of the best value at the target; infinite before there is one."""
    best = history.best(problem.space.target)
    value = float("-inf") if best is None else best.value or 0.0
    return max(problem.signed(problem.optimum or 0.0) - value, 0.0)


def looked_at(history: History, problem: Problem, strategy: Strategy, names: Sequence[str]) -> dict[str, History]:
    """For each rule the history with which it ends a run; the whole one without it."""
    ends, open_rules = dict.fromkeys(names, history), rules(problem, strategy)
    for n in range(1, len(history) + 1):
        now = History(history.records[:n])
        for name in [name for name in names if name in open_rules and open_rules[name](now)]:
            ends[name] = now
            del open_rules[name]
    return ends


def execute(job: Job) -> list[Row]:
    """Run a job; one row a rule, with the capital spent where it ends the run and at the end."""
    problem, (most,) = STUDY.problems[job.problem](), job.capitals
    top = problem.space.costs[-1]
    strategy = MFGPUCB(seed=job.seed).bind(problem.space, most * top)
    history = run(problem, strategy, most * top, progress=False)
    end = (round(history.spent / top, 4), regret_of(problem, history))
    return [
        (job.problem, name, job.seed, most, round(now.spent / top, 4), regret_of(problem, now), *end)
        for name, now in looked_at(history, problem, strategy, job.method).items()
    ]


def report(path: Path) -> None:
    """The table."""
    rows = read(path)
    lines = [
        "# Rules that end a run early: capital saved and regret",
        "",
        "Medians over the seeds: the share of the capital that is not spent, and the regret when the rule ends the",
        "run. The head of each table has the regret after the whole capital. The strategy is the default. A rule that",
        f"does not end a run saves nothing. Measured by `python -m {STUDY.module}`.",
    ]
    for name in dict.fromkeys(row["problem"] for row in rows):
        own = [row for row in rows if row["problem"] == name]
        seeds = len({row["seed"] for row in own})
        end = statistics.median(float(row["regret_at_end"]) for row in own)
        capital = statistics.median(float(row["capital_at_end"]) for row in own)
        number = f"{seeds} {'seed' if seeds == 1 else 'seeds'}"
        head = f"{name} ({number}; {capital:.3g} spent without a rule, regret {end:.2g})"
        body = []
        for rule in STUDY.methods:
            if some := [row for row in own if row["method"] == rule]:
                saved = statistics.median(1 - float(row["stopped"]) / float(row["capital_at_end"]) for row in some)
                regrets = [float(row["regret"]) for row in some]
                cells = [f"`{rule}`", f"{saved:.0%}", f"{statistics.median(regrets):.2g}", f"{max(regrets):.2g}"]
                body.append(cells)
        lines += ["", *markdown([head, "saved", "regret", "worst seed's regret"], body)]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


STUDY = Study(
    "benchmarks.quality.stopping",
    "stopping",
    {name: getattr(problems, name) for name in PROBLEMS},
    dict.fromkeys(NAMES),
    (30,),
    ("stopped", "regret", "capital_at_end", "regret_at_end"),
    seeds=3,
    execute=execute,
    report=report,
    together=True,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
