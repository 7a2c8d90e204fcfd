"""How the time grows with the size of the problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.speed.ops.cases import Case


def draw_growth(growth: dict[str, Any], sweeps: dict[str, list[Case]], path: Path, about: dict[str, Any]) -> None:
    """One panel an axis, both ways in it, the fitted exponents in the legend."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, len(growth), squeeze=False)[0]
    labels = {"m": "points asked for, m", "n": "points of the GP, n"}
    for panel, (axis, found) in zip(panels, growth.items(), strict=True):
        for who, name, style in (("ours", "cached", "o-"), ("peer", "BoTorch", "s--")):
            fit = found[who]
            label = f"{name}, $\\propto {axis}^{{{fit['exponent']:.2f}}}$"
            panel.loglog(found["sizes"], fit["seconds"], style, label=label)
        other = found["fixed"]
        panel.set(xlabel=labels[axis], title=f"{other} = {getattr(sweeps[axis][0], other):,}")
        panel.grid(alpha=0.3, which="both", linewidth=0.5)
        panel.legend()
    panels[0].set_ylabel("seconds a call")
    count = about["threads"]
    threads = f", {count} thread{'s' * (count > 1)}" if about["device"] == "cpu" else ""
    figure.suptitle(f"Posterior mean and variance on {about['machine']}{threads}", fontsize=11)
    figure.savefig(path, dpi=150)
