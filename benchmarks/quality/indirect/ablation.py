"""Why CMES does not lead on the linear Branin windows: its rule and MES with parts exchanged, on paired seeds.

A study (:mod:`benchmarks.study`): ``indirect-ablation.csv`` and ``.md``, on ``fixed linear`` of
:mod:`benchmarks.quality.indirect.run`; the capital is the number of queries. ``simple`` is the regret of the best input
recommended so far, as the paper has it, ``current`` that of the one recommended now: what a user gets, and what luck in
between does not mend; ``mean_current`` is the mean of ``current`` from the tenth query on.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

import torch

from benchmarks.common import markdown, mean_and_error
from benchmarks.quality.indirect import run
from benchmarks.study import Job, Row, Study, read
from mfbo_torch.acquisition import ConditionalMaxValueEntropy
from mfbo_torch.strategies import CMES, QueryEI, QueryMES, Strategy
from mfbo_torch.strategies.common.fit_schedule import draw_seed, seeded
from mfbo_torch.strategies.snapshot import Snapshot

SETTING, SETTLED = "fixed linear", 10
Seeds = dict[int, float]


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
    "CMES, 64 samples": lambda seed: CMES(num_max_value_samples=64, seed=seed),
    "CMES, Gumbel": lambda seed: CMES(sampler="gumbel", seed=seed),
    "CMES, truncated": lambda seed: CMES(form="truncated", seed=seed),
    "CMES, maximum of g": lambda seed: OfAverages(seed=seed),
    "MES": lambda seed: QueryMES(seed=seed),
    "EI": lambda seed: QueryEI(seed=seed),
}


def execute(job: Job) -> list[Row]:
    """Run a job; one row for each number of queries."""
    problem = run.problem_of(job)
    history, advised, _ = run.advised_run(job, problem, VARIANTS[job.method])
    simple = problem.regrets(history, advised)[0].tolist()
    inputs = torch.tensor([found.x for found in advised if found is not None], dtype=torch.double)
    current = (problem.latent_optimum - problem.latent(inputs)).tolist()
    settled = round(fmean(current[SETTLED - 1 :] or current), 6)
    return [(*job[:3], n, round(simple[n - 1], 6), round(current[n - 1], 6), settled) for n in job.capitals]


def report(path: Path) -> None:
    """Mean and standard error over the seeds, and the paired difference from MES."""
    simple, current = defaultdict[tuple[str, str], Seeds](dict), defaultdict[tuple[str, str], Seeds](dict)
    for row in read(path):
        seed, key = int(row["seed"]), (row["method"], row["capital"])
        simple[key][seed], current[key][seed] = float(row["simple"]), float(row["current"])
        current[row["method"], "settled"][seed] = float(row["mean_current"])
    lines = ["# Variants of CMES, and MES, on the linear windows", ""]
    lines += ["Mean regret ± standard error over the seeds. In brackets: mean difference from MES on the same seeds."]
    lines += ["Branin's function has standard deviation 1 on its box.", ""]
    columns = {str(n): str(n) for n in STUDY.capitals}
    lines += _table("Best input recommended so far", simple, columns)
    lines += _table("Input recommended now", current, {**columns, "settled": f"mean from {SETTLED} on"})
    path.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


def _table(title: str, regrets: Mapping[tuple[str, str], Seeds], columns: Mapping[str, str]) -> list[str]:
    body = []
    for variant in VARIANTS:
        rows = [regrets.get((variant, column), {}) for column in columns]
        if len(rows[0]) > 1:
            others = [regrets.get(("MES", column), {}) for column in columns]
            body.append([variant, str(len(rows[0])), *map(_cell, rows, others)])
    return [f"## {title}", "", *markdown(["variant", "seeds", *columns.values()], body), ""]


def _cell(values: Seeds, others: Seeds) -> str:
    text = mean_and_error([*values.values()], ".4f", ".4f")
    apart = [value - others[seed] for seed, value in values.items() if seed in others]
    return f"{text} ({mean_and_error(apart, '+.4f', '.4f')})" if len(apart) > 1 and any(apart) else text


STUDY = Study(
    "benchmarks.quality.indirect.ablation",
    "indirect-ablation",
    {SETTING: run.STUDY.problems[SETTING]},
    VARIANTS,
    (5, 10, 20, 30),
    ("simple", "current", "mean_current"),
    seeds=20,
    execute=execute,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
