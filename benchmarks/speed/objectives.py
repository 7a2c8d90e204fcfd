"""How long deciding takes with two objectives: MFEHVI beside BoTorch's acquisitions, on the same data.

    python -m benchmarks.speed.objectives [--observations 100] [--repeats 3]

All get the same history of Branin-Currin, three quarters of it cheap, and decide the query that follows, in turn, in
one process on one thread, models fitted anew. ``next`` is a decision of MFEHVI one observation later. MF-HVKG has less
than its tutorial's settings: 4 fantasies, 2 restarts of 16 points, 30 iterations. Seconds of processor time, medians.
Writes ``objectives_decision.json``.
"""

from collections.abc import Sequence
from functools import partial
from statistics import median

import torch

from benchmarks.common import parser, quiet, write_json
from benchmarks.quality.objectives import peers
from benchmarks.quality.objectives.problems import PROBLEMS, Fronts
from benchmarks.timing import processor_seconds as seconds
from mfbo_torch.history import History, Query
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.metrics.front import objective_values
from mfbo_torch.strategies import MFEHVI


def history(problem: Fronts, observations: int) -> History:
    """Sobol designs, each fourth at the target."""
    found, engine = History(), torch.quasirandom.SobolEngine(problem.space.dim, scramble=True, seed=0)
    for i, x in enumerate(engine.draw(observations, dtype=torch.double).tolist()):
        level = int(i % 4 == 3)
        found = found.asked(Query(tuple(x), level, {"stage": "model"}), problem.space.costs[level])
        seen = evaluate(problem, x, level).observation
        assert seen is not None
        found = found.updated(found.records[-1].observed(seen))
    return found


looking_ahead = partial(peers.at_any_fidelity, "MF-HVKG")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    given = parser(__doc__, observations=100, repeats=3).parse_args(arguments)
    quiet()
    problem = PROBLEMS["BraninCurrin"]()
    longer = history(problem, given.observations + 1)
    known = History(longer.records[:-1])
    ledger = peers.Ledger(problem, 0.0)
    X = torch.tensor([[*r.query.x, float(r.query.fidelity)] for r in known], dtype=torch.double)
    Y = objective_values(known, problem.space.objectives)
    target = X[:, -1] == 1
    rows: dict[str, list[float]] = {"MFEHVI": [], "next": [], "qLogNEHVI": [], "MF-HVKG": []}
    MFEHVI(space=problem.space).ask(known)  # imports and first calls
    for _ in range(given.repeats):
        strategy = MFEHVI(space=problem.space)
        rows["MFEHVI"].append(seconds(lambda strategy=strategy: strategy.ask(known)))
        rows["next"].append(seconds(lambda strategy=strategy: strategy.ask(longer)))
        rows["qLogNEHVI"].append(seconds(lambda: peers.improving(ledger, X[target, :-1], Y[target])))
        rows["MF-HVKG"].append(seconds(lambda: looking_ahead(ledger, X, Y)))
    report = {name: round(median(found), 3) for name, found in rows.items()}
    report["ratio"] = round(median(k / m for m, k in zip(rows["MFEHVI"], rows["MF-HVKG"], strict=True)), 1)
    print(report)
    shown = {"observations": given.observations, "repeats": given.repeats, "seconds": report}
    write_json(given.results / "objectives_decision.json", shown)


if __name__ == "__main__":
    main()
