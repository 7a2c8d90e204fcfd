"""Hypervolume regret at equal capital: several objectives, each with a cheap version, against other packages.

A study (:mod:`benchmarks.study`): ``objectives.csv``. Capital counts everything, the first designs included. The regret
is ``1 - hypervolume / largest``, of the values observed at the target, above BoTorch's reference point; only BoTorch's
own methods are told that point. ``decision_seconds`` are those of the default by the clock, ``processor_seconds`` those
of a whole run.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks.quality.objectives.peers import PEERS, Ledger
from benchmarks.quality.objectives.problems import HELD_OUT, PROBLEMS, Fronts
from benchmarks.study import Job, Look, Row, Study, grouped
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics.front import front, hypervolume, objective_values
from mfbo_torch.strategies import MFEHVI

OWN = "MFEHVI"
CAPITALS = (10, 20, 40)


def play(job: Job, problem: Fronts, capital: float) -> History:
    """One run."""
    if job.method in PEERS:
        return Ledger(problem, capital).filled(PEERS[job.method], job.seed)
    return run(problem, MFEHVI(seed=job.seed), capital, progress=False)


def measured(look: Look) -> Row:
    """What is missing of the largest hypervolume, and how many queries there were."""
    problem, part = look.problem, look.history
    assert isinstance(problem, Fronts)
    Y = objective_values(front(part, problem.space), problem.space.objectives)
    regret = 1 - hypervolume(Y, -problem.reference) / problem.best
    target = part.queries_per_fidelity(2)[-1]
    return f"{regret:.5g}", len(part), target, look.decision_seconds, look.seconds


def report(path: Path) -> None:
    """The median and the worst seed of each method, as ``objectives.md`` beside the file."""
    rows = grouped(path)
    methods = [m for m in (OWN, *PEERS) if any(key[1] == m for key in rows)]
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
    dict.fromkeys((OWN, *PEERS)),
    CAPITALS,
    ("regret", "queries", "target_queries", "decision_seconds", "processor_seconds"),
    measured,
    minutes=10,
    play=play,  # type: ignore[arg-type]
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
