"""Simple and cumulative regret of every strategy on the synthetic problems at equal capital.

A study (:mod:`benchmarks.study`): ``regret.csv``; ``regret.md`` has medians and worst seeds, means with standard
errors, cumulative regret and time a decision, ``regret.png`` and ``regret-average.png`` draw them. Capital counts
everything, the initial design included. Regret below 1e-12 of the optimum is rounding and shown as 0.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.common import markdown, mean_and_error, tidy
from benchmarks.study import Look, Row, Study, cut, read
from mfbo_torch import problems, strategies
from mfbo_torch.metrics import average_regret, simple_regret
from mfbo_torch.strategies import Strategy
from mfbo_torch.strategies.common.model_based import ModelBased
from mfbo_torch.strategies.multi.mf_gp_ucb_published import divided
from mfbo_torch.strategies.snapshot import Snapshot

PROBLEMS = ("Currin", "BadCurrin", "Park", "Borehole", "Hartmann3", "Hartmann6")
CAPITALS = (15, 20, 30, 50, 100)
"""In units of the target's cost."""
MINUTES = 5
"""A run that takes more processor time is cut and keeps the regret it had; its ``spent`` is below ``capital - 1``."""


class Entry(NamedTuple):
    """A strategy to compare: where, at which capitals and with how many seeds.

    ``separate``: problems where each capital is a run of its own, for a strategy that plans with the capital; elsewhere
    all are read off one run to the largest. ``slow``: problems where only the first two seeds run, as a run is cut long
    before its capital is spent.
    """

    make: Callable[[int], Strategy]
    capitals: tuple[int, ...] = CAPITALS
    separate: tuple[str, ...] = ()
    problems: tuple[str, ...] = PROBLEMS
    seeds: int = 20
    slow: tuple[str, ...] = ()


