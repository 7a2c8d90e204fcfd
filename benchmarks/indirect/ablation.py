"""Why CMES does not lead on the linear Branin windows: its rule and MES with parts exchanged, on paired seeds.

    python -m benchmarks.indirect.ablation [--variants LABEL ...] [--seeds N] [--workers N]

The setting is ``fixed linear`` of :mod:`benchmarks.indirect.run`, 30 queries. Adds the runs that are missing to
``indirect-ablation.csv`` (see :mod:`benchmarks.runs`) and writes ``indirect-ablation.md``. ``simple`` is the regret of
the best input recommended so far, as the paper has it, ``current`` that of the one recommended now: what a user gets,
and what luck in between does not mend.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import torch

from benchmarks.common import parser
from benchmarks.indirect.run import Job as Run
from benchmarks.indirect.run import problem_of
from benchmarks.runs import measure, read
from mfbo_torch.acquisition import ConditionalMaxValueEntropy
from mfbo_torch.history import History
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.strategies import CMES, QueryEI, QueryMES, Strategy
from mfbo_torch.strategies.common.fit_schedule import draw_seed, seeded

FILE, PAGE = "indirect-ablation.csv", "indirect-ablation.md"
COLUMNS = ("variant", "seed", "queries", "simple", "current", "mean_current")
"""``mean_current``: the mean of ``current`` from the tenth query on."""
QUERIES = (5, 10, 20, 30)
SETTLED = 10
Seeds = dict[int, float]


class OfAverages(CMES):
    """Asks what tells most about the maximum of the averages ``g`` in place of that of ``f``, by the same model."""

    def information(self, history: History, generator: torch.Generator) -> ConditionalMaxValueEntropy:
        acquisition = super().information(history, generator)
        candidates = self.surrogate.to(self.space.unit_candidates)
        with torch.no_grad(), seeded(draw_seed(generator)):
            drawn = self.belief(history).model.posterior(candidates).rsample(torch.Size([self.num_max_value_samples]))
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


class Job(NamedTuple):
    """One run, and the numbers of queries after which it is looked at."""

    variant: str
    seed: int
    queries: tuple[int, ...]


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job; one row for each number of queries."""
    problem = problem_of(Run("fixed linear", job.variant, job.seed))
    problem.trial = job.seed
    optimizer, advised = Optimizer(VARIANTS[job.variant](job.seed).bind(problem.space, max(job.queries))), []
    while asked := optimizer.ask(capital=max(job.queries)):
        (record,) = asked
        optimizer.tell(record.id, problem.observe(record.query.x, record.query.fidelity, record.id))
        advised.append(optimizer.recommend())
    simple = problem.regrets(optimizer.history, advised)[0].tolist()
    inputs = torch.tensor([found.x for found in advised if found is not None], dtype=torch.double)
    current = (problem.latent_optimum - problem.latent(inputs)).tolist()
    settled = fmean(current[SETTLED - 1 :] or current)
    return [(*job[:2], n, round(simple[n - 1], 6), round(current[n - 1], 6), round(settled, 6)) for n in job.queries]


def report(path: Path) -> str:
    """Mean and standard error over the seeds, and the paired difference from MES."""
    simple, current = defaultdict[tuple[str, str], Seeds](dict), defaultdict[tuple[str, str], Seeds](dict)
    for row in read(path):
        seed, key = int(row["seed"]), (row["variant"], row["queries"])
        simple[key][seed], current[key][seed] = float(row["simple"]), float(row["current"])
        current[row["variant"], "settled"][seed] = float(row["mean_current"])
    lines = ["# CMES and MES on the linear windows, parts exchanged", ""]
    lines += ["Mean ± standard error over the seeds; in brackets the mean difference from MES on the same seeds."]
    lines += ["Branin's function has deviation 1 on its box.", ""]
    columns = {str(n): str(n) for n in QUERIES}
    lines += _table("Best input recommended so far", simple, columns)
    lines += _table("Input recommended now", current, {**columns, "settled": f"mean from {SETTLED} on"})
    return "\n".join(lines)


def _table(title: str, regrets: Mapping[tuple[str, str], Seeds], columns: Mapping[str, str]) -> list[str]:
    lines = [f"## {title}", "", f"| variant | seeds | {' | '.join(columns.values())} |"]
    lines.append("| --- |" + " ---: |" * (len(columns) + 1))
    for variant in VARIANTS:
        rows = [regrets.get((variant, column), {}) for column in columns]
        if len(rows[0]) > 1:
            others = [regrets.get(("MES", column), {}) for column in columns]
            cells = map(_cell, rows, others)
            lines.append(f"| {variant} | {len(rows[0])} | {' | '.join(cells)} |")
    return [*lines, ""]


def _cell(values: Seeds, others: Seeds) -> str:
    text = f"{fmean(values.values()):.4f} ± {_error([*values.values()]):.4f}"
    apart = [value - others[seed] for seed, value in values.items() if seed in others]
    return f"{text} ({fmean(apart):+.4f} ± {_error(apart):.4f})" if len(apart) > 1 and any(apart) else text


def _error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the table; the exit status."""
    given = parser(__doc__, workers=1, variants=list(VARIANTS), seeds=20).parse_args(arguments)
    jobs = [Job(variant, seed, QUERIES) for seed in range(given.seeds) for variant in given.variants]
    status = measure(jobs, execute, given.results / FILE, COLUMNS, workers=given.workers)
    (given.results / PAGE).write_text(report(given.results / FILE), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
