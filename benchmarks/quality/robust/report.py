"""``robust.md`` and ``robust-profile.png`` (how often a method is within a factor of the best)."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from benchmarks.common import markdown, tidy
from benchmarks.quality.robust.peers import PEERS
from benchmarks.quality.robust.problems import FLOOR, HELD_OUT, PROBLEMS, loss, noisy
from benchmarks.study import read

CAPITALS = (2, 5, 10, 20)
IN_FLIGHT = {f"{name}, {count} workers": (name, count) for name in ("MFGPUCB", "EI") for count in (4, 16)}
"""Simulated workers that are never waited for: of which strategy, and how many."""
METHODS = (
    *("MFGPUCB", "MFGPUCB-independent", "EI", "EI-3", "GPUCB", "MFNaive", "MFGIBBON", "Random"),
    *IN_FLIGHT,
    *PEERS,
)

CLOSE = 1.1
"""A factor within which two losses count as equal."""
BASELINE = "EI"
"""Whose worst seed nobody's should be above."""


class Run(NamedTuple):
    """What a run came to at one capital.

    ``loss`` of the recommended design, ``lucky`` that of the best observation, the same where nothing is noisy;
    ``failed``: capital spent on evaluations that failed; ``seconds`` of all decisions until then.
    """

    loss: float
    lucky: float
    failed: float
    seconds: float
    queries: int


Runs = dict[tuple[str, str, int], list[Run]]
"""By problem, method and capital: a run for each seed."""


def collect(path: Path, held_out: bool = True) -> Runs:
    """The runs in a file."""
    found: Runs = defaultdict(list)
    for row in read(path):
        name = row["problem"]
        if name in HELD_OUT and not held_out:
            continue
        losses = (loss(name, float(row[column])) for column in ("recommended", "regret"))
        rest = float(row["failed"]), float(row["decision_seconds"]), int(row["queries"])
        found[name, row["method"], int(row["capital"])].append(Run(*losses, *rest))
    return found


def methods_of(runs: Runs) -> list[str]:
    """The methods there are: the default under its several names first, then the others as they are listed."""
    there = list(dict.fromkeys(method for _, method, _ in runs))
    return sorted(there, key=lambda method: METHODS.index(method) if method in METHODS else 0.5)


def problems_of(runs: Runs) -> list[str]:
    """The problems there are, in the order of the suite."""
    return [name for name in PROBLEMS if any(name == problem for problem, _, _ in runs)]


def default(method: str) -> bool:
    """Whether it is the default, under one of the names that ``--label`` has given it."""
    return method == "MFGPUCB" or method not in METHODS


def middle(runs: Runs, *key: Any, of: Callable[[list[float]], float] = median) -> float:
    """The median loss of a problem, a method and a capital; NaN where nothing has run."""
    return of([run.loss for run in runs[key]]) if key in runs else math.nan


worst = partial(middle, of=max)
"""The largest loss of any seed."""


def best(runs: Runs, problem: str, capital: int, method: str = "") -> float:
    """The smallest median of all methods; of a method and its rivals, which other versions of the default are not."""
    there = [other for other in methods_of(runs) if (problem, other, capital) in runs]
    same = default(method) if method else False
    return min(middle(runs, problem, m, capital) for m in there if m == method or not (same and default(m)))


def table(runs: Runs) -> str:
    """Everything as Markdown."""
    flights = {key: found for key, found in runs.items() if key[1] in IN_FLIGHT}
    runs = apart(runs)
    parts = ["# Losses of every method on the robust suite", ""]
    parts += ["The loss is the regret, divided by the median regret of 1,000 random designs at the target. It is at"]
    parts += [f"least {FLOOR:g}. Where the target is noisy, it is the loss of the recommended design, without noise."]
    parts += ["Entries are the median (worst seed). The capital is in units of the target's cost, and includes all"]
    parts += ["queries. Bold: no other median is smaller.", ""]
    parts += [*summary(runs), *versions(runs), *several_workers(runs, flights)]
    for name in problems_of(runs):
        parts += ["", f"## {name}" + " (held out)" * (name in HELD_OUT), ""]
        parts += one_table(runs, name)
    return "\n".join(parts) + "\n"


def apart(runs: Runs) -> Runs:
    """The runs with one evaluation at a time."""
    return {key: found for key, found in runs.items() if key[1] not in IN_FLIGHT}


def several_workers(runs: Runs, flights: Runs) -> list[str]:
    """The same capital with several evaluations in flight; nothing where none was run."""
    if not flights:
        return []
    rows = [[base, *(m for m, (name, _) in IN_FLIGHT.items() if name == base)] for base in ("MFGPUCB", BASELINE)]
    methods = [method for row in rows for method in row]
    lines = ["", "## Asynchronous workers", ""]
    lines += ["Median (worst seed) at 20, number of seeds. Run times are random, with the cost as their centre and a"]
    lines += ["standard deviation of 0.3 of their logarithm.", ""]
    both, body = {**runs, **flights}, []
    for name in problems_of(flights):
        keys = [(name, m, 20) for m in methods]
        cells = [f"{middle(both, *k):.2g} ({worst(both, *k):.2g}), {len(both[k])}" if k in both else "" for k in keys]
        body.append([name, *cells])
    return [*lines, *markdown(["problem", *methods], body)]


