"""Why CMES does not lead at one resolution: its rule and MES with parts exchanged, on paired seeds.

A study (:mod:`benchmarks.study`): ``indirect-ablation.csv`` and ``.md``. The problems are those of ``fixed`` in
:mod:`benchmarks.quality.indirect.run` with windows that are known, which is quicker than 2000 samples of them; the
capital is the number of queries. ``simple`` is the regret of the best input recommended so far, as the paper has it,
``current`` that of the one recommended now, ``instant`` that of the best query.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from benchmarks.common import markdown, mean_and_error
from benchmarks.quality.indirect import run
from benchmarks.study import Job, Row, Study, read
from mfbo_torch.acquisition import ConditionalMaxValueEntropy
from mfbo_torch.problems import IndirectBranin
from mfbo_torch.strategies import CMES, QueryMES, Strategy
from mfbo_torch.strategies.common.fit_schedule import draw_seed, seeded
from mfbo_torch.strategies.snapshot import Snapshot

Seeds = dict[int, float]
REGRETS = {
    "simple": "Best input recommended so far",
    "current": "Input recommended now",
    "instant": "Best query so far",
}
NOISE = "noise known"
"""In the name of a variant whose model is told the noise."""


class OfAverages(CMES):
    """Asks what tells most about the maximum of the averages ``g`` in place of that of ``f``, by the same model."""

    def information(self, snapshot: Snapshot, generator: torch.Generator) -> ConditionalMaxValueEntropy:
        acquisition = super().information(snapshot, generator)
        candidates = self.surrogate.to(self.space.unit_candidates)
        with torch.no_grad(), seeded(draw_seed(generator)):
            drawn = self.model(snapshot).model.posterior(candidates).rsample(torch.Size([self.num_max_value_samples]))
        acquisition.max_values = drawn.squeeze(-1).amax(-1)
        return acquisition


VARIANTS: dict[str, Callable[[int], Strategy]] = {
    "CMES": lambda seed: CMES(seed=seed),
    "CMES, noise known": lambda seed: CMES(seed=seed),
    "CMES, strict": lambda seed: CMES(strict=True, seed=seed),
    "CMES, 5 initial queries": lambda seed: CMES(initial=5, seed=seed),
    "CMES, 64 samples": lambda seed: CMES(num_max_value_samples=64, seed=seed),
    "CMES, maximum of g": lambda seed: OfAverages(seed=seed),
    "MES": lambda seed: QueryMES(seed=seed),
    "MES, noise known": lambda seed: QueryMES(seed=seed),
    "MES, 5 initial queries": lambda seed: QueryMES(initial=5, seed=seed),
}
PROBLEMS = {f"{name} windows": partial(IndirectBranin, name, grid=20, known=True) for name in ("linear", "nonlinear")}


def execute(job: Job) -> list[Row]:
    """Run a job; one row for each number of queries."""
    problem = PROBLEMS[job.problem](seed=job.seed)
    if NOISE in job.method:
        problem.space = replace(problem.space, noise_std=problem.noise)
    history, advised, _ = run.advised_run(job, problem, VARIANTS[job.method])
    simple, instant = (regret.tolist() for regret in problem.regrets(history, advised))
    inputs = torch.tensor([found.x for found in advised if found is not None], dtype=torch.double)
    current = (problem.latent_optimum - problem.latent(inputs)).tolist()
    kinds = simple, current, instant
    return [(*job[:3], n, *(round(kind[n - 1], 6) for kind in kinds)) for n in job.capitals]


def report(path: Path) -> None:
    """Mean and standard error over the seeds, and the paired difference from MES."""
    found = defaultdict[tuple[str, str, str, str], Seeds](dict)
    for row in read(path):
        for regret in REGRETS:
            found[row["problem"], regret, row["method"], row["capital"]][int(row["seed"])] = float(row[regret])
    lines = ["# Variants of CMES, and MES, at one resolution", ""]
    lines += ["Mean regret ± standard error over the seeds. In brackets: mean difference from MES on the same seeds."]
    lines += ["Branin's function has standard deviation 1 on its box.", ""]
    for problem in PROBLEMS:
        for regret, title in REGRETS.items():
            body = []
            for variant in VARIANTS:
                rows, others = (
                    [found.get((problem, regret, one, str(n)), {}) for n in STUDY.capitals] for one in (variant, "MES")
                )
                if len(rows[0]) > 1:
                    body.append([variant, str(len(rows[0])), *map(_cell, rows, others)])
            lines += [
                f"## {problem}: {title.lower()}",
                "",
                *markdown(["variant", "seeds", *map(str, STUDY.capitals)], body),
            ]
            lines.append("")
    path.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


def _cell(values: Seeds, others: Seeds) -> str:
    text = mean_and_error([*values.values()], ".4f", ".4f")
    apart = [value - others[seed] for seed, value in values.items() if seed in others]
    return f"{text} ({mean_and_error(apart, '+.4f', '.4f')})" if len(apart) > 1 and any(apart) else text


STUDY = Study(
    "benchmarks.quality.indirect.ablation",
    "indirect-ablation",
    PROBLEMS,
    VARIANTS,
    (5, 10, 20),
    ("simple", "current", "instant"),
    execute=execute,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
