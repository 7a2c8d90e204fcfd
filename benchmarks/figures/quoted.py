"""Figures in the sentences and tables of the pages, looked up in the results.

A :class:`Quote` is a piece of a page with ``{}`` in the place of each figure, and the values that belong there. A
figure is right where it is the value rounded to the digits that the page shows. What several pages quote has one
source, so that it cannot differ between them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from statistics import fmean, geometric_mean, median
from typing import Any, NamedTuple

from benchmarks.common import RESULTS
from benchmarks.figures.claims import curves
from benchmarks.quality import samplers
from benchmarks.quality.robust import report
from benchmarks.quality.robust.problems import DEVELOPMENT, PROBLEMS
from benchmarks.study import Rows, grouped

ROOT = RESULTS.parent.parent
FIGURE = r"\**(-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)\**"
NOTHING = 1e-9
"""The largest value that may be shown as 0."""
SYNTHETIC = ("Currin", "BadCurrin", "Park", "Borehole", "Hartmann3", "Hartmann6")
REGRETS = {
    "**MFGPUCB**": "MFGPUCB",
    "**MFGPUCB**, `hedge=False`": "MFGPUCB (no hedge)",
    "MFGPUCB, published settings": "MFGPUCB (paper)",
    "MFGPUCB, published protocol": "MFGPUCB (strict)",
    "LogEI, target only": "LogEI",
    "GP-UCB, target only": "GP-UCB",
    "MF-NAIVE": "MF-NAIVE",
    "MF-SKO": "MF-SKO",
    "BoTorch MF-GIBBON": "MF-GIBBON",
}
"""The rows of the tables of regrets, and the methods of the results."""
ON_README = ("MFGPUCB", "MFGPUCB (no hedge)", "MFGPUCB (paper)", "LogEI", "MF-GIBBON")


_COUNTS = ("none", "one", "two", "three", "four", "five", "six", "seven", "all eight")
"""How many of eight tasks, in words."""


class Quote(NamedTuple):
    """A piece of a page, whatever its line breaks and its bold figures."""

    page: str
    says: str
    values: Sequence[float]


@cache
def measured(name: str) -> Any:
    """What a file of results holds."""
    return json.loads((RESULTS / f"{name}.json").read_text())


@cache
def rows(name: str) -> Rows:
    """The rows of a study."""
    return grouped(RESULTS / f"{name}.csv")


def over_seeds(of: Callable[[list[float]], float], name: str, column: str, *group: Any) -> float:
    """A statistic over the seeds of a problem, a method and a capital."""
    return of([float(row[column]) for row in rows(name)[group]])


def quotes() -> Iterator[Quote]:
    """All that is looked up."""
    yield from _times()
    yield from _tables_of_regrets()
    yield from _suite()
    yield from _doors()
    yield from _choices_and_limits()
    yield from _scale()
    yield from _batches()
    yield from _averages()
    yield from _real()
    yield from _trainings()
    yield from _objectives()
    yield from _intervals()


def _intervals() -> Iterator[Quote]:
    """What of the true values lies in the model's intervals, and what the rules that end a run early save."""

    def found(name: str, line: str) -> list[tuple[str, ...]]:
        return re.findall(line, (RESULTS / f"{name}.md").read_text(), re.MULTILINE)

    share = r"^\| 20 \| {} \| (\d+) \| \d+ \| \S+ \S+ \| 0\.(\d+) \(0\.(\d+)\)"
    ((number, mean, least),) = found("calibration", share.format("integrated"))
    says = "contains {} % of the true values, on average over {} of the problems with three runs each, and {} % on the"
    yield Quote("docs/benchmarks.md", says, [float(mean), float(number), float(least)])
    ((_, mean, _),) = found("calibration", share.format("linked"))
    yield Quote("docs/benchmarks.md", "links contains {} % ([calibration]", [float(mean)])
    rule = r"^\| `{}` \| (\d+)% \| \S+ \| (\S+) \|$"
    patience, gains = (found("stopping", rule.format(name)) for name in ("--patience 10", "--stop-gain 0.0001"))
    saved, worst = ([float(row[i]) for row in patience] for i in (0, 1))
    says = "saved {} to {} % of the capital, and the worst regret at its end was {}"
    yield Quote("docs/how-to/when-to-stop.md", says, [min(saved), max(saved), max(worst)])
    saved = [float(row[0]) for row in gains]
    yield Quote("docs/how-to/when-to-stop.md", "near to the optimum and saved {} to {} %", [min(saved), max(saved)])


