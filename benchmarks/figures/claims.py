"""The comparisons that the papers make, made with the rows of the results: the tables of ``docs/papers.md``.

A claim is that one method is ahead of others. It is looked at at every capital for which the file has rows of both, by
the means over the seeds; two methods are level where these differ by at most the larger of their standard errors.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import NamedTuple

from benchmarks.common import RESULTS, markdown, standard_error
from benchmarks.quality.batch.report import collect, later_average
from benchmarks.study import grouped, read

Curves = dict[str, dict[float, tuple[float, float]]]
"""Mean and standard error by method and capital."""
BETWEEN = re.compile(r"(<!-- compared: ([\w-]+) -->).*?(<!-- end -->)", re.DOTALL)
HEAD = ("figure", "comparison", "rests on", "ahead, level, behind", "ours (best other) by capital", "holds")


class Claim(NamedTuple):
    """That ``ours`` has less regret than ``others``, no more where it is to be ``comparable``, or larger values where
    these are ``larger`` the better.

    ``column`` is one of the file ``NAME.csv``, ``anchor`` the heading of ``NAME.md`` with the same numbers; ``shown``
    are the capitals at which they are given.
    """

    figure: str
    says: str
    name: str
    problem: str
    column: str
    ours: str
    others: tuple[str, ...]
    anchor: str = ""
    shown: tuple[float, ...] = ()
    larger: bool = False
    comparable: bool = False


MULTI = ("GP-UCB", "LogEI", "DiRect", "MF-NAIVE", "MF-SKO")
BY_DIRECT = ("GP-UCB (DIRECT)", "LogEI (DIRECT)", "DiRect")
REAL_FIGURES = {"SVM": "Fig. 4", "SALSA": "Fig. 4", "ViolaJones": "Fig. 4", "Supernova": "Fig. 5"}
REAL = ("GP-UCB", "EI", "PI", "DiRect", "MF-NAIVE", "MF-SKO")
SYNTHETIC = {"Currin": "8", "Park": "8", "Borehole": "3", "Hartmann3": "3", "Hartmann6": "8"}
BATCHES = {"matern": "Fig. 2 a, e", "peptides": "Fig. 2 b, f", "electrodes": "Fig. 2 c, g"}
NAIVE, MATCHING = ("NRB-UCB", "NTB-UCB"), ("SM-UCB", "SM-MEI")
HEADINGS = {"average": "average regret", "later": "average regret after the first batch", "minimum": "minimum regret"}
WINDOWS = {"linear": "linear", "nonlinear": "non-linear"}

CLAIMS: dict[str, list[Claim]] = {
    "mf-gp-ucb": [
        *(
            Claim(figure or f"Fig. {of}", f"least {kind} regret, {name}{how}", "regret", name, column, method, others)
            for figure, kind, column in (("", "simple", "regret"), ("Fig. 10", "cumulative", "average"))
            for name, of in SYNTHETIC.items()
            for method, how, others in (
                ("MFGPUCB (paper)", "", MULTI),
                ("MFGPUCB (strict)", ", to the letter", MULTI),
                ("MFGPUCB (strict)", ", to the letter, GP-UCB and LogEI by DIRECT", BY_DIRECT),
            )
            if others is MULTI or name != "Hartmann6"
        ),
        *(
            Claim(figure, f"largest value, {name}{how}", "real", name, "best", method, REAL, larger=True)
            for name, figure in REAL_FIGURES.items()
            for method, how in {"MF-GP-UCB (published)": "", "MF-GP-UCB (tabulated)": ", one maximiser"}.items()
        ),
    ],
    "mf-ucb": [
        Claim("Fig. 2", f"less regret than UCB, problem {n}", "bandit", str(n), "mean_regret", "MF-UCB", ("UCB",))
        for n in range(1, 5)
    ],
    "gp-bucb": [
        Claim(figure, f"{HEADINGS[column]}, {says}", f"batch/{name}", name, column, "GP-BUCB", others, comparable=level)
        for name, figure in BATCHES.items()
        for says, level, others, columns in (
            ("less than naive batches", False, NAIVE, ("average", "minimum")),
            ("no more than simulation matching", True, MATCHING, ("average", "minimum")),
            ("no more than one at a time", True, ("GP-UCB",), ("average", "later", "minimum")),
        )
        for column in columns
    ],
    "indirect": [
        *(
            Claim("Fig. 1", f"least {regret} regret, {shown} windows{whose}", "indirect", f"fixed {kind}", regret,
                  method, ("MES", "UCB", "EI"), f"#fixed-{kind}-{regret}-regret", (5, 10, 20, 50, 100))
            for method, whose in {"CMES, strict": "", "CMES": ", our default"}.items()
            for kind, shown in WINDOWS.items()
            for regret in ("simple", "instant")
        ),
        *(
            Claim("Fig. 2", f"least simple regret, {shown} windows, {what}", "indirect", f"{setting} {kind}", "simple",
                  "CMETS", ("CMES", "MES", "UCB", "EI"), f"#{setting}-{kind}-simple-regret", (7, 14, 17.5, 35, 70))
            for setting, what in {"tree": "known", "learned": "learned"}.items()
            for kind, shown in WINDOWS.items()
        ),
    ],
}  # fmt: skip
"""By paper."""


@cache
def curves(name: str, problem: str, column: str) -> Curves:
    """What the rows of a file say of a problem."""
    found: Curves = defaultdict(dict)
    if name == "bandit":
        for row in read(RESULTS / "bandit-regret.csv"):
            if row["problem"] == problem:
                found[row["strategy"]][float(row["capital"])] = float(row[column]), float(row["standard_error"])
    elif column == "later":
        for (_, method), runs in collect(RESULTS / f"{name}.csv").items():
            found[method][200.0] = summary([later_average(run) for run in runs.values()])
    else:
        last = 200.0 if name.startswith("batch") else 0.0
        for (of, method, capital), rows in grouped(RESULTS / f"{name}.csv").items():
            values = [float(row[column]) for row in rows if row[column]]
            if of == problem and values and capital >= last:
                found[method][capital] = summary(values)
    return found


def summary(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error; infinities and NaN count as such."""
    error = standard_error(values) if len(values) > 1 and all(map(math.isfinite, values)) else 0.0
    return fmean(values), error


