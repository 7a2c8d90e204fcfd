"""How long deciding takes: MFGPUCB beside MF-GIBBON with ``optimize_acqf_mixed``, on the same data.

    python -m benchmarks.decision_time [--observations 100] [--repeats 10]

Both get the same history of Hartmann-3D (three fidelities) and decide the query that follows, in turn, in
one process on one thread. ``cold`` fits the hyper-parameters first, as after a restart; ``warm`` has them,
as between two refits; ``amortised`` is the mean over the next ten observations, refits as they fall due.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import torch

from benchmarks.common import parser, quiet, write_json
from benchmarks.timing import seconds
from mfbo_torch.history import History, Query
from mfbo_torch.problems import Hartmann3
from mfbo_torch.strategies import MFGIBBON, MFGPUCB, Strategy
from mfbo_torch.strategies.design import sobol

AHEAD = 10


def history(observations: int, ahead: int) -> list[History]:
    """Histories of ``observations`` and ``ahead`` more: nested Sobol designs, 70 / 20 / 10 % of the queries."""
    problem, grown, found = Hartmann3(), History(), []
    total = observations + ahead
    levels = [0 if 10 * i // total < 7 else 1 if 10 * i // total < 9 else 2 for i in range(total)]
    order = torch.randperm(total, generator=torch.Generator().manual_seed(0)).tolist()
    U, rank = sobol(3, total, 0), [0, 0, 0]
    for i in order:
        m = levels[i]
        query = Query(tuple(U[rank[m]].tolist()), m, {"stage": "model"})
        rank[m] += 1
        grown = observed(grown, query, problem)
        if len(grown) >= observations:
            found.append(grown)
    return found


def observed(past: History, query: Query, problem: Hartmann3) -> History:
    """The history with one more value."""
    past = past.asked(query, problem.space.costs[query.fidelity])
    return past.updated(past.records[-1].done(problem.reward(query.x, query.fidelity)))


def measure(make: Callable[[], Strategy], histories: list[History]) -> dict[str, float]:
    """Seconds of a cold, a warm and an amortised decision."""
    strategy = make()
    cold = seconds(lambda: strategy.ask(histories[0]))
    warm = seconds(lambda: strategy.ask(histories[0]))
    later = sum(seconds(lambda grown=grown: strategy.ask(grown)) for grown in histories[1:])
    return {"cold": cold, "warm": warm, "amortised": later / len(histories[1:])}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    given = parser(__doc__, observations=100, repeats=10).parse_args(arguments)
    quiet()
    histories = history(given.observations, AHEAD)
    space = Hartmann3().space
    makers = {"MFGPUCB": lambda: MFGPUCB(space=space), "MF-GIBBON": lambda: MFGIBBON(space=space)}
    for make in makers.values():
        make().ask(histories[0])  # imports and first calls
    runs: dict[str, list[dict[str, float]]] = {label: [] for label in makers}
    for _ in range(given.repeats):
        for label, make in makers.items():
            runs[label].append(measure(make, histories))
    summary = {
        kind: {label: median(run[kind] for run in rows) for label, rows in runs.items()}
        | {"ratio": median(g[kind] / o[kind] for o, g in zip(*runs.values(), strict=True))}
        for kind in ("cold", "warm", "amortised")
    }
    for kind, row in summary.items():
        print(f"{kind:10s}", "  ".join(f"{label} {value:.3f}" for label, value in row.items()))
    report = {"observations": given.observations, "repeats": given.repeats, "seconds": summary}
    write_json(given.results / "decision_time.json", report)


if __name__ == "__main__":
    main()