def _trainings() -> Iterator[Quote]:
    """On how many tasks the median of FreezeThaw is near the best, at each capital."""
    found = re.findall(r"^\| FreezeThaw \|(.* of .*)\|$", (RESULTS / "trainings.md").read_text(), re.MULTILINE)
    developed, held, *others = [[int(n) for n in re.findall(r"(\d+) of", line)] for line in found]
    page = "docs/how-to/trainings.md"
    says = "at most 1.05 times the smallest on {}, {} and {} of the 16 tasks at 3, 6 and 12"
    yield Quote(page, says, developed[:3])
    done = re.findall(r"^\| FreezeThaw \|(.* of .*)\|$", (RESULTS / "trainings-trained.md").read_text(), re.MULTILINE)
    trained, apart = ([int(n) for n in re.findall(r"(\d+) of", line)] for line in done)
    says = "the smallest on {}, {} and {} of 16 tasks at 3, 6 and 12, and on {}, {} and {} of 5 held out"
    yield Quote(page, says, [*trained, *apart])
    worst = {group: max(float(row["loss"]) for row in some) for group, some in rows("trainings-trained").items()}
    tasks = {task for task, *_ in worst}
    safe = [sum(worst[t, "FreezeThaw", n] <= 1.1 * worst[t, "Syne Tune ASHA", n] for t in tasks) for n in (3, 6, 12)]
    yield Quote(page, "Its worst seed is at most 1.1 times that of ASHA on {}, {} and {} of all 21", safe)
    says = "Its loss is {}, {} and {} times that of random designs with halving"
    yield Quote(page, says, [_paired("random + halving", capital) for capital in (3, 6, 12)])
    four = [_COUNTS[a + b] for a, b in zip(*others[:2], strict=True)]
    yield Quote(page, "the smallest on {} of the 16 tasks, and on {} of the 8 held out", [developed[3], held[3]])
    yield Quote(page, f"times the smallest on {four[1]} at 6 trainings, and on {four[2]} at 12.", [])


def _paired(rival: str, capital: float) -> float:
    """The loss of FreezeThaw over that of a rival, trained with the same seeds: the geometric mean over the tasks."""
    found, means = rows("trainings-trained"), list[float]()
    for problem in {group[0] for group in found}:
        ours, theirs = (
            {row["seed"]: float(row["loss"]) for row in found[problem, method, capital]}
            for method in ("FreezeThaw", rival)
        )
        means.append(geometric_mean(ours[seed] / theirs[seed] for seed in ours.keys() & theirs.keys()))
    return geometric_mean(means)


def _objectives() -> Iterator[Quote]:
    """On how many problems the median of MFEHVI is near the best of the others, at each capital."""
    found = {group: median(float(row["regret"]) for row in some) for group, some in rows("objectives").items()}
    peers = {group: value for group, value in found.items() if not group[1].startswith("MFEHVI")}
    names = {name for name, _, _ in peers}
    least = {(name, c): min(v for (n, _, at), v in peers.items() if (n, at) == (name, c)) for name, _, c in peers}
    for method, says in {
        "MFEHVI": "on {} of {} problems at a capital of 10 evaluations of the target, on {} at 20 and on {} at 40;",
        "MFEHVI, told": "told, on {} of {}, on {} at 20 and on {} at 40. Untold",
    }.items():
        near = [
            sum(found[n, method, capital] <= least[n, capital] + 0.1 * abs(least[n, capital]) for n in names)
            for capital in (10.0, 20.0, 40.0)
        ]
        yield Quote("docs/how-to/objectives.md", says, [near[0], len(names), *near[1:]])