def compared(claim: Claim) -> dict[float, tuple[str, float, str, float]]:
    """At each capital: ``"ahead"``, ``"level"`` or ``"behind"``, our mean, and the best other method with its mean."""
    sign, found = -1.0 if claim.larger else 1.0, {}
    known = curves(claim.name, claim.problem, claim.column)
    for capital, (mean, error) in sorted(known[claim.ours].items()):
        others = {label: known[label][capital] for label in claim.others if capital in known.get(label, {})}
        if not others:
            continue
        best = min(others, key=lambda label: sign * others[label][0])
        apart = sign * (others[best][0] - mean)
        level = abs(apart) <= max(error, others[best][1])
        found[capital] = ("level" if level else "ahead" if apart > 0 else "behind"), mean, best, others[best][0]
    return found


def holds(claim: Claim) -> str:
    """``"yes"``: somewhere ahead and nowhere behind; ``"no"``: nowhere ahead; else ``"in part"``. Where it is enough to
    be ``comparable``, level is as good as ahead."""
    found = {state for state, *_ in compared(claim).values()}
    good = {"ahead", "level"} if claim.comparable else {"ahead"}
    return "no" if not found & good else "in part" if "behind" in found else "yes"


def row(claim: Claim) -> list[str]:
    """The cells of a claim."""
    found = compared(claim)
    counts = [sum(state == wanted for state, *_ in found.values()) for wanted in ("ahead", "level", "behind")]
    shown = [capital for capital in claim.shown or [*found][-5:] if capital in found]
    shown = shown[-1:] if claim.name == "bandit" else shown
    cells = [
        f"{capital:g}: {_short(mean)} ({best} {_short(its)})"
        for capital in shown
        for _, mean, best, its in [found[capital]]
    ]
    anchor = claim.anchor or ("" if claim.name.startswith(("batch", "bandit")) else f"#{claim.problem.lower()}")
    page = f"{claim.name}.md"
    link = f"[{page}](../benchmarks/results/{page}{anchor})"
    return [claim.figure, claim.says, link, ", ".join(map(str, counts)), "; ".join(cells), holds(claim)]


def _short(value: float) -> str:
    return "0" if abs(value) < 1e-12 else f"{value:.3g}" if math.isfinite(value) else "none"


def drawn(text: str) -> str:
    """A page with its tables of comparisons."""

    def table(found: re.Match[str]) -> str:
        return "\n".join([found[1], *markdown(HEAD, map(row, CLAIMS[found[2]]), 6), "", found[3]])

    return BETWEEN.sub(table, text)
