"""What each part of the default earns: the hedge with one part changed at a time, on paired seeds.

    python -m benchmarks.quality.robust.ablation [--problems NAME ...] [--methods VARIANT ...] [--seeds N]

A study (:mod:`benchmarks.study`): ``hedge-ablation.csv`` and ``.md``, on the development problems of
:mod:`benchmarks.quality.robust.problems`. A variant is the default with the change that it is called after.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement
from torch import Tensor

from benchmarks.common import markdown
from benchmarks.quality.robust import run
from benchmarks.quality.robust.problems import DEVELOPMENT, PROBLEMS, loss
from benchmarks.study import Look, Row, Study, read
from mfbo_torch.history import Query
from mfbo_torch.models.multi_fidelity.target import TargetModel
from mfbo_torch.strategies import MFGPUCB, Strategy
from mfbo_torch.strategies.common.initial_design import with_the_target
from mfbo_torch.strategies.common.model_based import ModelBased
from mfbo_torch.strategies.multi.hedge_weights import ALONE, INTEGRATED, LINKED, noted_densities, shares
from mfbo_torch.strategies.multi.model_hedge import HedgedMFGPUCB, _unit
from mfbo_torch.strategies.snapshot import Snapshot


class Averaged(HedgedMFGPUCB):
    """One model, that with its links integrated out."""

    models = (INTEGRATED,)


class NoChain(HedgedMFGPUCB):
    """Without the chain as fitted, but for the choice of the fidelity."""

    models = (INTEGRATED, ALONE)


class NoAverage(HedgedMFGPUCB):
    """Without the averaged chain."""

    models = (LINKED, ALONE)


class NotAlone(HedgedMFGPUCB):
    """Without the target alone."""

    models = (LINKED, INTEGRATED)


class Uncapped(HedgedMFGPUCB):
    """The fidelities below may cost as much as they explain, however long the target waits."""

    capped = False


class Everywhere(HedgedMFGPUCB):
    """The chains are believed everywhere, in many dimensions too."""

    def _trusted(self, score: AcquisitionFunction, snapshot: Snapshot) -> AcquisitionFunction:
        return score


class Spread(HedgedMFGPUCB):
    """The first designs of every fidelity are Sobol points."""

    initial_point_at = ModelBased.initial_point_at


class Large(HedgedMFGPUCB):
    """As much as a query of the target costs for each fidelity below, not for all of them."""

    def counts(self, snapshot: Snapshot) -> list[int]:
        costs, found = snapshot.costs, super().counts(snapshot)
        share = found[-1] * costs[-1] / 2
        return with_the_target([*self.counts_below(costs, share, found[-1]), found[-1]], costs, self.capital)


class LargeSpread(Large, Spread):
    """Both."""


class OneTarget(HedgedMFGPUCB):
    """The first design has one query of the target."""

    def counts(self, snapshot: Snapshot) -> list[int]:
        return [*super().counts(snapshot)[:-1], 1]


class Improvements(AcquisitionFunction):
    """The logarithm of a weighed sum of expected improvements."""

    def __init__(self, parts: list[LogExpectedImprovement], weights: list[float]) -> None:
        super().__init__(parts[0].model)
        self.parts, self.log_weights = torch.nn.ModuleList(parts), torch.tensor(weights).log()

    def terms(self, X: Tensor) -> Tensor:
        """``... x k`` at ``... x 1 x d`` points."""
        return torch.stack([part(X) for part in self.parts], -1) + self.log_weights

    def forward(self, X: Tensor) -> Tensor:
        return self.terms(X).logsumexp(-1)


class Mixture(HedgedMFGPUCB):
    """No turns: the largest improvement that the three models expect together, by their shares."""

    def decided_by(self, name: str, snapshot: Snapshot, generator: torch.Generator) -> tuple[str, Query]:
        parts = shares(snapshot.records, self.models, partial(noted_densities, self.transforms(snapshot)[0]))
        pending, chain, found, weights = self.pending(snapshot), self.model(snapshot), [], []
        for each, model in ((LINKED, chain), (INTEGRATED, self.integrated(snapshot))):
            target = TargetModel(model.hallucinate(pending), _unit(model))
            found.append(LogExpectedImprovement(target, self._best(model, snapshot) / _unit(model)))
            weights.append(parts[each])
        seen = snapshot.transformed(self.transform(snapshot))
        found.append(LogExpectedImprovement(self.target_only.hallucinated(seen), self.target_only.best(seen)))
        mixture = Improvements(found, [*weights, parts[ALONE] / _unit(chain).item()])
        u = self.searched(self.feasible(mixture, snapshot, self.space.target), snapshot, generator)
        with torch.no_grad():
            name = self.models[int(mixture.terms(u).argmax())]
        if name == ALONE:
            return name, self.placed(u, self.space.target, snapshot, generator)
        fidelity = self.level(chain, u, snapshot)
        return name, self.query_near(chain, u, 1.0, fidelity, snapshot, generator, self.transform(snapshot), {})


def changed(kind: type[HedgedMFGPUCB], seed: int, **settings: Any) -> Strategy:
    """The default with another rule."""
    strategy = MFGPUCB(seed=seed, **settings)
    strategy.rule = kind(seed=seed, initial_capital=strategy.initial_capital)
    return strategy


VARIANTS: dict[str, Callable[[int], Strategy]] = {
    "default": lambda seed: MFGPUCB(seed=seed),
    "chain as fitted only": lambda seed: MFGPUCB(hedge=False, seed=seed),
    "averaged chain only": partial(changed, Averaged),
    "no chain as fitted": partial(changed, NoChain),
    "no averaged chain": partial(changed, NoAverage),
    "no target alone": partial(changed, NotAlone),
    "mixture for turns": partial(changed, Mixture),
    "cheap capital uncapped": partial(changed, Uncapped),
    "no trust region": partial(changed, Everywhere),
    "first design spread": partial(changed, Spread),
    "first design large": partial(changed, Large),
    "first design large, spread": partial(changed, LargeSpread),
    "first design with one target": partial(changed, OneTarget),
    "target only": run.OURS["EI"],
}


def measured(look: Look) -> Row:
    """The regret of what is recommended, and how often each fidelity was queried."""
    job, problem = look.job, look.problem
    capital = max(job.capitals) * problem.space.costs[-1]
    advised = VARIANTS[job.method](job.seed).bind(problem.space, capital).recommend(look.history)
    target_queries = look.history.queries_per_fidelity(problem.space.num_fidelities)[-1]
    return run.regret_of(job.problem, problem, advised), len(look.history), target_queries, look.decision_seconds


def report(path: Path) -> None:
    """Geometric means over the problems of the median loss, and on how many problems a variant is behind."""
    losses: dict[tuple[str, str, int], dict[int, float]] = defaultdict(dict)
    for row in read(path):
        key = row["problem"], row["method"], int(row["capital"])
        losses[key][int(row["seed"])] = loss(row["problem"], float(row["regret"]))
    lines = ["# The default with one part changed", ""]
    lines += [
        "Geometric mean over the problems of the median loss, by capital in target costs; in brackets on how many"
    ]
    lines += ["problems the median is above, and below, 1.2 times that of the default on the same seeds.", ""]
    body = []
    for variant in VARIANTS:
        names = [name for name in PROBLEMS if (name, variant, STUDY.capitals[-1]) in losses]
        if not names:
            continue
        cells = []
        for capital in STUDY.capitals:
            logs, above, below = [], 0, 0
            for name in names:
                own, base = losses[name, variant, capital], losses[name, "default", capital]
                both = own.keys() & base.keys()
                logs.append(log(median(own.values())))
                if both:
                    ratio = median(own[s] for s in both) / median(base[s] for s in both)
                    above, below = above + (ratio > 1.2), below + (ratio < 1 / 1.2)
            cells.append(f"{exp(fmean(logs)):.2g} ({above}, {below})")
        seeds = min(len(losses[name, variant, STUDY.capitals[-1]]) for name in names)
        body.append([variant, str(len(names)), str(seeds), *cells])
    lines += markdown(["variant", "problems", "seeds", *(f"at {c}" for c in STUDY.capitals)], body)
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


STUDY = Study(
    "benchmarks.quality.robust.ablation",
    "hedge-ablation",
    {name: PROBLEMS[name] for name in DEVELOPMENT},
    VARIANTS,
    (2, 5, 10, 20),
    ("regret", "queries", "target_queries", "decision_seconds"),
    measured,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