def _real() -> Iterator[Quote]:
    """Means of the best values on real problems, at a capital of 30 queries of the target."""

    def best(problem: str, *methods: str) -> list[float]:
        return [over_seeds(fmean, "real", "best", problem, method, 30.0) for method in methods]

    page, both = "docs/benchmarks.md", ("MF-NAIVE", "MFGPUCB")
    for problem in ("SALSA", "Supernova"):
        yield Quote(page, f"| {problem} | {{}} | {{}} |", best(problem, *both))
    yield Quote(page, "| Viola-Jones (MF-SKO: {}) | {} | {} |", best("ViolaJones", "MF-SKO", *both))
    says = "vector machine ({} and {}), as with probability of improvement ({})"
    yield Quote(page, says, best("SVM", "MFGPUCB", "GP-UCB", "PI"))
    pairs = [best(problem, *both) for problem in ("SALSA", "Supernova", "ViolaJones", "SVM")]
    ahead = ("none", "one", "two", "three", "all")[sum(naive > default for naive, default in pairs)]
    yield Quote("docs/which-strategy.md", f"It is ahead of the default on {ahead} of four", [])


def _times() -> Iterator[Quote]:
    found = measured("decision_time")
    seconds, parts = found["seconds"], found["parts"]
    large = [parts["8000"]["next"]["whole"], parts["8000"]["cold"]["whole"]]
    yield Quote("docs/how-to/long-runs.md", "8,000 observations takes {} s, and the first after a restart {} s", large)
    for page in ("README.md", "docs/which-strategy.md"):
        says = "4,000 to 8,000 observations takes {} to {} s, and the first after a restart {} s"
        later = sorted(parts[n]["next"]["whole"] for n in ("4000", "8000"))
        yield Quote(page, says, [*later, large[1]])
    cold, mean = seconds["cold"], seconds["amortised"]
    page = "docs/benchmarks.md"
    yield Quote(page, "the default takes {} s of processor time a decision on average", [mean["MFGPUCB"]])
    says = "after a restart takes {} s, a tenth of MF-GIBBON's (1 : {})"
    yield Quote(page, says, [cold["MFGPUCB"], cold["ratio"]])
    fits = [parts[n]["cold"][part] for n in ("1000", "8000") for part in ("fit", "whole")]
    yield Quote(page, "{} of {} s at 1,000 observations, and {} of {} s at 8,000", fits)
    batch = measured("greedy")["batch"]["seconds"]
    fast = [1000 * batch["lazy"]["median"], batch["botorch"]["median"]]
    yield Quote("docs/how-to/batches.md", "of 10,000 points takes {} ms, against {} s for a loop", fast)
    two = measured("objectives_decision")["seconds"]
    says = "takes {} s of processor time where the models are fitted anew, and the next one {} s."
    yield Quote("docs/how-to/objectives.md", says, [two["MFEHVI"], two["next"]])
    yield Quote("docs/how-to/objectives.md", "knowledge gradient takes {} s, fitted anew", [two["MF-HVKG"]])
    mixed = measured("mixed_decision")["seconds"]["MFGPUCB"]["choices"]
    says = "takes {} s including fits, and {} s when it starts with a fit."
    yield Quote("docs/how-to/spaces.md", says, [mixed["amortised"], mixed["cold"]])
    ax = measured("ax_overhead")["processor_seconds"]
    says = "takes {} s of processor time. Ax adds {} s a trial, and {} s with SQLite"
    values = [ax["memory"]["decision"], ax["memory"]["ax"], ax["sqlite"]["ax"]]
    yield Quote("docs/how-to/ax-and-optuna.md", says, values)