class ByDirect(ModelBased):
    """A strategy whose acquisition is maximised by DIRECT, as in the experiments of [Kandasamy2016mfgpucb]_."""

    def climbed(self, acquisition: AcquisitionFunction, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        return self.maximize(acquisition, generator, 1, 1)[0]

    def maximize(
        self, acquisition: AcquisitionFunction, generator: torch.Generator, num_restarts: int, raw_samples: int
    ) -> tuple[Tensor, float]:
        u = divided(acquisition, self.space.unit_dim, self.surrogate.to)
        with torch.no_grad():
            return u, acquisition(self.surrogate.to(u).unsqueeze(-2)).item()


class GPUCBByDirect(ByDirect, strategies.GPUCB):
    pass


class LogEIByDirect(ByDirect, strategies.ExpectedImprovement):
    pass


TWO_FIDELITIES = PROBLEMS[:4]
"""Where half of the capital pays for less than MF-NAIVE's 500 cheap queries."""

ENTRIES = {
    "MFGPUCB": Entry(lambda seed: strategies.MFGPUCB(seed=seed), (15, 20), seeds=10),
    "MFGPUCB (no hedge)": Entry(lambda seed: strategies.MFGPUCB(hedge=False, seed=seed), (15, 20), seeds=10),
    "MFGPUCB (paper)": Entry(lambda seed: strategies.MFGPUCB(link="independent", seed=seed)),
    "MFGPUCB (strict)": Entry(
        lambda seed: strategies.MFGPUCB(link="independent", strict=True, seed=seed), slow=("Hartmann6",)
    ),
    "MFGPUCB (calibrated)": Entry(
        lambda seed: strategies.MFGPUCB(link="independent", beta="calibrated", seed=seed),
        problems=PROBLEMS[:5],
        seeds=10,
    ),
    "GP-UCB": Entry(lambda seed: strategies.GPUCB(seed=seed)),
    "LogEI": Entry(lambda seed: strategies.ExpectedImprovement(seed=seed)),
    "GP-UCB (DIRECT)": Entry(lambda seed: GPUCBByDirect(seed=seed), problems=PROBLEMS[:5], seeds=10),
    "LogEI (DIRECT)": Entry(lambda seed: LogEIByDirect(seed=seed), problems=PROBLEMS[:5], seeds=10),
    "PI": Entry(lambda seed: strategies.ProbabilityOfImprovement(seed=seed), seeds=10),
    "DiRect": Entry(lambda seed: strategies.Direct(seed=seed), seeds=1),
    "Random": Entry(lambda seed: strategies.RandomSearch(seed=seed), seeds=10),
    "MF-NAIVE": Entry(lambda seed: strategies.MFNaive(seed=seed), CAPITALS, TWO_FIDELITIES),
    "MF-NAIVE (random)": Entry(
        lambda seed: strategies.MFNaive(explore="random", seed=seed), CAPITALS, TWO_FIDELITIES, seeds=10
    ),
    "MF-SKO": Entry(lambda seed: strategies.MFSKO(seed=seed), slow=("Hartmann6",)),
    "MF-GIBBON": Entry(lambda seed: strategies.MFGIBBON(seed=seed), (15, 20, 30), seeds=10, slow=("Hartmann6",)),
    "MF-KG": Entry(
        lambda seed: strategies.MFKnowledgeGradient(seed=seed), (15, 20, 30), (), ("Currin", "Hartmann3"), 3
    ),
}

LONGER = {("Hartmann3", "MF-SKO"): 20}
"""Minutes of the runs that take more than :data:`MINUTES` to spend their capital."""


def plan(problem: str, method: str, seed: int) -> Iterable[tuple[int, ...]]:
    """The capitals of the runs of an entry."""
    entry = ENTRIES[method]
    if seed >= (2 if problem in entry.slow else entry.seeds) or problem not in entry.problems:
        return []
    return [(capital,) for capital in entry.capitals] if problem in entry.separate else [entry.capitals]


def measured(look: Look) -> Row:
    """Regret, simple and cumulative; ``average`` is the latter per unit of capital, ``R(Λ) / Λ``."""
    problem, target = look.problem, look.problem.space.target
    regret = simple_regret(look.history, target, problem.optimum, problem.worst)[-1].item()
    capital = look.capital * problem.space.costs[-1]
    average = average_regret(look.whole, target, problem.optimum, problem.worst, capital)
    return regret, look.spent, len(look.history), look.decision_seconds, average


Key = tuple[str, str, int]
Regrets = dict[Key, list[float]]
OURS = {
    "MFGPUCB": "#d55e00",
    "MFGPUCB (no hedge)": "#e69f00",
    "MFGPUCB (paper)": "#0072b2",
    "MFGPUCB (strict)": "#56b4e9",
    "MFGPUCB (calibrated)": "#009e73",
}
OTHERS = ("C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "black", "navy")
DASHED = " (DIRECT)"
"""The end of the labels that are drawn as those without it, dashed."""
CLIMBING = [label for label in ENTRIES if label not in OURS and not label.endswith(DASHED)]
COLORS = OURS | dict(zip(CLIMBING, OTHERS, strict=True))


class Results(NamedTuple):
    """What the rows say by problem, strategy and capital.

    Simple regrets of the seeds, cumulative regrets per unit of capital where they were measured, and which runs were
    cut; by strategy the seconds a decision of every run and capital.
    """

    regrets: Regrets
    averages: Regrets
    seconds: dict[str, list[float]]
    cut: set[Key]


def collect(path: Path) -> Results:
    """Read the rows."""
    found = Results(defaultdict(list), defaultdict(list), defaultdict(list), set())
    for row in read(path):
        regret = float(row["regret"])
        optimum = getattr(problems, row["problem"])().optimum
        regret = 0.0 if regret < 1e-12 * abs(optimum) else regret
        key = (row["problem"], row["method"], int(row["capital"]))
        found.regrets[key].append(regret)
        if row["average"]:
            found.averages[key].append(float(row["average"]))
        if cut(row):
            found.cut.add(key)
        found.seconds[row["method"]].append(float(row["decision_seconds"]) / max(int(row["queries"]), 1))
    return found


def table(found: Results) -> str:
    """Tables of each problem: medians, worst seeds and means of the simple regret, means of the cumulative one."""
    parts = ["# Simple and cumulative regret at equal capital", "", "The capital is in units of the target's"]
    parts += ["cost, and includes the initial design. Bold: no other strategy has a smaller median."]
    parts += [f"†: some runs were cut after {MINUTES} minutes; their regret is that of the queries until then."]
    parts += ["Cumulative regret is given per unit of capital, `R(Λ) / Λ`, for the runs that measured it. Unspent"]
    parts += ["capital, and capital spent at a cheaper fidelity, has the regret of the function's smallest value.", ""]
    for name in PROBLEMS:
        medians = {key: median(values) for key, values in found.regrets.items() if key[0] == name}
        if not medians:
            continue
        least = {c: min((v for k, v in medians.items() if k[2] == c), default=0.0) for c in CAPITALS}

        def middle(key: Key, medians: dict[Key, float] = medians, least: dict[int, float] = least) -> str:
            text = f"{medians[key]:.2g}" + "†" * (key in found.cut)
            text = f"**{text}**" if medians[key] <= least[key[-1]] else text
            values = found.regrets[key]
            return f"{text} ({max(values):.2g})" if len(values) > 1 else text

        def mean(key: Key) -> str:
            return mean_and_error(found.regrets[key], ".2g", ".1g") + "†" * (key in found.cut)

        def cumulative(key: Key) -> str:
            return mean_and_error(found.averages[key], ".2g", ".1g")

        parts += [f"## {name}", "", *_rows(name, found.regrets, "median (worst) simple regret", middle)]
        parts += _rows(name, found.regrets, "mean simple regret", mean)
        parts += _rows(name, found.averages, "mean cumulative regret", cumulative)
    body = [[label, f"{median(found.seconds[label]):.3f}"] for label in ENTRIES if label in found.seconds]
    parts += ["## Seconds a decision", "", *markdown(["strategy", "median over runs"], body)]
    return "\n".join(parts) + "\n"


def _rows(name: str, values: Regrets, title: str, cell: Callable[[Key], str]) -> list[str]:
    """A table of a problem, a strategy a row and a capital a column, and an empty line."""
    labels = [label for label in ENTRIES if any((name, label, c) in values for c in CAPITALS)]
    if not labels:
        return []
    body = []
    for label in labels:
        cells = [cell((name, label, c)) if (name, label, c) in values else "" for c in CAPITALS]
        seeds = [len(values[name, label, c]) for c in CAPITALS if (name, label, c) in values]
        least, most = min(seeds), max(seeds)
        body.append([label, f"{most}" if least == most else f"{least} to {most}", *cells])
    return [*markdown([title, "seeds", *map(str, CAPITALS)], body), ""]


def _panels(curves: dict[Key, float], names: Sequence[str], label: str) -> Figure:
    """Curves against capital, three problems a row."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    found = {}
    for axis, name in zip(figure.subplots(2, 3).flat, names, strict=False):
        for strategy in ENTRIES:
            points = [(c, curves[name, strategy, c]) for c in CAPITALS if (name, strategy, c) in curves]
            if points:
                style = {"linewidth": 2.5, "zorder": 3} if strategy in OURS else {"linewidth": 1.2, "zorder": 2}
                style |= {"marker": "o", "markersize": 4, "color": COLORS[strategy.removesuffix(DASHED)]}
                style |= {"linestyle": "--"} if strategy.endswith(DASHED) else {}
                (found[strategy],) = axis.plot(*zip(*points, strict=True), **style)
        axis.set(title=name, xscale="log", yscale="log", xticks=CAPITALS)
        axis.minorticks_off()
        axis.set_xticklabels(map(str, CAPITALS))
        tidy(axis)
    for axis in list(figure.axes)[len(names) :]:
        axis.remove()
    figure.supxlabel("capital, in queries at the target")
    figure.supylabel(label)
    labels = [strategy for strategy in ENTRIES if strategy in found]
    handles = [found[strategy] for strategy in labels]
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False)
    return figure


def report(path: Path) -> None:
    """Write the tables and the pictures beside the results."""
    found = collect(path)
    path.with_suffix(".md").write_text(text := table(found))
    curves = {key: max(median(values), 1e-9) for key, values in found.regrets.items()}
    figure = _panels(curves, PROBLEMS, "median simple regret (1e-9: the optimum itself)")
    figure.savefig(path.with_suffix(".png"), dpi=120)
    if found.averages:
        names = [name for name in PROBLEMS if any(key[0] == name for key in found.averages)]
        curves = {key: fmean(values) for key, values in found.averages.items()}
        figure = _panels(curves, names, "mean cumulative regret per unit of capital")
        figure.savefig(path.with_name(f"{path.stem}-average.png"), dpi=120)
    print(text)


STUDY = Study(
    "benchmarks.quality.regret",
    "regret",
    {name: getattr(problems, name) for name in PROBLEMS},
    {label: entry.make for label, entry in ENTRIES.items()},
    CAPITALS,
    ("regret", "spent", "queries", "decision_seconds", "average"),
    measured,
    seeds=20,
    minutes=MINUTES,
    longer=LONGER,
    plan=plan,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
