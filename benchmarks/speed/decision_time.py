"""How long deciding takes: MFGPUCB beside MF-GIBBON with ``optimize_acqf_mixed``, on the same data.

    python -m benchmarks.speed.decision_time [--observations 100] [--repeats 10] [--sizes 20 100 400 1000 4000 8000]

Both get the same history of Hartmann-3D (three fidelities) and decide the query that follows, in turn, in one process
on one thread. ``cold`` fits the hyper-parameters first, as after a restart; ``warm`` has them, as between two refits;
``amortised`` is the mean over the next ten observations, refits as they fall due. For each of ``--sizes`` observations
there is what a cold decision of MFGPUCB consists of, and the three after it on average, and the most memory of the
process by then, ``peak_mb``; ``exponents`` say how the whole grows from 1,000 observations on. Seconds of processor
time, those of an idle machine on any other. Writes ``decision_time.json``.
"""

import resource
from collections.abc import Sequence
from statistics import median

import torch

from benchmarks.common import parser, quiet, write_json
from benchmarks.timing import exponent, timed
from benchmarks.timing import processor_seconds as seconds
from mfbo_torch import PerFidelityGP
from mfbo_torch.history import History, Query
from mfbo_torch.models.gp import exact
from mfbo_torch.models.multi_fidelity import level
from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
from mfbo_torch.models.multi_fidelity.level import Level
from mfbo_torch.problems import Hartmann3
from mfbo_torch.strategies import MFGIBBON, MFGPUCB, Strategy
from mfbo_torch.strategies.common import fit_schedule, model_based
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.strategies.common.model_based import ModelBased

AHEAD, NEXT = 10, 3
LARGE = 1000
"""From this size on it is fitted how the time of a decision grows."""
PARTS = {
    "fit": ((PerFidelityGP, "fit"), (fit_schedule, "_fitted")),
    "factor": ((Level, "factor"), (level, "grow"), (exact, "factorize"), (CoKrigingGP, "__init__")),
    "screening": ((ModelBased, "maximize_from"), (ModelBased, "maximize")),
    "optimiser": ((model_based, "optimize_acqf"),),
}
"""What the parts of a decision call; a part within another one is not counted as that, but whatever the optimiser calls
is the optimiser's."""


def parts(observations: int) -> dict[str, dict[str, float]]:
    """Seconds of each part, and of the whole, of a cold decision and on average of the next ones."""
    (known,), problem, found = history(observations, 0), Hartmann3(), []
    strategy = MFGPUCB(space=problem.space)
    for _ in range(1 + NEXT):
        asked: list[Query] = []
        with timed(PARTS, ["optimiser"]) as spent:
            whole = seconds(lambda known=known, asked=asked: asked.extend(strategy.ask(known)))
        found.append(spent | {"rest": whole - sum(spent.values()), "whole": whole})
        known = evaluated(known, asked[0], problem)
    cold, *others = found
    return {"cold": cold, "next": {part: sum(row[part] for row in others) / NEXT for part in cold}}


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
        grown = evaluated(grown, query, problem)
        if len(grown) >= observations:
            found.append(grown)
    return found


def evaluated(past: History, query: Query, problem: Hartmann3) -> History:
    """The history with what the problem says of a query."""
    return observed(past, query, problem.reward(query.x, query.fidelity), problem.space.costs[query.fidelity])


def observed(past: History, query: Query, value: float, cost: float) -> History:
    """The history with one more value."""
    past = past.asked(query, cost)
    return past.updated(past.records[-1].done(value))


def measure(strategy: Strategy, histories: Sequence[History], parts: Sequence[str] = ()) -> dict[str, float]:
    """Seconds of a cold, a warm and an amortised decision, and of some parts of the last."""
    found, ahead = {kind: seconds(lambda: strategy.ask(histories[0])) for kind in ("cold", "warm")}, len(histories) - 1
    with timed({part: PARTS[part] for part in parts}, parts) as spent:
        later = sum(seconds(lambda grown=grown: strategy.ask(grown)) for grown in histories[1:])
    return found | {part: whole / ahead for part, whole in {"amortised": later, **spent}.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    given = parser(__doc__, observations=100, repeats=10, sizes=[20, 100, 400, 1000, 4000, 8000]).parse_args(arguments)
    quiet()
    histories = history(given.observations, AHEAD)
    space = Hartmann3().space
    makers = {"MFGPUCB": lambda: MFGPUCB(space=space), "MF-GIBBON": lambda: MFGIBBON(space=space)}
    for make in makers.values():
        make().ask(histories[0])  # imports and first calls
    runs: dict[str, list[dict[str, float]]] = {label: [] for label in makers}
    for _ in range(given.repeats):
        for label, make in makers.items():
            runs[label].append(measure(make(), histories))
    summary = {
        kind: {label: median(run[kind] for run in rows) for label, rows in runs.items()}
        | {"ratio": median(g[kind] / o[kind] for o, g in zip(*runs.values(), strict=True))}
        for kind in ("cold", "warm", "amortised")
    }
    for kind, row in summary.items():
        print(f"{kind:10s}", "  ".join(f"{label} {value:.3f}" for label, value in row.items()))
    table: dict[int, dict[str, dict[str, float]]] = {}
    peaks, growth = dict[int, int](), dict[str, float]()
    report = {"observations": given.observations, "repeats": given.repeats, "seconds": summary, "parts": table}
    report |= {"peak_mb": peaks, "exponents": growth}
    for size in given.sizes:
        table[size] = parts(size)
        for kind, row in table[size].items():
            print(f"{size:5d} {kind:5s}", "  ".join(f"{part} {value:.4f}" for part, value in row.items()), flush=True)
        large = [known for known in table if known >= LARGE]
        if len(large) > 1:
            for kind in table[size]:
                growth[kind] = exponent(large, [table[known][kind]["whole"] for known in large])
        peaks[size] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        write_json(given.results / "decision_time.json", report)


if __name__ == "__main__":
    main()