def _batches() -> Iterator[Quote]:
    """Mean regret over queries 11 to 200 and its standard error, on the Matérn problems and the peptides."""
    page = "docs/how-to/batches.md"
    found = [curves(f"batch/{name}", name, "later") for name in ("matern", "peptides")]
    for label, method in {"GP-BUCB": "GP-BUCB", "GP-UCB, one query at a time": "GP-UCB"}.items():
        both = [part for each in found for part in each[method][200.0]]
        yield Quote(page, f"| {label} | {{}} ± {{}} | {{}} ± {{}} |", both)
    pairs = {"simulation matching": ("SM-UCB", "SM-MEI"), "naive batches": ("NTB-UCB", "NRB-UCB")}
    for label, methods in pairs.items():
        means = [each[method][200.0][0] for each in found for method in methods]
        yield Quote(page, f"| {label}, two forms | {{}}, {{}} | {{}}, {{}} |", means)


def _averages() -> Iterator[Quote]:
    """Mean regrets of queries that are averages."""
    page = "docs/how-to/averages.md"
    ends = [over_seeds(fmean, "indirect", "simple", f"tree {kind}", "CMETS", 70.0) for kind in ("linear", "nonlinear")]
    yield Quote(page, "with a mean regret of {} (linear) and {} (curved) over ten seeds", ends)
    for label, problem in {"linear": "fixed linear", "curved": "fixed nonlinear"}.items():
        means = [
            over_seeds(fmean, "indirect", "simple", problem, method, 30.0) for method in ("CMES", "MES", "UCB", "EI")
        ]
        yield Quote(page, f"| {label} | {{}} | {{}} | {{}} | {{}} |", means)
    together = ", 4 at a time"
    of = {
        (method, how): [
            over_seeds(fmean, "indirect-batches", "simple", f"{setting} {kind}", method + how, capital)
            for kind in ("linear", "nonlinear")
        ]
        for method, setting, capital in (("CMES", "fixed", 40.0), ("MES", "fixed", 40.0), ("CMETS", "tree", 70.0))
        for how in ("", together)
    }
    says = "regrets of {} (linear) and {} (curved) in 10 rounds; one at a time it has {} and {} in 40."
    yield Quote(page, says, [*of["CMES", together], *of["CMES", ""]])
    yield Quote(page, "`QueryMES` has {} and {} in 10 rounds.", of["MES", together])
    says = "`CMETS` has {} and {} in 8 rounds; one at a time it has {} and {} in 30."
    yield Quote(page, says, [*of["CMETS", together], *of["CMETS", ""]])
    says = "CMETS has mean regrets of {} and {} after 8 rounds, linear and non-linear; one at a time {} and {} after 30"
    yield Quote("docs/papers.md", says, [*of["CMETS", together], *of["CMETS", ""]])


def _tables_of_regrets() -> Iterator[Quote]:
    """Medians, on the README with the worst seeds, at a capital of 20 queries of the target."""
    for label, method in REGRETS.items():
        found = [
            [over_seeds(of, "regret", "regret", problem, method, 20.0) for of in (median, max)] for problem in SYNTHETIC
        ]
        yield Quote("docs/benchmarks.md", f"| {label} |" + " {} |" * 5 + " {}", [middle for middle, _ in found])
        if method in ON_README:
            says = f"| {label} |" + " {} ({}) |" * 5 + " {} ({}"
            yield Quote("README.md", says, [value for both in found for value in both])
    page, methods = "docs/which-strategy.md", ("MFGPUCB", "MFGPUCB (no hedge)", "LogEI")
    currin = [over_seeds(of, "regret", "regret", "Currin", method, 20.0) for of in (median, max) for method in methods]
    says = "is {} with the approximation ({} without the hedge; ten seeds each) and {} with the target alone"
    yield Quote(page, says + " (LogEI; twenty seeds). The worst seeds are {}, {} and {}.", currin)
    methods = (*methods[:2], "MFGPUCB (paper)")
    ends = [over_seeds(median, "regret", "regret", "BadCurrin", method, 20.0) for method in methods]
    says = (
        "ends at {} there, at {} without the hedge. The published settings, which assume that the fidelities are close,"
    )
    yield Quote(page, f"{says} end at {{}}.", ends)
    letter, tabulated, sko, direct, logei, climbing = (
        [over_seeds(median, "regret", "regret", problem, method, 100.0) for problem in SYNTHETIC[:5]]
        for method in ("MFGPUCB (strict)", "MFGPUCB (paper)", "MF-SKO", "GP-UCB (DIRECT)", "LogEI (DIRECT)", "GP-UCB")
    )
    says = (
        "{} on Currin, {} on Bad Currin, {} on Park, {} on Borehole and {} on Hartmann-3D, where these have {}, {}, {},"
    )
    others = "by it GP-UCB has {}, {}, {}, {} and {}, LogEI {}, {}, {}, {} and {}, so"
    yield Quote("docs/papers.md", says + " {} and {}. DIRECT alone", [*letter, *tabulated])
    yield Quote("docs/papers.md", others, [*direct, *logei])
    yield Quote("docs/papers.md", "MF-SKO has {}, {}, {}, {} and {}. MF-NAIVE", sko)
    says = "medians are {}, {}, {}, {} and {} on the first five functions, those of GP-UCB {}, {}, {}, {} and {}"
    yield Quote("docs/benchmarks.md", says, [*letter, *direct])
    says = "by L-BFGS-B has {}, {}, {}, {} and {}, the published settings {}, {}, {}, {} and {}."
    yield Quote("docs/benchmarks.md", says, [*climbing, *tabulated])
    taken = []
    for method in ("MFGPUCB", "MF-GIBBON"):
        runs = [row for problem in SYNTHETIC for row in rows("regret")[problem, method, 20.0]]
        taken.append(median(float(row["decision_seconds"]) / float(row["queries"]) for row in runs))
    yield Quote("docs/benchmarks.md", "takes {} s, the median over runs to 20. MF-GIBBON's takes {} s", taken)


