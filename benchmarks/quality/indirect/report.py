"""``indirect.md`` (means, errors, worst seeds, where the paper's ordering does not come out) and ``indirect.png``."""

from pathlib import Path
from statistics import mean

import numpy as np
from matplotlib.figure import Figure

from benchmarks.common import markdown, standard_error, tidy
from benchmarks.study import grouped
from mfbo_torch.problems import IndirectBranin

TRANSFORMATIONS = ("linear", "nonlinear")
TREE = (3.5, 5.25, 7, 8.75, 10.5, 14, 17.5, 21, 24.5, 28, 31.5, 35, 42, 49, 56, 63, 70)
CAPITALS = {
    "fixed": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100),
    "tree": TREE,
    "learned": TREE,
}
"""At which a run is looked at, by kind of setting."""
SETTINGS = [f"{kind} {transformation}" for kind in CAPITALS for transformation in TRANSFORMATIONS]
OF_A_TREE = (3.5, 7.0, 10.5, 17.5, 35.0, 70.0)
SHOWN = {"fixed": (5.0, 10.0, 20.0, 30.0, 50.0, 100.0), "tree": OF_A_TREE, "learned": OF_A_TREE}
ROWS = {"fixed": "one resolution", "tree": "seven resolutions", "learned": "seven, windows learned"}
REGRETS = ("simple", "instant")
TREES = ("CMETS", "CMETS, strict")
COLORS = {
    "CMETS": "#d55e00",
    "CMETS, strict": "#999999",
    "CMES": "#0072b2",
    "CMES, strict": "#56b4e9",
    "MES": "#009e73",
    "UCB": "#e69f00",
    "EI": "#cc79a7",
}
DASHES = {
    "CMETS": "-",
    "CMETS, strict": "-",
    "CMES": "-",
    "CMES, strict": "-",
    "MES": (0, (5, 1.5)),
    "UCB": (0, (1.2, 1.2)),
    "EI": (0, (5, 1.5, 1.2, 1.5)),
}

Key = tuple[str, str, str, float]
"""Setting, strategy, which regret, capital."""


def collect(path: Path) -> dict[Key, list[float]]:
    """Regret of every seed."""
    return {
        (problem, method, regret, capital): [float(row[regret]) for row in rows]
        for (problem, method, capital), rows in grouped(path).items()
        for regret in REGRETS
    }


def ours(setting: str) -> str:
    """Who should be best."""
    return "CMES" if setting.startswith("fixed") else "CMETS"


def exceptions(found: dict[Key, list[float]]) -> list[str]:
    """Where a baseline is better by more than the larger of the two standard errors."""
    lines = []
    for setting in SETTINGS:
        champion, kind = ours(setting), setting.split()[0]
        for regret in REGRETS if kind == "fixed" else REGRETS[:1]:
            for capital in SHOWN[kind]:
                own = found.get((setting, champion, regret, capital), [])
                for label in COLORS:
                    other = found.get((setting, label, regret, capital), [])
                    if label.startswith(champion) or len(own) < 2 or len(other) < 2:
                        continue
                    if mean(own) - mean(other) > max(standard_error(own), standard_error(other)):
                        lines.append(
                            f"- {setting}, {regret} regret at {capital:g}: {champion} {mean(own):.4f} ± "
                            f"{standard_error(own):.4f}, {label} {mean(other):.4f} ± {standard_error(other):.4f}"
                        )
    return lines


def table(found: dict[Key, list[float]]) -> str:
    """Means, standard errors and worst seeds, one table for each setting and regret."""
    parts = ["# Regret with indirect queries", ""]
    parts += ["Mean ± standard error over the seeds (worst seed). Branin's function has standard deviation 1 on its"]
    parts += ["box. Bold: the smallest mean, and those within one standard error of it.", ""]
    for setting in SETTINGS:
        kind, transformation = setting.split()
        if kind == "fixed":
            problem = IndirectBranin(transformation, grid=20, num_samples=2)
            least = problem.latent_optimum - problem.averages(problem.space.choices, 0).max().item()
            parts.append(f"No query of ``{setting}`` has an instant regret below {least:.4f}.")
    for setting in SETTINGS:
        for regret in REGRETS:
            rows = [(label, capital) for of, label, which, capital in found if (of, which) == (setting, regret)]
            labels = [label for label in COLORS if any(label == one for one, _ in rows)]
            capitals = [c for c in SHOWN[setting.split()[0]] if any(c == capital for _, capital in rows)]
            if not labels:
                continue
            parts += ["", f"## {setting}: {regret} regret", ""]
            best, body = {}, []
            for c in capitals:
                those = (found.get((setting, label, regret, c)) for label in labels)
                best[c] = min((values for values in those if values), key=mean)
            for label in labels:
                cells = []
                for c in capitals:
                    values = found.get((setting, label, regret, c))
                    if values is None:
                        cells.append("")
                        continue
                    text = f"{mean(values):.4f} ± {standard_error(values):.4f}"
                    worst = f" ({max(values):.3g})" if len(values) > 1 else ""
                    tie = mean(values) - mean(best[c]) <= max(standard_error(values), standard_error(best[c]), 0.0)
                    cells.append((f"**{text}**" if tie or values is best[c] else text) + worst)
                body.append([label, str(len(found.get((setting, label, regret, capitals[0]), []))), *cells])
            parts += markdown(["strategy", "seeds", *(f"{c:g}" for c in capitals)], body)
    wrong = exceptions(found)
    parts += ["", "## Where a baseline is better by more than a standard error", "", *(wrong or ["Nowhere."])]
    return "\n".join(parts) + "\n"


def picture(found: dict[Key, list[float]]) -> Figure:
    """Mean regret and one standard error: a row for each kind, a column for each transformation and regret."""
    figure = Figure(figsize=(14, 9.6), layout="constrained")
    panels = figure.subplots(len(CAPITALS), 4)
    for row, kind in enumerate(CAPITALS):
        settings = [setting for setting in SETTINGS if setting.startswith(kind)]
        for column, (regret, setting) in enumerate((r, s) for r in REGRETS for s in settings):
            axes = panels[row, column]
            for label in COLORS:
                capitals = [c for c in CAPITALS[kind] if (setting, label, regret, c) in found]
                if not capitals:
                    continue
                values = [found[setting, label, regret, c] for c in capitals]
                middle = np.array([max(mean(v), 1e-5) for v in values])
                spread = np.array([standard_error(v) if len(v) > 1 else 0.0 for v in values])
                color, width = COLORS[label], 2.2 if label == ours(setting) else 1.4
                low, high = np.maximum(middle - spread, middle / 10), middle + spread
                axes.fill_between(capitals, low, high, color=color, alpha=0.14, linewidth=0)
                axes.plot(capitals, middle, color=color, linestyle=DASHES[label], linewidth=width, label=label)
            axes.set(yscale="log", xlabel="queries" if kind == "fixed" else "capital spent")
            if kind == "fixed":
                axes.set_xscale("log")
                axes.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
            axes.set_title(f"{setting.split()[1]}, {regret} regret", loc="left", fontsize=10, fontweight="bold")
            tidy(axes)
        panels[row, 0].set_ylabel(ROWS[kind])
    lines = {line.get_label(): line for axes in panels[:2, 0] for line in axes.get_lines()}
    labels = [label for label in COLORS if label in lines]
    drawn = [lines[label] for label in labels]
    figure.legend(drawn, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def write(path: Path) -> None:
    """Write the table and the picture beside the results."""
    found = collect(path)
    path.with_suffix(".md").write_text(text := table(found))
    picture(found).savefig(path.with_suffix(".png"), dpi=110)
    print(text)
