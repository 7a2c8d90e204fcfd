"""The figures of the papers that show how the methods work.

    python -m benchmarks.figures [--share 1.0] [--check | --mark | --tour]

Writes ``illustration-T.png`` for the published MF-GP-UCB at some numbers of queries ``T`` (Figs. 2 and 6 of
Kandasamy et al., NeurIPS 2016), ``queries-by-value.png``, queries per fidelity by range of the target's value on
Hartmann-3D in a run of 50 target costs (Fig. 3, right), ``indirect-shifted-peak.png``, a function seen through
averages, ``theorem-bounds.png``, regrets beside what their theorems promise, and ``quickstart.png``, the README's.
Regret against capital is ``mfbo compare configs/compare/figure3.yaml`` (also 9 and 10). The share is that of the full
capital.

``--check`` draws nothing: it lists the results that older code has measured, and fails where a row does not say what
measured it, a page does not say that what it shows is stale, or a figure on a page is not that of the results
(:mod:`benchmarks.figures.quoted`). ``--mark`` writes these notes (:mod:`benchmarks.figures.marks`).
``--tour`` draws the pictures of ``docs/tour.md`` alone, by the page's own blocks.
"""

import itertools
import json
import math
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import torch
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from benchmarks.common import parser, quiet
from benchmarks.dependencies import digest
from benchmarks.figures import marks, pictures, tour
from benchmarks.figures.averages import shifted_peak
from benchmarks.figures.bounds import bounds_picture
from mfbo_torch.history import History
from mfbo_torch.loop import plots
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import SVM, Hartmann3, Illustration
from mfbo_torch.strategies import MFGPUCB

STEPS = (8, 11, 14, 24)


def illustrations(share: float) -> dict[int, Figure]:
    """One figure for each of :data:`STEPS`, all from one run; a wide band, so that it can be seen."""
    problem = Illustration()
    strategy = MFGPUCB(link="independent", initial_capital=1.0, beta=4.0).bind(problem.space)
    history = run(problem, strategy, 200.0 * share, progress=False)
    x = torch.linspace(0, 1, 401, dtype=torch.double).unsqueeze(-1)
    values = [[problem.evaluate(point, m) for point in x.tolist()] for m in range(2)]
    figures = {}
    for step in STEPS:
        # the next decision of the method itself, not a comparison that a check asks for
        step = next(i for i in itertools.count(step) if "beta" in history.records[i].query.meta)
        before, following = History(history.records[:step]), history.records[step].query
        model = strategy.rule.model(strategy.snapshot(before))
        with torch.no_grad():
            mean, variance = model.mean_variance(x)
        widths = math.sqrt(following.meta["beta"]) * variance.sqrt()
        bounds = mean + widths + torch.tensor(following.meta["zeta"])
        figures[step] = pictures.illustration(
            x.squeeze(-1).numpy(),
            values,
            list(bounds.mT.numpy()),
            [(r.query.x[0], r.value, r.query.fidelity) for r in before if r.value is not None],
            (following.x[0], following.fidelity),
            widths[:, 0].numpy(),
            following.meta["gamma"][0],
            problem.optimizers[0, 0].item(),
        )
    return figures


def queries_by_value(share: float, queries: int = 184) -> Figure:
    """Where the published MF-GP-UCB queries on Hartmann-3D, its cheap initial design capped."""
    problem = Hartmann3()
    history = run(problem, MFGPUCB(link="independent"), 5000.0 * share, progress=False)
    return pictures.queries_by_value(History(history.records[:queries]), problem)


def quickstart(share: float) -> Figure:
    """What ``mfbo run configs/quickstart.yaml`` draws."""
    problem = SVM()
    return plots.progress(run(problem, MFGPUCB(seed=0), 240.0 * share, progress=False), problem, "MFGPUCB")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw and save, or look at what is there; the exit status."""
    options = parser(__doc__, share=1.0)
    options.add_argument("--check", action="store_true", help="say what is stale, and fail where a page does not")
    options.add_argument("--mark", action="store_true", help="say so on the pages")
    options.add_argument("--tour", action="store_true", help="draw the pictures of docs/tour.md alone")
    given = options.parse_args(arguments)
    quiet()
    if given.tour:
        tour.draw(marks.DRAWN)
        return 0
    if given.mark:
        marks.mark()
    if given.mark or given.check:
        return marks.check()
    for step, figure in illustrations(given.share).items():
        save(figure, given.results / f"illustration-{step}.png", illustrations)
    save(queries_by_value(given.share), given.results / "queries-by-value.png", queries_by_value)
    save(shifted_peak(given.share), given.results / "indirect-shifted-peak.png", shifted_peak)
    save(quickstart(given.share), given.results / "quickstart.png", quickstart)
    save(bounds_picture(given.share), given.results / "theorem-bounds.png", bounds_picture)
    return 0


def save(figure: Figure, path: Path, made_by: Callable[..., object]) -> None:
    """Save a picture in few colours, with what it depends on in its text."""
    of = (__spec__.name if made_by.__module__ == "__main__" else made_by.__module__, made_by.__qualname__)
    text, whole = PngInfo(), BytesIO()
    text.add_text(marks.DRAWN, json.dumps({"of": of, "hash": digest([of])}))
    figure.savefig(whole, dpi=110)
    Image.open(whole).convert("RGB").quantize(64).save(path, optimize=True, pnginfo=text)


if __name__ == "__main__":
    raise SystemExit(main())
