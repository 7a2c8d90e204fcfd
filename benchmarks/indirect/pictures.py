"""Pictures of indirect queries: what is believed of ``f`` beside what is seen of ``g``, and a tree.

    python -m benchmarks.indirect.pictures [--out DIR]

Writes ``indirect-NAME.png`` to ``benchmarks/results``; all problems are simulated.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.indirect import plots
from mfbo_torch.problems import DiseaseMap, IndirectBranin, IndirectProblem, Satellite, ShiftedPeak
from mfbo_torch.runner import run
from mfbo_torch.strategies import CMES, CMETS
from mfbo_torch.strategies.over_averages import OverAverages

RUNS: dict[str, tuple[Callable[[], IndirectProblem], Callable[[], OverAverages], float]] = {
    "shifted-peak": (ShiftedPeak, CMES, 15),
    "branin": (lambda: IndirectBranin("nonlinear", grid=20, num_samples=300), CMES, 20),
    "satellite": (Satellite, CMETS, 60),
    "disease-map": (DiseaseMap, CMES, 20),
    "tree": (lambda: IndirectBranin(resolutions=7, known=True), CMETS, 70),
}


def main() -> None:
    """Run and draw everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name, (make, search, capital) in RUNS.items():
        problem, strategy = make(), search()
        history = run(problem, strategy, capital, progress=False)
        bound = strategy.bind(problem.space, capital)
        if name == "tree" and isinstance(bound, CMETS):
            figure = plots.tree(bound, history)
        else:
            figure = plots.posteriors(bound, history, problem)
        figure.savefig(out / f"indirect-{name}.png", dpi=100)


if __name__ == "__main__":
    main()