def _suite() -> Iterator[Quote]:
    """Counts of problems of the suite, and medians on some of them."""
    both = report.collect(RESULTS / "robust.csv")
    runs = report.apart(both)
    ours = "MFGPUCB"
    met = [name for name in PROBLEMS if (name, report.BASELINE, 20) in runs]  # elsewhere nothing else has run

    def near(method: str, names: Sequence[str], *capitals: int) -> list[float]:
        """On how many problems a median is near the smallest."""
        least = {(name, c): report.CLOSE * report.best(runs, name, c, method) for name in names for c in capitals}
        return [sum(report.middle(runs, name, method, c) <= least[name, c] for name in names) for c in capitals]

    def worse(capital: int) -> list[float]:
        """Where another method has a smaller median: how many times smaller."""
        ratios = [report.middle(runs, n, ours, capital) / report.best(runs, n, capital, ours) for n in met]
        return [ratio for ratio in ratios if ratio > 1]

    rows = {"**MFGPUCB**": ours, "Optuna's Gaussian process": "OptunaGP", "GP-UCB, target only": "GPUCB"}
    alone = "expected improvement, target only"
    rows |= {f"{alone}, ten first designs": "EI", f"{alone}, three first designs": "EI-3", "MF-NAIVE": "MFNaive"}
    for label, method in rows.items():
        seeds = [len(runs[name, method, 20]) for name in met]
        values = [*near(method, met, 20, 10, 5, 2), *sorted({min(seeds), max(seeds)})]
        counted = " or ".join(["{}"] * (len(values) - 4))
        yield Quote("README.md", f"| {label} | {{}} | {{}} | {{}} | {{}} | {counted} |", values)
    known = [name for name in met if name in DEVELOPMENT]
    unknown = [name for name in met if name not in known]
    says = "set with {} of the {} problems. On {} of the other {} its median"
    yield Quote("README.md", says, [len(known), len(met), *near(ours, unknown, 20), len(unknown)])
    says = "a smaller median on {} of the {} problems, up to {} times smaller"
    yield Quote("README.md", says, [len(worse(5)), len(met), max(worse(5))])
    yield Quote("README.md", "has a smaller median on {} problems. The default", [len(worse(20))])
    for says, names in {
        "noise at both fidelities: {} ({}), and Paciorek's function: {} ({})": ["noisy", "paciorek"],
        "a small network {} ({}), a cliff in four dimensions {} ({})": ["network", "cliff-4"],
        "Rosenbrock's function in five {} ({}), Levy's in five {} ({})": ["rosenbrock-5", "levy-5"],
    }.items():
        pairs = [(report.middle(runs, name, ours, 20), report.best(runs, name, 20, ours)) for name in names]
        yield Quote("README.md", says, [value for pair in pairs for value in pair])
    says = "the best on {} of {} at 2, on {} at 5, on {} at 10 and on {} at 20. MF-NAIVE is so on {}, {}, {} and {}"
    first, *others = near(ours, met, 2, 5, 10, 20)
    yield Quote("docs/benchmarks.md", says, [first, len(met), *others, *near("MFNaive", met, 2, 5, 10, 20)])
    says = "the default's loss is {}, {}, {} and {}, MF-NAIVE's {}, {}, {} and {}"
    pairs = [(m, c) for m in (ours, "MFNaive") for c in (2, 5, 10, 20)]
    yield Quote(
        "docs/benchmarks.md", says, [geometric_mean(report.middle(runs, n, m, c) for n in met) for m, c in pairs]
    )
    naive = [sum(report.middle(runs, n, "MFNaive", c) < report.middle(runs, n, ours, c) for n in met) for c in (5, 20)]
    says = "on {} of the {} problems of the suite, at 20 on {}"
    yield Quote("docs/which-strategy.md", says, [naive[0], len(met), naive[1]])
    yield Quote("README.md", "On {} of these MF-NAIVE's is smaller", naive[:1])
    bare, sides = "MFGPUCB-unhedged", list[list[float]]()
    for capital in (10, 20):
        few = len(runs[met[0], bare, capital])
        pairs = [[median(r.loss for r in runs[n, m, capital][:few]) for m in (ours, bare)] for n in met]
        sides.append([sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)])
    says = "larger on {} and smaller on {} at 10, larger on {} and smaller on {} at 20"
    yield Quote("docs/benchmarks.md", says, [*sides[0], *sides[1]])
    page, says = "docs/benchmarks.md", "loss of {}, worst {} (ten seeds; Optuna's Hyperband {}, worst {})"
    both_ends = [of(runs, "noisy", m, 20) for m in (ours, "OptunaHyperband") for of in (report.middle, report.worst)]
    yield Quote(page, says, both_ends)

    def behind(method: str) -> list[int]:
        """At 2, 5, 10 and 20 the number of problems with a worst seed that is not near another method's."""
        ends = [
            [(report.worst(runs, n, ours, c), report.worst(runs, n, method, c)) for n in met] for c in (2, 5, 10, 20)
        ]
        return [sum(a > report.CLOSE * b for a, b in pairs) for pairs in ends]

    for says, method in {"worst of the first row on": "EI", "the second on": "EI-3", "MF-NAIVE on": "MFNaive"}.items():
        yield Quote("docs/benchmarks.md", f"{says} {{}}, {{}}, {{}} and {{}}", behind(method))
    busy = [ours, *report.IN_FLIGHT]
    for label, name in {"Forrester": "forrester", "Hartmann-3D": "hartmann3", "a useless cheap": "useless"}.items():
        rest = " fidelity" * (name == "useless") + " |" + " {} ({}) |" * len(busy)
        found = [of(both, name, m, 20) for m in busy for of in (report.middle, report.worst)]
        yield Quote("docs/how-to/batches.md", f"| {label}{rest}", found)
    pairs = [[report.middle(both, n, f"{m}, 16 workers", 20) for m in (ours, report.BASELINE)] for n in met]
    counts = [sum(a <= report.CLOSE * b for a, b in pairs), len(pairs), sum(a < b for a, b in pairs)]
    says = "times LogEI's on {} of the {} problems of the suite, and smaller on {}"
    yield Quote("docs/how-to/batches.md", says, counts)
    page = "docs/which-strategy.md"
    says = "another method is ahead on {} of {} problems; with ten, on {} ("
    yield Quote(page, says, [len(worse(5)), len(met), len(worse(10))])
    for capital, says in {
        20: "at 20 is {} (ten seeds), against {} for expected improvement",
        5: "has learned this, it is {} against {}.",
    }.items():
        found = [report.middle(runs, "useless", method, capital) for method in (ours, report.BASELINE)]
        yield Quote(page, says, found)
    yield Quote(page, "at a median loss of {} at 20 (ten seeds", [report.middle(runs, "noisy", ours, 20)])