def summary(runs: Runs) -> list[str]:
    """One row a method over all problems."""
    head = ["method", "problems", "mean at 10", "mean at 20", "near the best at 10", "at 20"]
    head += ["most above the best at 20", f"worst seed above {BASELINE}'s", "seconds a decision"]
    body = []
    for method in methods_of(runs):
        names = [name for name in problems_of(runs) if (name, method, 20) in runs]
        if not names:
            continue
        means, near = [], []
        for capital in (10, 20):
            medians = [middle(runs, name, method, capital) for name in names]
            means.append(f"{math.exp(fmean(map(math.log, medians))):.2g}")
            ratios = [value / best(runs, name, capital, method) for value, name in zip(medians, names, strict=True)]
            near.append(str(sum(ratio <= CLOSE for ratio in ratios)))
        above = sum(worst(runs, n, method, 20) > CLOSE * worst(runs, n, BASELINE, 20) for n in names)
        compared = any((name, BASELINE, 20) in runs for name in names)
        last = [run for key, found in runs.items() if key[1:] == (method, 20) for run in found]
        seconds = median(run.seconds / max(run.queries, 1) for run in last)
        cells = [method, str(len(names)), *means, *near, f"{max(ratios):.3g}×", str(above) if compared else ""]
        body.append([*cells, f"{seconds:.3f}"])
    lines = [*markdown(head, body), ""]
    lines += ["Mean: the geometric mean of the medians. Near the best: the number of problems on which the median is"]
    lines += [f"at most {CLOSE} times the smallest one. The default is not compared with its own other versions."]
    return lines


def versions(runs: Runs) -> list[str]:
    """The default under its names, each beside the first of them; nothing where there is one only."""
    names = [method for method in methods_of(runs) if default(method)]
    if len(names) < 2:
        return []
    first, *others = names
    lines = ["", "## The default and its other versions", ""]
    lines += [f"Median loss divided by that of `{first}`, same seeds.", ""]
    body = []
    for name in problems_of(runs):
        pairs = [[runs.get((name, m, c), []) for m in (version, first)] for version in others for c in CAPITALS]
        few = [[run.loss for run in some[: min(map(len, both))]] for both in pairs for some in both]
        medians = [median(losses) if losses else math.nan for losses in few]
        ratios = [of / by for of, by in zip(medians[::2], medians[1::2], strict=True)]
        if not all(map(math.isnan, ratios)):
            body.append([name, *("" if math.isnan(ratio) else f"{ratio:.2g}" for ratio in ratios)])
    return lines + markdown(["problem", *(f"{m} at {c}" for m in others for c in CAPITALS)], body)


def one_table(runs: Runs, name: str) -> list[str]:
    """One row a method on one problem."""
    there = [method for method in methods_of(runs) if any((name, method, c) in runs for c in CAPITALS)]
    is_noisy = noisy(PROBLEMS[name]())
    fails = any(run.failed for (problem, _, _), found in runs.items() for run in found if problem == name)
    heads = ["method", "seeds", *(f"at {c}" for c in CAPITALS)]
    heads += ["best observation at 20"] * is_noisy + ["capital that failed"] * fails
    body = []
    for method in there:
        cells = [method, str(max(len(runs.get((name, method, c), [])) for c in CAPITALS))]
        for key in ((name, method, c) for c in CAPITALS):
            mark = "**" if key in runs and middle(runs, *key) <= best(runs, name, key[-1]) else ""
            text = f"{mark}{middle(runs, *key):.2g}{mark} ({worst(runs, *key):.2g})"
            cells.append(text if key in runs else "")
        last = runs.get((name, method, CAPITALS[-1]), [])
        for wanted, column in ((is_noisy, "lucky"), (fails, "failed")):
            if wanted:
                cells.append(f"{median(getattr(run, column) for run in last):.2g}" if last else "")
        body.append(cells)
    return markdown(heads, body)


def styles_of(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How each is drawn: the default thick, the baseline dark, the others thin."""
    thin = [method for method in METHODS if not default(method)]
    thick = iter(("#d55e00", "#0072b2", "#009e73", "#cc79a7") * len(methods))
    found: dict[str, dict[str, Any]] = {}
    for method in methods:
        if default(method):
            found[method] = {"color": next(thick), "linewidth": 2.4, "zorder": 4}
        elif method == BASELINE:
            found[method] = {"color": "#222222", "linewidth": 1.6, "zorder": 3}
        else:
            found[method] = {"color": colormaps["tab20"](thin.index(method) % 20), "linewidth": 1.0, "zorder": 2}
    return found


def profile(runs: Runs) -> Figure:
    """The share of runs whose loss is within a factor of the best median on their problem."""
    names, methods = problems_of(runs), methods_of(runs)
    styles = styles_of(methods)
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    for axes, capital in zip(figure.subplots(1, 2, sharey=True), (10, 20), strict=True):
        for method in methods:
            there = [name for name in names if (name, method, capital) in runs]
            if not there:
                continue
            share: dict[float, float] = defaultdict(float)
            for name in there:
                least, found = best(runs, name, capital), runs[name, method, capital]
                for run in found:
                    share[max(run.loss / least, 1.0)] += 1 / len(found) / len(there)
            ratios = sorted(share)
            heights = np.cumsum([share[ratio] for ratio in ratios])
            label = method + (f" ({len(there)} of {len(names)} problems)" if len(there) < len(names) else "")
            axes.step([1, *ratios, 1e5], [0, *heights, 1], where="post", label=label, **styles[method])
        axes.set(xscale="log", xlim=(0.95, 3e4), ylim=(0, 1.02), title=f"capital {capital}")
        tidy(axes)
    figure.supxlabel("loss, in multiples of the smallest median of any method")
    figure.supylabel("share of runs, problems weighed alike")
    figure.legend(*figure.axes[-1].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return figure


def write(path: Path, held_out: bool = True) -> None:
    """Write the table and the picture beside the results."""
    runs = collect(path, held_out)
    path.with_suffix(".md").write_text(text := table(runs))
    profile(apart(runs)).savefig(path.with_name(f"{path.stem}-profile.png"), dpi=110)
    print(text)
