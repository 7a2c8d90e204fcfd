"""Does a cheap simulation pay? Our loss over that of the best method at the target alone, by what the cheap one is.

    python -m benchmarks.quality.fidelity_map

A study (:mod:`benchmarks.study`): ``fidelity_map.csv``, ``.md`` and ``.png``. The target is a smooth random function of
two parameters, another one for each seed. A problem is ``KIND R``: what the cheap fidelity does to it, and how many
times cheaper it is. ``correlation c``: ``c f + sqrt(1 - c^2) h`` with an ``h`` drawn alike. ``shift``: the same at a
place 0.1 aside in each parameter; ``stretch``: at 0.7 of the distance from the middle; ``smooth``: without its upper
half of frequencies; ``noise``: with noise of half the deviation of ``f``; ``other optimum``: its highest peak is cut
off. The loss is the regret over that of the median random design, at least 1e-4, and the capital in target costs.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

import torch
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.common import markdown
from benchmarks.study import Job, Look, Row, Study, grouped
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import Problem
from mfbo_torch.problems.noise import drawn
from mfbo_torch.space import Space
from mfbo_torch.strategies import GPUCB, MFGPUCB, ExpectedImprovement

RATIOS = (2, 10, 100, 1000)
KINDS = (
    *(f"correlation {c}" for c in (0, 0.5, 0.8, 0.9, 0.95, 1)),
    *("shift", "stretch", "smooth", "noise", "other optimum"),
)
CAPITALS = (2, 5, 10, 20)
ALONE = ("EI", "GPUCB")
"""What looks at the target alone."""
FLOOR, WAVES, LENGTHSCALE = 1e-4, 64, 0.2


class Wave:
    """A draw of a process with an RBF kernel, deviation 1, by random Fourier features (Rahimi & Recht 2007)."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.frequencies = torch.randn(WAVES, 2, generator=generator, dtype=torch.double) / LENGTHSCALE
        self.phases = 2 * math.pi * torch.rand(WAVES, generator=generator, dtype=torch.double)
        self.weights = torch.randn(WAVES, generator=generator, dtype=torch.double) * math.sqrt(2 / WAVES)
        norms = self.frequencies.norm(dim=-1)
        self.low = norms <= norms.median()

    def __call__(self, X: Tensor, smooth: bool = False) -> Tensor:
        parts = self.weights * (X @ self.frequencies.T + self.phases).cos()
        return (parts[:, self.low] if smooth else parts).sum(-1)