def _doors() -> Iterator[Quote]:
    """The Optuna sampler and the scikit-learn search beside their peers; trainings that continue; models of a part."""
    page, methods = "docs/how-to/ax-and-optuna.md", ("Sampler", "MFGPUCB", "GPSampler", "TPESampler")

    def regrets(problem: str, capital: float) -> list[float]:
        some = [m for m in methods if m != "MFGPUCB" or capital < 100]
        return [over_seeds(median, "doors-samplers", "regret", problem, method, capital) for method in some]

    labels = {"Levy-4D": "Levy, 4 parameters", "Shekel-4D": "Shekel, 4 parameters", "Camel": "Six-hump camel"}
    labels |= {"Dixon-Price-5D": "Dixon-Price, 5 parameters", "Styblinski-Tang-8D": "Styblinski-Tang, 8 parameters"}
    for problem in samplers.FUNCTIONS:
        found = [part for n in (20.0, 40.0, 100.0) for part in regrets(problem, n)]
        four = "{} | {} | {} | {} |"
        says = f"| {labels.get(problem, problem)} | 20 | {four} | | 40 | {four} | | 100 | {{}} | | {{}} | {{}} |"
        yield Quote(page, says, found)
    searches = [f"{name}SearchCV" for name in ("MultiFidelity", "HalvingRandom", "Randomized")]
    for says, problem in {
        "gradient boosting {} (halving {}, random {})": "gradient boosting, diabetes",
        "kernel ridge {} ({}, {})": "kernel ridge, diabetes",
    }.items():
        found = [over_seeds(median, "doors-searches", "cross_validated", problem, name, 10.0) for name in searches]
        yield Quote(page, says, found)
    ends = [("continues", 162.0), ("anew", 162.0), ("anew", 324.0)]
    found = [over_seeds(median, "continuing", "loss", "digits", *end) for end in ends]
    says = "is {} if trainings continue (`continues=True`), and {} if each begins anew. Beginning anew takes"
    says += " 324 epochs to reach {}."
    yield Quote("docs/how-to/trainings.md", says, found)
    for says, problem in {
        "on Currin (median regrets {} and {})": "Currin",
        "Hartmann-3D ({} and {})": "Hartmann3",
    }.items():
        found = [over_seeds(median, "limits", "regret", problem, method, 300.0) for method in ("100", "0")]
        yield Quote("docs/how-to/long-runs.md", says, found)


