"""How long deciding takes where three parameters have four choices each, beside the same strategy on numbers alone.

    python -m benchmarks.speed.mixed_decision [--observations 100] [--repeats 3] [--strategies MFGPUCB GPBUCB]

Both get as many observations, in two fidelities, and decide in turn, in one process, as in
:mod:`benchmarks.speed.decision_time`. ``fit`` is the part of the amortised decision that goes into fits, ``search`` the
one into the search for the maximiser. Writes ``mixed_decision.json``.
"""

from collections.abc import Sequence
from statistics import median

from benchmarks.common import parser, quiet, write_json
from benchmarks.speed.decision_time import measure, observed
from mfbo_torch import strategies
from mfbo_torch.history import History, Query
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies.common.initial_design import allowed, sobol

NUMBERS = (Parameter("rate", 1e-4, 1e-1, log=True), Parameter("decay", 0.0, 1.0))
CHOICES = tuple(Parameter(name, choices=["p", "q", "r", "s"]) for name in ("first", "second", "third"))
RANGES = tuple(Parameter(name, 0.0, 3.0) for name in ("first", "second", "third"))
COSTS = (1.0, 10.0)
SPACES = {"choices": Space((*NUMBERS, *CHOICES), COSTS), "numbers": Space((*NUMBERS, *RANGES), COSTS)}
AHEAD = 10


def value(space: Space, query: Query) -> float:
    """A smooth function of the numbers, with a level and a slope for each choice."""
    u = space.to_unit(space.bounds.new_tensor(query.x))[:2].tolist()
    a, b, c = (round(x) for x in query.x[2:])
    bias = 0.1 * (1 - query.fidelity) * u[0]
    return -((u[0] - 0.2 * a) ** 2) - (u[1] - 0.3) ** 2 * (1 + b) + 0.1 * (c == 2) - 0.05 * abs(a - b) - bias


def histories(space: Space, observations: int) -> list[History]:
    """Histories of so many observations, four fifths of them cheap, and of up to :data:`AHEAD` more."""
    total, grown, found = observations + AHEAD, History(), []
    designs = space.from_unit(allowed(lambda n: sobol(space.dim, n, 0), total, space)).tolist()
    for i, x in enumerate(designs):
        query = Query(tuple(x), int(i % 5 == 4), {"stage": "model"})
        grown = observed(grown, query, value(space, query), COSTS[query.fidelity])
        if len(grown) >= observations:
            found.append(grown)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    usual = ["MFGPUCB", "MFGPUCB hedge=False", "GPBUCB", "ExpectedImprovement"]
    given = parser(__doc__, observations=100, repeats=3, strategies=usual).parse_args(arguments)
    quiet()
    grown = {name: histories(space, given.observations) for name, space in SPACES.items()}
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    for repeat in range(given.repeats + 1):
        for label in given.strategies:
            for name, space in SPACES.items():
                kind, _, hedge = label.partition(" ")
                strategy = getattr(strategies, kind)(space=space, **({"hedge": False} if hedge else {}))
                row = measure(strategy, grown[name], ("fit", "screening"))
                row["search"] = row.pop("screening")
                if repeat:  # the first has imports and first calls
                    runs.setdefault(label, {}).setdefault(name, []).append(row)
    summary = {
        label: {name: {part: median(row[part] for row in rows) for part in rows[0]} for name, rows in spaces.items()}
        for label, spaces in runs.items()
    }
    for label, spaces in summary.items():
        for name, row in spaces.items():
            print(f"{label:22s} {name:8s}", "  ".join(f"{part} {value:.3f}" for part, value in row.items()), flush=True)
    report = {"observations": given.observations, "repeats": given.repeats, "seconds": summary}
    write_json(given.results / "mixed_decision.json", report)


if __name__ == "__main__":
    main()
