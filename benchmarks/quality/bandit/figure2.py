"""Regret and plays of MF-UCB, UCB and successive elimination on the four problems of Fig. 2 of its paper.

    python -m benchmarks.quality.bandit.figure2 [--trials 20] [--problems 1 2 3 4] [--share 1.0]

Writes ``bandit-regret.csv`` (mean and standard error at 51 amounts of capital), ``bandit.json``, ``bandit.md``, and the
pictures ``bandit-regret.png`` (the four regret panels), ``bandit-plays.png`` (plays per arm, the two other panels) and
``bandit-bounds.png`` (regret between its bounds). The late slope is the regret of the last quarter of the capital, per
unit of it. The share is that of the full capital.
"""

import csv
import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure

from benchmarks.common import markdown, parser, quiet, write_json
from benchmarks.figures import pictures
from benchmarks.quality.bandit.metrics import OPTIMAL, expected_plays, lower_bound, meets, partition, upper_bound
from benchmarks.speed.bandit import around
from mfbo_torch.loop import plots
from mfbo_torch.loop.bandit_simulation import Simulation, simulate
from mfbo_torch.problems import MultiFidelityBandit, SyntheticBandit
from mfbo_torch.strategies import MFUCB, UCB, SuccessiveElimination
from mfbo_torch.strategies.bandit.base import ArmStrategy, ZetaWarning

RHO = 2.0
THEOREM = 4.01
"""Theorem 2 wants ``ρ > 4``."""
WIDER = f"MF-UCB, ρ = {THEOREM:g}"
COMPARED = ("MF-UCB", "UCB", WIDER)
"""Between the bounds."""
POINTS = 51


def strategies(problem: MultiFidelityBandit) -> dict[str, ArmStrategy]:
    """What is compared, each with how the rewards are distributed."""
    settings: dict[str, Any] = {"rewards": "bounded"}
    if problem.rewards == "gaussian":
        settings = {"rewards": "gaussian", "scale": problem.scale}
    return {
        "MF-UCB": MFUCB(rho=RHO, **settings),
        "UCB": UCB(rho=RHO, **settings),
        "successive elimination": SuccessiveElimination(**settings),
        WIDER: MFUCB(rho=THEOREM, **settings),
    }


def mean_error(values: torch.Tensor) -> tuple[float, float]:
    """The mean and its standard error."""
    return values.mean().item(), (values.std() / len(values) ** 0.5).item()


def groups(problem: MultiFidelityBandit, simulation: Simulation, rho: float) -> list[dict[str, Any]]:
    """Mean plays of the arms of each ``K^(m)`` at each fidelity, beside what Lemma 5 bounds them by, if it does."""
    own = partition(problem)
    n = float((simulation.arms >= 0).sum(1).double().mean())
    plays, bounds = simulation.plays().double().mean(0), expected_plays(problem, n, rho)
    rows = []
    for m in [*range(problem.space.num_fidelities), OPTIMAL]:
        inside = own == m
        if inside.any():
            name = "optimal" if m == OPTIMAL else f"K({m + 1})"
            most = [bound if math.isfinite(bound) else None for bound in bounds[inside].mean(0).tolist()]
            mean = plays[inside].mean(0).tolist()
            rows.append({"group": name, "arms": int(inside.sum()), "plays": mean, "bounds": most})
    return rows


def measure(number: int, trials: int, share: float) -> tuple[dict[str, Any], dict[str, Simulation]]:
    """Run all strategies on a problem with a share of its capital."""
    problem = SyntheticBandit(number)
    capital = share * problem.capital
    amounts = torch.linspace(0.0, capital, POINTS, dtype=torch.double)
    met = meets(problem)
    found: dict[str, Any] = {
        "capital": capital,
        "strategies": {},
        "bounds": {
            "met": int(met.sum()),
            "open": int((~met & (partition(problem) != OPTIMAL)).sum()),
            "lower": lower_bound(problem, capital),
            "lower_everywhere": lower_bound(problem, capital, everywhere=True),
            "upper": {f"{rho:g}": upper_bound(problem, capital, rho) for rho in (RHO, THEOREM)},
        },
    }
    simulations = {}
    for name, strategy in strategies(problem).items():
        started, used = time.perf_counter(), time.process_time()
        simulation = simulations[name] = simulate(problem, strategy, capital, trials)
        seconds, used = time.perf_counter() - started, time.process_time() - used
        regret = simulation.regret(amounts).total
        late = (regret[:, -1] - simulation.regret([0.75 * capital]).total[:, 0]) / (0.25 * capital)
        final, slope = mean_error(regret[:, -1]), mean_error(late)
        found["strategies"][name] = {
            "regret": final,
            "late_slope": slope,
            "plays_a_trial": int((simulation.arms >= 0).sum()) / trials,
            "seconds": seconds,
            "processor_seconds": used,
            "curve": (amounts, regret),
            "groups": groups(problem, simulation, THEOREM if name == WIDER else RHO),
        }
        line = f"regret {final[0]:.0f} ± {final[1]:.0f}, late slope {slope[0]:.4f}"
        print(f"problem {number}, {name}: {line}", flush=True)
    return found, simulations


