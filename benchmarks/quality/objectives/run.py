"""Hypervolume regret at equal capital: several objectives, each with a cheap version, against other packages.

A study (:mod:`benchmarks.study`): ``objectives.csv``. Capital counts everything, the first designs included. The regret
is ``1 - hypervolume / largest``, of the values observed at the target, above BoTorch's reference point. BoTorch's own
methods are told that point, and so is ``MFEHVI, told``; the others are not. The default is told the capital, and makes
a run for each; the others have one, looked at on its way. ``decision_seconds`` are those of the default by the clock,
``processor_seconds`` those of a whole run.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.quality.objectives.peers import PEERS, Ledger
from benchmarks.quality.objectives.problems import HELD_OUT, PROBLEMS
from benchmarks.study import Job, Look, Row, Study, grouped
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics.front import front, hypervolume, objective_values
from mfbo_torch.problems import Problem
from mfbo_torch.strategies import MFEHVI

CAPITALS = (10, 20, 40)


def ours(problem: Problem, seed: int, capital: float) -> History:
    """A run of the default."""
    return run(problem, MFEHVI(seed=seed), capital, progress=False)


def told(problem: Problem, seed: int, capital: float) -> History:
    """That with BoTorch's reference point."""
    space, worst = problem.space, problem.reference.tolist()  # type: ignore[attr-defined]
    known, same = [one._replace(reference=at) for one, at in zip(space.objectives, worst, strict=True)], copy(problem)
    same.space = replace(space, objectives=tuple(known))
    return ours(same, seed, capital)


def peers(problem: Problem, seed: int, capital: float, name: str) -> History:
    """A run of another package."""
    return Ledger(problem, capital).filled(PEERS[name], seed)


OWN = "MFEHVI", "MFEHVI, told"
METHODS: dict[str, Callable[..., History]] = {
    "MFEHVI": ours,
    "MFEHVI, told": told,
    "qLogNEHVI": partial(peers, name="qLogNEHVI"),
    "MOMF": partial(peers, name="MOMF"),
    "MF-HVKG": partial(peers, name="MF-HVKG"),
    "OptunaGP": partial(peers, name="OptunaGP"),
    "TPE": partial(peers, name="TPE"),
    "NSGA-II": partial(peers, name="NSGA-II"),
    "Sobol": partial(peers, name="Sobol"),
}


def play(job: Job, problem: Problem, capital: float) -> History:
    """One run."""
    return METHODS[job.method](problem, job.seed, capital)


def planned(problem: str, method: str, seed: int) -> list[tuple[int, ...]]:
    """Every method on every problem, but for those of BoTorch's that have no way to tell of limits."""
    if problem == "WeldedBeam" and method in ("MOMF", "MF-HVKG"):
        return []
    return [(capital,) for capital in CAPITALS] if method in OWN else [CAPITALS]


def measured(look: Look) -> Row:
    """What is missing of the largest hypervolume, and how many queries there were."""
    problem, part = look.problem, look.history
    Y = objective_values(front(part, problem.space), problem.space.objectives)
    regret = 1 - hypervolume(Y, -problem.reference) / problem.best  # type: ignore[attr-defined]
    target = part.queries_per_fidelity(problem.space.num_fidelities)[-1]
    return f"{regret:.5g}", len(part), target, look.decision_seconds, look.seconds


def report(path: Path) -> None:
    """The median and the worst seed of each method, as ``objectives.md`` beside the file."""
    rows = grouped(path)
    methods = [m for m in METHODS if any(key[1] == m for key in rows)]
    text = ["Median hypervolume regret (worst seed); H: held out.\n"]
    for capital in CAPITALS:
        lines = []
        for name in PROBLEMS:
            cells = []
            for method in methods:
                found = [float(row["regret"]) for row in rows.get((name, method, float(capital)), ())]
                cells.append(f"{median(found):.3f} ({max(found):.3f})" if found else "")
            if any(cells):
                lines.append(f"| {name}{' H' if name in HELD_OUT else ''} | {' | '.join(cells)} |")
        if lines:
            text += [f"\nCapital {capital}\n", f"| | {' | '.join(methods)} |", "| --- |" + " ---: |" * len(methods)]
            text += lines
    path.with_suffix(".md").write_text("\n".join(text) + "\n")


STUDY = Study(
    "benchmarks.quality.objectives.run",
    "objectives",
    PROBLEMS,
    METHODS,
    CAPITALS,
    ("regret", "queries", "target_queries", "decision_seconds", "processor_seconds"),
    measured,
    minutes=10,
    plan=planned,
    play=play,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