def _choices_and_limits() -> Iterator[Quote]:
    """The tables of tunings with choices, of continuous fidelities, and of limits on outcomes."""
    methods = ("Random", "OptunaTPE", "OptunaHyperband", "SMACMultiFidelity")
    for says, problem in (
        ("| a network, by epochs | {} | {} (TPE with Hyperband) | {}, the best |", "network"),
        ("| a support vector machine, by its kernel | {} | {} (TPE and SMAC3) | {}, as TPE and SMAC3 |", "svm"),
        ("| boosted trees | {} | {} (TPE) | {}, the best |", "trees"),
    ):
        best = max(over_seeds(median, "mixed", "value", problem, method, 20.0) for method in methods)
        own = [over_seeds(of, "mixed", "value", problem, "MFGPUCB", 20.0) for of in (median, min)]
        yield Quote("docs/how-to/spaces.md", says, [own[0], best, own[1]])
    five = [f"Continuous{name}" for name in ("Currin", "Branin", "Hartmann3", "Hartmann6", "Borehole")]
    rivals = {"`BOCA`": "BOCA", "dragonfly": "dragonfly", "`MFGPUCB` on three levels": "MFGPUCB, 3 levels"}
    for label, method in rivals.items():
        medians = [over_seeds(median, "continuous", "regret", problem, method, 20.0) for problem in five]
        yield Quote("docs/how-to/spaces.md", f"| {label} |" + " {} |" * 5, medians)

    def both(of: Callable[[list[float]], float], problem: str, capital: float) -> list[float]:
        return [over_seeds(of, "continuous", "regret", problem, method, capital) for method in ("BOCA", "dragonfly")]

    worst = [*both(max, five[3], 20.0), over_seeds(max, "continuous", "regret", five[3], "MFGPUCB, 3 levels", 20.0)]
    says = "except on Hartmann-6D ({} against {}). There the worst seed of `MFGPUCB` has {}. At"
    yield Quote("docs/how-to/spaces.md", says, worst)
    early = [*both(median, five[3], 10.0), *both(max, five[1], 10.0)]
    says = "on Hartmann-6D ({} against {}), and its worst seed is behind on Branin ({} against {})"
    yield Quote("docs/how-to/spaces.md", says, early)
    ours, theirs = "| `MFGPUCB` |" + " {} ({}) |" * 4, "| constrained LogEI |" + " {} ({}) |" * 3 + " {} (two seeds"
    for says, method in ((ours, "MFGPUCB"), (theirs, "constrained LogEI")):
        found = list[float]()
        for problem in ("ConstrainedHartmann", "PressureVessel", "SpeedReducer", "WeldedBeamSO"):
            seeds = [float(row["best"] or math.inf) for row in rows("constrained")[problem, method, 15.0]]
            found += [median(seeds), max(seeds)]
        yield Quote("docs/how-to/outcomes.md", says, [value for value in found if value < math.inf])


