"""Queries of several resolutions where the windows do not fill the cells, and where the wide ones say little.

A study (:mod:`benchmarks.study`): ``indirect-fields.csv`` and ``.md``. ``satellite``: another field for every seed; the
footprints are 0.32, 0.16, 0.08 and 0.04 of the side, the cells of CMETS 1, 1/2, 1/4, 1/8 of it by default and 1, 1/3,
1/9, 1/27 with nine children. ``shifted peak``: windows of 0.6 to 0.15, a narrow peak that the wide ones all but remove.
``even queries``: no strategy: averages of that peak at evenly spaced places, by windows of one width, and what is
recommended then; the number of queries stands for the capital.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import fmean, median

import torch

from benchmarks.common import markdown
from benchmarks.quality.indirect.run import COLUMNS, explored
from benchmarks.study import Job, Row, Study, grouped
from mfbo_torch import strategies
from mfbo_torch.models import DeconditionalGP, GaussianConditional
from mfbo_torch.problems import Satellite, ShiftedPeak
from mfbo_torch.strategies import Strategy

WIDTHS = (0.6, 0.42, 0.3, 0.21, 0.15)
CAPITALS = {"satellite": (25, 50, 100), "shifted peak": (15, 30, 60), "even queries": (15, 30, 60)}
EVEN = "even queries"
EVEN_METHODS = [f"windows of {width:g}" for width in WIDTHS]
MAKERS: dict[str, Callable[[int], Strategy]] = {
    "CMETS": lambda seed: strategies.CMETS(seed=seed),
    "CMETS, 9 children": lambda seed: strategies.CMETS(children=9, seed=seed),
    "CMES": lambda seed: strategies.CMES(seed=seed),
    "UCB": lambda seed: strategies.QueryUCB(seed=seed),
    "shrinking window": lambda seed: strategies.ShrinkingWindow(seed=seed),
}
ELSEWHERE = {"satellite": "shrinking window", "shifted peak": "CMETS, 9 children", EVEN: ""}
"""What does not run where: windows that are no squares, nine parts of one side."""


def plan(problem: str, method: str, seed: int) -> Iterable[tuple[int, ...]]:
    """The capitals of a setting, where the method runs."""
    fits = (method in EVEN_METHODS) == (problem == EVEN) and method != ELSEWHERE[problem]
    return [CAPITALS[problem]] if fits else []


def execute(job: Job) -> list[Row]:
    """Run a job."""
    if job.problem == EVEN:
        return even(job)
    problem = Satellite(seed=job.seed) if job.problem == "satellite" else ShiftedPeak(WIDTHS)
    return explored(job, problem, MAKERS[job.method])


def even(job: Job) -> list[Row]:
    """What evenly spaced averages by windows of one width let the model recommend."""
    problem, level = ShiftedPeak(WIDTHS), EVEN_METHODS.index(job.method)
    generator = torch.Generator().manual_seed(job.seed)
    X, rows = problem.space.inputs, []
    for count in job.capitals:
        shift = (torch.rand(1, generator=generator, dtype=torch.double) - 0.5) * 6 / count
        A = (torch.linspace(-3, 3, count, dtype=torch.double) + shift).clamp(-3, 3).unsqueeze(-1)
        noise = torch.randn(count, generator=generator, dtype=torch.double) * problem.noise[level]
        Z = (problem.averages(A, level).reshape(-1) + noise).unsqueeze(-1)
        model = DeconditionalGP(A, Z, GaussianConditional(WIDTHS[level])).fit()
        with torch.no_grad():
            best = X[model.latent_mean_variance(X)[0].argmax()].unsqueeze(0)
        simple = problem.latent_optimum - problem.latent(best).item()
        instant = problem.latent_optimum - problem.averages(A, level).max().item()
        rows.append((*job[:3], count, round(simple, 6), round(instant, 6), count, 0.0))
    return rows


def report(path: Path) -> None:
    """Mean and median of the simple regret."""
    rows = grouped(path)
    parts = ["# Several resolutions on other fields", "", "Simple regret of the best input recommended so far:"]
    parts += ["mean (median) over the seeds. On the shifted peak a regret of 0.2 is the lower, broad peak.", ""]
    for setting, columns in CAPITALS.items():
        body = []
        for label in dict.fromkeys(label for name, label, _ in rows if name == setting):
            found = [[float(row["simple"]) for row in rows.get((setting, label, c), [])] for c in columns]
            cells = [f"{fmean(some):.3f} ({median(some):.3f})" if some else "-" for some in found]
            body.append([label, str(max(map(len, found))), *cells])
        if body:
            parts += [f"## {setting}", "", *markdown(["strategy", "seeds", *map(str, columns)], body), ""]
    path.with_suffix(".md").write_text("\n".join(parts))


STUDY = Study(
    "benchmarks.quality.indirect.fields",
    "indirect-fields",
    {"satellite": Satellite, "shifted peak": partial(ShiftedPeak, WIDTHS), EVEN: partial(ShiftedPeak, WIDTHS)},
    {**MAKERS, **dict.fromkeys(EVEN_METHODS)},
    (),
    COLUMNS,
    plan=plan,
    execute=execute,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