class Pair(Problem):
    """A random function and what is cheap of it; ``trial`` says which one."""

    def __init__(self, kind: str, ratio: int) -> None:
        self.kind, self.space = kind, Space.box([[0.0, 0.0], [1.0, 1.0]], [1.0, float(ratio)])
        self.noise = (0.5, 0.0) if kind == "noise" else ()
        self.made = -1
        self.prepare()

    def prepare(self) -> None:
        """Draw the functions of this trial, once."""
        number = self.trial or 0
        if self.made == number:
            return
        self.made, self.f, self.h = number, Wave(2 * number), Wave(2 * number + 1)
        designs = torch.quasirandom.SobolEngine(2, seed=0).draw(2**14, dtype=torch.double)
        values = self.f(designs)
        self.best, self.middle = designs[values.argmax()], values.median().item()
        self.top = self.optimum = self._climbed(self.best)

    def _climbed(self, start: Tensor) -> float:
        """The largest value near a design."""
        x = start.clone().requires_grad_()
        search = torch.optim.LBFGS([x], max_iter=50, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            search.zero_grad()
            below = -self.f(x.clamp(0.0, 1.0)[None])[0]
            below.backward()
            return below

        search.step(closure)
        with torch.no_grad():
            return self.f(x.clamp(0.0, 1.0)[None]).item()

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        self.prepare()
        X = torch.tensor([x], dtype=torch.double)
        return (self.f(X) if fidelity else self.cheap(X)).item()

    def cheap(self, X: Tensor) -> Tensor:
        """What the cheap fidelity says, without noise."""
        match self.kind:
            case "shift":
                return self.f(X + 0.1)
            case "stretch":
                return self.f(0.5 + 0.7 * (X - 0.5))
            case "smooth":
                return self.f(X, smooth=True)
            case "noise":
                return self.f(X)
            case "other optimum":
                near = (-(X - self.best).square().sum(-1) / 2 / LENGTHSCALE**2).exp()
                return self.f(X) - 1.5 * (self.top - self.middle) * near
        c = float(self.kind.split()[-1])
        return c * self.f(X) + math.sqrt(1 - c * c) * self.h(X)

    def observe(self, x: Sequence[float], fidelity: int, number: int) -> float:
        value = self.evaluate(x, fidelity)
        return value + self.noise[fidelity] * drawn(self.trial, number) if self.noise else value

    def loss(self, value: float) -> float:
        """The regret of a value over that of the median design."""
        return max((self.top - value) / (self.top - self.middle), FLOOR)


def play(job: Job, problem: Pair, capital: float) -> History:
    problem.prepare()
    return run(problem, STUDY.methods[job.method](job.seed), capital, progress=False)


def measured(look: Look) -> Row:
    problem = look.problem
    assert isinstance(problem, Pair)
    best = look.history.best(problem.space.target)
    cheap = sum(record.query.fidelity == 0 for record in look.history)
    value = problem.middle if best is None or best.value is None else best.value
    return f"{problem.loss(value):.5g}", cheap, len(look.history) - cheap


def plan(problem: str, method: str, seed: int) -> list[tuple[int, ...]]:
    """What looks at the target alone runs on one of the problems: it is the same on all of them."""
    return [CAPITALS] if method not in ALONE or problem == f"{KINDS[0]} {RATIOS[0]}" else []


def table(path: Path, capital: float) -> list[list[float]]:
    """For each kind and ratio our median loss over the smallest median at the target alone; NaN where nothing ran."""
    rows = grouped(path)

    def middle(problem: str, method: str) -> float:
        found = rows.get((problem, method, capital))
        return median(float(row["loss"]) for row in found) if found else math.nan

    peer = min(middle(f"{KINDS[0]} {RATIOS[0]}", method) for method in ALONE)
    return [[middle(f"{kind} {ratio}", "MFGPUCB") / peer for ratio in RATIOS] for kind in KINDS]


def report(path: Path) -> None:
    """A table for each capital, and one picture."""
    lines = ["# Does a cheap fidelity pay?", ""]
    lines += ["Our median loss over the smallest median of LogEI and GP-UCB at the target alone, at equal capital (in"]
    lines += ["target costs). Below 1 the cheap fidelity pays. A row is what the cheap fidelity is, a column how many"]
    lines += ["times cheaper it is than the target.", ""]
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    panels = figure.subplots(1, len(CAPITALS), sharey=True)
    for axes, capital in zip(panels, CAPITALS, strict=True):
        cells = table(path, capital)
        body = [[kind, *(f"{cell:.2g}" for cell in row)] for kind, row in zip(KINDS, cells, strict=True)]
        heads = [f"1 : {ratio:,}" for ratio in RATIOS]
        lines += [f"## Capital {capital}", "", *markdown(["cheap fidelity", *heads], body), ""]
        shown = torch.tensor(cells).clamp(0.01, 100.0)
        image = axes.imshow(shown, norm=LogNorm(0.05, 20.0), cmap="RdBu_r", aspect="auto")
        axes.set_title(f"capital {capital}", fontsize=10)
        axes.set_xticks(range(len(RATIOS)), heads, fontsize=8)
        axes.set_yticks(range(len(KINDS)), KINDS, fontsize=8)
        for (i, row), j in product(enumerate(cells), range(len(RATIOS))):
            dark = not 0.2 < row[j] < 5
            axes.text(j, i, f"{row[j]:.2g}", ha="center", va="center", fontsize=8, color="white" if dark else "black")
    figure.colorbar(image, ax=panels, label="our loss / best at the target alone")
    path.with_suffix(".md").write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    figure.savefig(path.with_suffix(".png"), dpi=110)


STUDY = Study(
    "benchmarks.quality.fidelity_map",
    "fidelity_map",
    {f"{kind} {ratio}": partial(Pair, kind, ratio) for kind in KINDS for ratio in RATIOS},
    {
        "MFGPUCB": lambda seed: MFGPUCB(seed=seed),
        "EI": lambda seed: ExpectedImprovement(seed=seed),
        "GPUCB": lambda seed: GPUCB(seed=seed),
    },
    CAPITALS,
    ("loss", "cheap_queries", "target_queries"),
    measured,
    plan=plan,
    play=play,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