def _scale() -> Iterator[Quote]:
    page, found = "docs/scale.md", measured("width")
    model = [64 * row["seconds_a_query"] for row in found["decisions"]["MFGPUCB"][1:]]
    says = "takes {} s of processor time with 64 observations, {} s with 128 and {} s with 192"
    yield Quote(page, says, model)
    rows: dict[str, list[float]] = {}
    for r in found["idle"]:  # the shortest evaluations first
        if r["strategy"] == "MFGPUCB" or r["asked"] == "ahead":
            rows.setdefault(f"| {r['strategy']} | {r['asked']} | {r['workers']} |", []).append(100 * r["idle"])
    for row, values in rows.items():
        yield Quote(page, row + " {} % |" * 4, values)
    for row in found["scale"]:
        values = [row["ms_an_evaluation"], row["resident_mb"], row["journal_mb"]]
        yield Quote(page, f"| {row['observations']:,} | {{}} ms | {{}} MB | {{}} MB |", values)
    names = {"processes": "Processes", "dask": "Dask", "ray": "Ray", "submitit": "submitit", "slurm": "Slurm"}
    for engine, row in measured("kills")["engines"].items():
        values = [row[name] for name in ("kills", "troubles", "evaluations", "in_flight", "repeated", "lost", "twice")]
        yield Quote("docs/how-to/clusters.md", f"| {names[engine]} |" + " {} |" * 7, values)


def check(quote: Quote, text: str) -> Iterator[str]:
    """What is wrong with a quote on a page."""
    parts = [r"\s+".join(map(re.escape, part.split(" "))) for part in quote.says.split("{}")]
    found = re.search(FIGURE.join(parts), text)
    if found is None:
        yield f"{quote.page}: there is no {quote.says!r}"
        return
    for shown, value in zip(found.groups(), quote.values, strict=True):
        if not rounds_to(value, shown):
            yield f"{quote.page}: {quote.says!r} has {shown}, the results have {value:.6g}"


def rounds_to(value: float, shown: str) -> bool:
    """Whether a figure is a value rounded to the digits that it has."""
    figure = Decimal(shown.replace(",", ""))
    if figure == 0 and "." not in shown:
        return abs(value) <= NOTHING
    exponent = figure.as_tuple().exponent
    assert isinstance(exponent, int)
    return math.isfinite(value) and abs(Decimal(value) - figure) <= Decimal("0.501").scaleb(exponent)


def wrong() -> list[str]:
    """What the pages say and the results do not."""
    return [said for quote in quotes() for said in check(quote, (ROOT / quote.page).read_text("utf-8"))]