def useless(trials: int, share: float) -> dict[str, Any]:
    """What MF-UCB loses to UCB where the cheap fidelity tells nothing: problem 3 with ζ = 1 and unrelated means."""
    honest = SyntheticBandit(3)
    means = honest.means.clone()
    means[:, 0] = torch.rand(len(means), generator=torch.Generator().manual_seed(0), dtype=torch.double)
    problem = MultiFidelityBandit(means.tolist(), (1.0, 0.0), honest.space.costs, "bernoulli")
    capital = share * honest.capital
    regrets = {}
    for name, strategy in list(strategies(problem).items())[:2]:
        regrets[name] = mean_error(simulate(problem, strategy, capital, trials).regret([capital]).total)
    return {"regret": regrets, "ratio": regrets["MF-UCB"][0] / regrets["UCB"][0]}


def violated(trials: int, share: float) -> bool:
    """Whether a run warns that is given a fifth of the first problem's ζ."""
    problem = SyntheticBandit(1)
    zeta = [bound / 5 for bound in problem.space.zeta or ()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        simulate(problem, MFUCB(rho=RHO, scale=problem.scale, zeta=zeta), 0.2 * share * problem.capital, trials)
    return any(issubclass(warning.category, ZetaWarning) for warning in caught)


def bounds(trials: int, share: float) -> dict[str, Any]:
    """Regret of MF-UCB and UCB on ten arms, between what Theorems 2 and 4 say of them."""
    # gaps wide enough that a long run comes to what the bounds say of its end
    problem = around(torch.linspace(0.2, 0.9, 10, dtype=torch.double), torch.Generator().manual_seed(0))
    amounts = torch.logspace(3, 6.3, 34, dtype=torch.double) * share
    amounts = amounts[amounts >= 100]
    curves = {}
    made = strategies(problem)
    for name in COMPARED:
        curves[name] = (amounts, simulate(problem, made[name], amounts[-1].item(), trials).regret(amounts).total)
    capitals = amounts.tolist()
    lines = {
        f"Theorem 2, ρ = {rho:g}": (dash, [upper_bound(problem, capital, rho) for capital in capitals])
        for rho, dash in ((THEOREM, "-."), (RHO, "--"))
    }
    lines["Theorem 4, as Λ → ∞"] = (":", [lower_bound(problem, capital) for capital in capitals])
    return {"curves": curves, "capitals": capitals, "lines": lines}


def picture_of_bounds(found: dict[str, Any]) -> Figure:
    """Regret against capital on ten arms, between its bounds."""
    title = "Ten arms, costs 1, 10, 100"
    figure = plots.regret({title: found["curves"]}, {title: "regret"})
    axes = figure.axes[0]
    for name, (dash, values) in found["lines"].items():
        axes.plot(found["capitals"], values, color=plots.INK, linestyle=dash, label=name)
    axes.set_xscale("log")
    axes.set_xlim(found["capitals"][0], found["capitals"][-1])
    for text in list(axes.texts):
        text.remove()
    axes.legend(frameon=False, fontsize=9)
    return figure


def table(report: dict[str, Any]) -> str:
    """What was measured, as Markdown."""
    trials = report["trials"]
    lines = ["# Multi-fidelity bandits: the four problems of Fig. 2", ""]
    lines += [f"Mean and standard error over {trials} trials, ρ = {RHO:g} unless stated. The late slope is the regret"]
    lines += ["per unit of capital in the last quarter of the capital. Seconds are the wall-clock and the processor"]
    lines += ["time of all trials together.", ""]
    body = []
    for number, found in report["problems"].items():
        for name, row in found["strategies"].items():
            (regret, error), (slope, slope_error) = row["regret"], row["late_slope"]
            cells = [
                f"{regret:,.0f} ± {error:,.0f}",
                f"{slope:.4f} ± {slope_error:.4f}",
                f"{row['plays_a_trial']:,.0f}",
            ]
            body.append([str(number), name, *cells, f"{row['seconds']:.1f}", f"{row['processor_seconds']:.1f}"])
    head = ["problem", "strategy", "regret", "late slope", "plays a trial", "seconds", "processor"]
    lines += [*markdown(head, body, left=2), "", "## Plays of MF-UCB by group of arms", ""]
    lines += ["Mean plays per arm at each fidelity, the cheapest first. In brackets: the bound of Lemma 5 on this"]
    lines += ["mean, if it has one. K(m): the arms that fidelity m distinguishes from the optimal arm.", ""]
    lines += ["| problem | group | arms | plays at fidelity 1, 2, ... |", "| --- | --- | ---: | --- |"]
    for number, found in report["problems"].items():
        for row in found["strategies"]["MF-UCB"]["groups"]:
            cells = [
                f"{play:,.4g}" + (f" ({most:,.4g})" if most else "")
                for play, most in zip(row["plays"], row["bounds"], strict=True)
            ]
            lines.append(f"| {number} | {row['group']} | {row['arms']} | {', '.join(cells)} |")
    lines += ["", "## Between the bounds", ""]
    lines += ["Columns: the number of arms on which MF-UCB meets the lower bound, and of those on which it need not"]
    lines += ["(Section 4.2); the leading term of Theorem 4 at the capital, over the fidelities of the theorem and"]
    lines += ["over all fidelities; the measured regret; the bound of Theorem 2 with its factors, at most the optimum"]
    lines += ["times the capital.", ""]
    two, four = f"{RHO:g}", f"{THEOREM:g}"
    body = []
    for number, found in report["problems"].items():
        limits, measured = found["bounds"], found["strategies"]
        numbers = [limits["lower"], limits["lower_everywhere"]]
        numbers += [measured[name]["regret"][0] for name in ("MF-UCB", WIDER)]
        numbers += [limits["upper"][two], limits["upper"][four]]
        body.append([str(number), str(limits["met"]), str(limits["open"]), *(f"{value:,.0f}" for value in numbers)])
    head = ["problem", "met", "open", "Theorem 4", "all fidelities", f"ρ = {two}", f"ρ = {four}"]
    lines += markdown([*head, f"Theorem 2, ρ = {two}", f"ρ = {four}"], body)
    ratio, (mf, _), (ucb, _) = (report["useless"]["ratio"], *report["useless"]["regret"].values())
    text = "With a cheap fidelity that has no information (problem 3, unrelated means, ζ = 1) the regret is"
    lines += ["", f"{text} {mf:,.0f},"]
    lines += [f"{ratio:.3f} times UCB's {ucb:,.0f}. A run of problem 1 with a fifth of the true ζ"]
    lines += [("warns" if report["violated"] else "does not warn") + " that observations contradict ζ.", ""]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, draw, write."""
    options = parser(__doc__, trials=20, problems=(1, 2, 3, 4), share=1.0).parse_args(arguments)
    quiet()
    started = time.perf_counter()
    problems, pictured = {}, None
    for number in options.problems:
        problems[number], simulations = measure(number, options.trials, options.share)
        pictured = pictured or (SyntheticBandit(number), simulations)
    report: dict[str, Any] = {"trials": options.trials, "rho": RHO, "problems": problems}
    report["seconds"] = time.perf_counter() - started
    report["useless"] = useless(options.trials, options.share)
    report["violated"] = violated(options.trials, options.share)
    between = bounds(options.trials, options.share)

    panels: dict[str, Any] = {}
    out, lines = options.results, [("problem", "strategy", "capital", "mean_regret", "standard_error")]
    for number, found in problems.items():
        space = SyntheticBandit(number).space
        arms, costs = round(space.parameters[0].upper) + 1, ", ".join(f"{cost:g}" for cost in space.costs)
        panel = panels[f"K = {arms}, costs {costs}"] = {}
        for name, row in found["strategies"].items():
            amounts, regret = panel[name] = row.pop("curve")
            error = regret.std(0) / options.trials**0.5
            rows = torch.stack([amounts, regret.mean(0), error], dim=1).tolist()
            lines += [(number, name, *(f"{x:.6g}" for x in row)) for row in rows]
    with (out / "bandit-regret.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    write_json(out / "bandit.json", report)
    plots.regret(panels, dict.fromkeys(panels, "regret"), list(panels)).savefig(out / "bandit-regret.png")
    assert pictured is not None
    problem, simulations = pictured
    counts = {name: simulations[name].plays().double().mean(0).numpy() for name in ("UCB", "MF-UCB")}
    pictures.plays_per_arm(counts, problem).savefig(out / "bandit-plays.png")
    picture_of_bounds(between).savefig(out / "bandit-bounds.png")
    text = table(report)
    (out / "bandit.md").write_text(text)
    print(text)
    print(f"the problems took {report['seconds']:.0f} s")


if __name__ == "__main__":
    main()
