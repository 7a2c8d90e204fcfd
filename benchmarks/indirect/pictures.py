"""Pictures of indirect queries: what is believed of ``f`` beside what is seen of ``g``, and a tree.

    python -m benchmarks.indirect.pictures [--share 1.0]

Writes ``indirect-NAME.png``; all problems are simulated. The share is that of the full capital.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.common import parser, quiet
from benchmarks.indirect import plots
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import DiseaseMap, IndirectBranin, IndirectProblem, Satellite, ShiftedPeak
from mfbo_torch.strategies import CMES, CMETS
from mfbo_torch.strategies.indirect.base import OverAverages

RUNS: dict[str, tuple[Callable[[], IndirectProblem], Callable[[], OverAverages], float]] = {
    "shifted-peak": (ShiftedPeak, CMES, 15),
    "branin": (lambda: IndirectBranin("nonlinear", grid=20, num_samples=300), CMES, 20),
    "satellite": (Satellite, CMETS, 60),
    "disease-map": (DiseaseMap, CMES, 20),
    "tree": (lambda: IndirectBranin(resolutions=7, known=True), CMETS, 70),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and draw everything."""
    given = parser(__doc__, share=1.0).parse_args(arguments)
    quiet()
    for name, (make, search, capital) in RUNS.items():
        problem, strategy = make(), search()
        history = run(problem, strategy, given.share * capital, progress=False)
        bound = strategy.bind(problem.space, given.share * capital)
        if name == "tree" and isinstance(bound, CMETS):
            figure = plots.tree(bound, history)
        else:
            figure = plots.posteriors(bound, history, problem)
        figure.savefig(given.results / f"indirect-{name}.png", dpi=100)


if __name__ == "__main__":
    main()
