"""How the time grows with the size of the problem."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from benchmarks.ops.cases import Case


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of the logarithms by least squares over the upper half, where a call's overhead matters least."""
    half = max(len(sizes) // 2, 2)
    x, y = [math.log(s) for s in sizes[-half:]], [math.log(t) for t in seconds[-half:]]
    mx, my = sum(x) / half, sum(y) / half
    return sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / sum((a - mx) ** 2 for a in x)


def draw_growth(growth: dict[str, Any], sweeps: dict[str, list[Case]], path: Path, about: dict[str, Any]) -> None:
    """One panel an axis, both ways in it, the fitted exponents in the legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(growth), squeeze=False)[0]
    labels = {"m": "points asked for, m", "n": "points of the GP, n"}
    for panel, (axis, found) in zip(panels, growth.items(), strict=True):
        for who, name, style in (("ours", "cached", "o-"), ("peer", "BoTorch", "s--")):
            fit = found[who]
            panel.loglog(
                found["sizes"], fit["seconds"], style, label=f"{name}, $\\propto {axis}^{{{fit['exponent']:.2f}}}$"
            )
        other = found["fixed"]
        panel.set(xlabel=labels[axis], title=f"{other} = {getattr(sweeps[axis][0], other):,}")
        panel.grid(alpha=0.3, which="both", linewidth=0.5)
        panel.legend()
    panels[0].set_ylabel("seconds a call")
    count = about["threads"]
    threads = f", {count} thread{'s' * (count > 1)}" if about["device"] == "cpu" else ""
    figure.suptitle(f"Posterior mean and variance on {about['machine']}{threads}", fontsize=11)
    figure.savefig(path, dpi=150)
