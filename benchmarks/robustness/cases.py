"""The runs whose histories are compared: problems, strategies and settings, by name.

Only public names are used here, so that the table runs on versions of the package whose insides differ. Every
objective is a fixed function of the design, the fidelity and the number of its query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mfbo_torch import Observation, Optimizer, Parameter, Space, UserProblem, strategies
from mfbo_torch.problems import (
    SVM,
    BadCurrin,
    Borehole,
    ContinuousCurrin,
    Currin,
    Hartmann3,
    IndirectBranin,
    Park,
    Problem,
    ShiftedPeak,
    SyntheticBandit,
)
from mfbo_torch.strategies import Strategy

Objective = Callable[[Sequence[float], int, int], Any]
"""From a design, its fidelity and the number of the query to what is observed, to be maximised."""
RATE = (0.01, 100.0)


@dataclass(frozen=True)
class Case:
    """A run.

    Args:
        problem: Makes the space and the objective; a problem is handed to :func:`mfbo_torch.run`, a pair of a space
            and an objective to an :class:`~mfbo_torch.Optimizer`.
        strategy: Its class.
        settings: Of the strategy, beyond seed, space and capital.
        capital: In costs of the target.
        steps: Most queries that are decided.
        seeds: How many seeds.
        pending: Queries in flight at once. Of several, they end in another order than they began.
        cost: From a design and a fidelity to what it has cost, where costs are measured.
        before: What is done before the first query.
        maximize: Whether the objective is called by its own arguments by :func:`mfbo_torch.maximize`.
    """

    problem: Callable[[], Problem | tuple[Space, Objective]]
    strategy: str = "MFGPUCB"
    settings: dict[str, Any] | None = None
    capital: float = 8.0
    steps: int = 1000
    seeds: int = 1
    pending: int = 1
    cost: Callable[[Sequence[float], int], float] | None = None
    before: Callable[[Optimizer, Objective], object] | None = None
    maximize: bool = False

    def made(self, seed: int, space: Space) -> Strategy:
        """The strategy, bound to a space and the capital."""
        made = getattr(strategies, self.strategy)
        return made(seed=seed, space=space, capital=self.capital * space.costs[-1], **(self.settings or {}))


def unit(x: Sequence[float]) -> tuple[float, float]:
    """A design of :func:`plane` in the unit square."""
    low, high = map(math.log, RATE)
    return (x[0] + 5) / 15, (math.log(x[1]) - low) / (high - low)


def noise(x: Sequence[float], number: int) -> float:
    """A number between -1 and 1 that looks random."""
    return math.sin(1000.0 * math.fsum(x) + 77.7 * number)


def hill(x: Sequence[float], fidelity: int, number: int = 0) -> float:
    """A smooth hill in :func:`plane`; the cheap fidelity is shifted."""
    u, v = unit(x)
    bias = 0.1 * (1 - fidelity)
    return -((u - 0.3 - bias) ** 2) - (v - 0.6 + bias) ** 2 + 0.2 * bias * u


def plane(objective: Objective = hill, costs: Sequence[float] = (1.0, 4.0), **settings: Any) -> tuple[Space, Objective]:
    """Two parameters, one on a log scale, and two fidelities."""
    return Space((Parameter("width", -5.0, 10.0), Parameter("rate", *RATE, log=True)), costs, **settings), objective


def single(objective: Objective = hill, **settings: Any) -> tuple[Space, Objective]:
    """:func:`plane` with the target alone."""
    return plane(lambda x, fidelity, number: objective(x, 1, number), (1.0,), **settings)


def finite(single: bool = False) -> tuple[Space, Objective]:
    """Thirty designs and no others."""
    rows = [(-5 + 15 * ((0.37 * i) % 1), 0.01 + 99.9 * ((0.61 * i) % 1)) for i in range(30)]
    space = Space.finite(rows, (1.0,) if single else (1.0, 4.0))
    return space, (lambda x, fidelity, number: hill(x, 1)) if single else hill


def box() -> tuple[Space, Objective]:
    """Two parameters, one of them whole, with linear inequalities, and three fidelities."""
    parameters = (Parameter("width", 0.0, 1.0), Parameter("depth", 0, 20, integer=True))
    space = Space(parameters, (1.0, 3.0, 10.0), constraints=("width + 0.1 depth <= 1.2", "width - 0.05 depth >= -0.5"))
    return space, lambda x, fidelity, number: -((x[0] - 0.8) ** 2) - (0.05 * x[1] - 0.5) ** 2 - 0.05 * (2 - fidelity)


def arms(costs: Sequence[float] = (1.0, 4.0)) -> tuple[Space, Objective]:
    """Six arms with noisy rewards."""
    space = Space((Parameter("arm", -1, 4, integer=True),), costs, zeta=(0.5, 0.0)[-len(costs) :])
    return space, lambda x, fidelity, number: 0.2 * x[0] - 0.3 * (1 - fidelity) * (x[0] == 2) + 0.1 * noise(x, number)


def tuning(network: str, width: float, depth: int, momentum: float | None = None, epochs: int = 9) -> dict[str, Any]:
    """A noisy objective with choices and conditions, and an outcome that has a limit."""
    best = {"small": 0.3, "large": 0.5, "deep": 0.4}[network]
    value = best - (width - 0.4) ** 2 - 0.02 * (depth - 3) ** 2 - 0.3 / epochs
    value += 0.0 if momentum is None else 0.1 * momentum * (1 - momentum)
    draw = noise((width, 1.0 if momentum is None else momentum), depth + epochs)
    return {"value": value + 0.02 * draw, "latency": 4.0 * depth * width + epochs / 9}


def tuned() -> UserProblem:
    """:func:`tuning` with everything that a user's problem can have."""
    return UserProblem(
        tuning,
        {
            "network": {"choices": ["small", "large", "deep"]},
            "width": {"lower": 0.05, "upper": 1.0, "log": True},
            "depth": {"lower": 1, "upper": 6, "integer": True},
            "momentum": {"lower": 0.0, "upper": 1.0, "when": {"network": "deep"}},
        },
        fidelities={"epochs": [1, 3, 9]},
        constraints={"latency": "<= 8"},
    )


def mixed() -> UserProblem:
    """:func:`tuning` without a limit."""
    return UserProblem(
        lambda **design: tuning(**design)["value"],
        {
            "network": {"choices": ["small", "large", "deep"]},
            "width": {"lower": 0.05, "upper": 1.0, "log": True},
            "depth": {"choices": [1, 2, 4], "ordered": True},
            "momentum": {"lower": 0.0, "upper": 1.0, "when": {"network": ["deep", "large"]}},
        },
        fidelities={"epochs": [1, 9]},
    )


def raising(x: Sequence[float], fidelity: int, number: int) -> float:
    """No value in a half-plane around the cheap fidelity's best design."""
    if x[0] > 0.5:
        raise RuntimeError("no convergence")
    return hill(x, fidelity)


def half_nan(x: Sequence[float], fidelity: int, number: int) -> float:
    """NaN in a half-plane."""
    return math.nan if x[1] > 5.0 else hill(x, fidelity)


def tail(x: Sequence[float], fidelity: int, number: int) -> float:
    """-1e7 in a corner."""
    u, v = unit(x)
    return -1e7 if u > 0.6 and v < 0.5 else hill(x, fidelity)


def times(factor: float) -> Objective:
    """The hill in another unit."""
    return lambda x, fidelity, number: factor * hill(x, fidelity)


def noisy(x: Sequence[float], fidelity: int, number: int) -> float:
    """The hill with noise whose deviation nobody is told."""
    return hill(x, fidelity) + 0.05 * noise(x, number)


def with_error(x: Sequence[float], fidelity: int, number: int) -> tuple[float, float]:
    """The noisy hill with a standard error."""
    return noisy(x, fidelity, number), 0.03 + 0.01 * (number % 3)


def limited(x: Sequence[float], fidelity: int, number: int) -> dict[str, Any]:
    """The hill, and a latency that is too large where it is high."""
    u, v = unit(x)
    return {"value": hill(x, fidelity), "latency": (10 * v + 5 * u, 0.1), "memory": u}


def trained(width: float, rate: float, fidelity: int, trial: Any) -> float:
    """The hill by a training that goes on from its checkpoint."""
    checkpoint = trial.folder / "checkpoint"
    before = float(checkpoint.read_text()) if checkpoint.exists() else 0.0
    checkpoint.write_text(repr(before + 1.0))
    return hill((width, rate), fidelity) + 0.001 * before


def measured_cost(x: Sequence[float], fidelity: int) -> float:
    """Seconds that a query would take."""
    return (0.4, 2.0)[fidelity] * (1.0 + unit(x)[0])


def design(i: int) -> dict[str, float]:
    """A design of :func:`plane` by number, evenly spread."""
    return {"width": -5 + 15 * ((0.754877 * i) % 1), "rate": RATE[0] * (RATE[1] / RATE[0]) ** ((0.569840 * i) % 1)}


def given(count: int, fidelities: int = 2) -> Callable[[Optimizer, Objective], None]:
    """Observations that were made before."""

    def add(optimizer: Optimizer, objective: Objective) -> None:
        for i in range(count):
            fidelity = fidelities - 1 if i % 4 == 3 else 0
            found = objective((*design(i + 1).values(),), fidelity, i)
            optimizer.add(design(i + 1), fidelity, found, standard_error=None)

    return add


def given_and_enqueued(optimizer: Optimizer, objective: Objective) -> None:
    """Some observations from elsewhere, one with its standard error, and designs to be asked first."""
    given(6)(optimizer, objective)
    optimizer.add(design(20), 1, Observation(objective((*design(20).values(),), 1, 0), 0.01))
    optimizer.enqueue(design(30), 1)
    optimizer.enqueue(design(31))


def _indirect(**settings: Any) -> Callable[[], Problem]:
    return lambda: IndirectBranin(num_samples=60, **settings)


_SHORT = {"initial_capital": 2.0}
_QUICK = {"num_restarts": 1, "raw_samples": 8, "max_iterations": 4}
_DIGITS = {"num_simulations": 8, "num_candidates": 64, "batch_size": 3}

HEADLINE = {
    f"headline/{name}": Case(make, capital=capital, seeds=5)
    for name, make, capital in (
        ("Currin", Currin, 20.0),
        ("BadCurrin", BadCurrin, 20.0),
        ("Park", Park, 20.0),
        ("Borehole", Borehole, 20.0),
        ("Hartmann3", Hartmann3, 14.0),
        ("user", tuned, 12.0),
    )
}
"""The default strategy on six problems."""

SETTINGS = {
    "settings/independent": Case(Currin, settings={"link": "independent"}, capital=14.0, seeds=2),
    "settings/independent-strict": Case(Currin, settings={"link": "independent", "strict": True}, capital=14.0),
    "settings/independent-theory": Case(Currin, settings={"link": "independent", "beta": "theory"}, capital=14.0),
    "settings/independent-zeta": Case(
        plane, settings={"link": "independent", "zeta": [0.2], "gamma": [0.1], **_SHORT}, capital=8.0
    ),
    "settings/unhedged": Case(Currin, settings={"hedge": False}, capital=14.0, seeds=2),
    "settings/theory": Case(Currin, settings={"beta": "theory"}, capital=12.0),
    "settings/fixed-beta": Case(plane, settings={"beta": 2.0, "refit_every": 3}, capital=10.0),
    "settings/float32": Case(plane, settings={"dtype": "float32"}, capital=10.0),
    "settings/pending": Case(Currin, capital=14.0, pending=4, seeds=2),
    "settings/pending-plane": Case(lambda: plane(noisy), capital=14.0, pending=4),
    "settings/svm": Case(lambda: SVM(sizes=[100, 300]), capital=8.0),
    "settings/mixed": Case(mixed, capital=10.0),
    "settings/finite": Case(finite, capital=12.0),
}
"""The default strategy with other settings."""

VALUES = {
    "values/raising": Case(lambda: plane(raising), capital=12.0, seeds=2),
    "values/nan": Case(lambda: plane(half_nan), capital=12.0),
    "values/tail": Case(lambda: plane(tail), capital=12.0, seeds=2),
    "values/huge": Case(lambda: plane(times(1e200)), capital=8.0),
    "values/tiny": Case(lambda: plane(times(1e-200)), capital=8.0),
    "values/noisy": Case(lambda: plane(noisy), capital=12.0),
    "values/standard-error": Case(lambda: plane(with_error), capital=10.0, seeds=2),
    "values/limits": Case(
        lambda: plane(limited, limits={"latency": "<= 7", "memory": "<= 0.9"}), capital=10.0, seeds=2
    ),
    "values/constraints": Case(box, capital=10.0),
    "values/measured": Case(lambda: plane(measured=True), capital=8.0, steps=24, cost=measured_cost),
    "values/continues": Case(lambda: plane(continues=True), capital=10.0),
    "values/trained": Case(lambda: plane(trained, continues=True), capital=8.0, maximize=True),
    "values/given": Case(plane, capital=8.0, before=given_and_enqueued, seeds=2),
    "values/subset": Case(
        lambda: plane(noisy), settings={"initial_capital": 1.0}, capital=8.0, steps=5, before=given(1400)
    ),
    "values/subset-target": Case(
        lambda: single(noisy), "GPUCB", {"initial": 1}, capital=8.0, steps=4, before=given(1100, 1)
    ),
}
"""The default strategy on values, costs and records of other kinds."""

STRATEGIES = {
    "strategies/RandomSearch": Case(Currin, "RandomSearch", capital=12.0),
    "strategies/RandomSearch-mixed": Case(mixed, "RandomSearch", capital=8.0),
    "strategies/Direct": Case(Currin, "Direct", capital=30.0),
    "strategies/GPUCB": Case(single, "GPUCB", capital=16.0, seeds=2),
    "strategies/GPUCB-fails": Case(lambda: single(raising), "GPUCB", capital=14.0),
    "strategies/GPUCB-limits": Case(
        lambda: single(limited, limits={"latency": "<= 7"}), "GPUCB", capital=12.0, before=given(4, 1)
    ),
    "strategies/ExpectedImprovement": Case(single, "ExpectedImprovement", capital=16.0, seeds=2),
    "strategies/ExpectedImprovement-noisy": Case(lambda: single(with_error), "ExpectedImprovement", capital=14.0),
    "strategies/ProbabilityOfImprovement": Case(single, "ProbabilityOfImprovement", capital=16.0),
    "strategies/GPBUCB": Case(single, "GPBUCB", capital=20.0, pending=4, seeds=2),
    "strategies/GPBUCB-theory": Case(
        single, "GPBUCB", {"beta": "theory", "initialisation": 2, "initial": 4}, capital=12.0, pending=3
    ),
    "strategies/GPBUCB-finite": Case(lambda: finite(True), "GPBUCB", capital=16.0, pending=4),
    "strategies/GPBUCB-finite-eager": Case(lambda: finite(True), "GPBUCB", {"lazy": False}, capital=16.0, pending=4),
    "strategies/GPBUCB-limits": Case(
        lambda: single(limited, limits={"latency": "<= 7"}), "GPBUCB", capital=12.0, pending=3
    ),
    "strategies/NaiveRepeat": Case(single, "NaiveRepeat", {"initial": 4}, capital=12.0, pending=3),
    "strategies/NaiveTop": Case(single, "NaiveTop", {"initial": 4}, capital=12.0, pending=3),
    "strategies/SimulationMatching": Case(
        single, "SimulationMatching", {"initial": 4, **_DIGITS}, capital=12.0, pending=3
    ),
    "strategies/SimulationMatching-mei": Case(
        single, "SimulationMatching", {"initial": 4, "policy": "mei", **_DIGITS}, capital=12.0, pending=3
    ),
    "strategies/QUpperConfidenceBound": Case(
        single, "QUpperConfidenceBound", {"initial": 4, "samples": 16}, capital=10.0, pending=2
    ),
    "strategies/QLogExpectedImprovement": Case(
        single, "QLogExpectedImprovement", {"initial": 4, "samples": 16}, capital=10.0, pending=2
    ),
    "strategies/MFNaive": Case(plane, "MFNaive", {"initial": 4}, capital=8.0),
    "strategies/MFNaive-random": Case(plane, "MFNaive", {"explore": "random"}, capital=8.0),
    "strategies/BOCA": Case(ContinuousCurrin, "BOCA", _SHORT, capital=6.0, seeds=2),
    "strategies/BOCA-interval": Case(
        lambda: plane(
            lambda x, fidelity, number: hill(x, 1) + 1e-3 * math.sqrt(fidelity),
            (0.2, 1.0),
            fidelities={"share": {"lower": 0.05, "upper": 1.0}},
        ),
        "BOCA",
        _SHORT,
        capital=6.0,
    ),
    "strategies/BOCA-levels": Case(plane, "BOCA", _SHORT, capital=8.0),
    "strategies/MFSKO": Case(plane, "MFSKO", _SHORT, capital=6.0),
    "strategies/MFGIBBON": Case(plane, "MFGIBBON", {**_SHORT, **_QUICK, "num_candidates": 50}, capital=6.0),
    "strategies/MFKnowledgeGradient": Case(
        plane, "MFKnowledgeGradient", {**_SHORT, **_QUICK, "num_fantasies": 2, "raw_samples": 2}, capital=4.0
    ),
    "strategies/MFUCB": Case(arms, "MFUCB", {"scale": 0.1}, capital=30.0),
    "strategies/MFUCB-problem": Case(lambda: SyntheticBandit(1), "MFUCB", capital=5.0),
    "strategies/UCB": Case(arms, "UCB", {"scale": 0.1}, capital=30.0),
    "strategies/SuccessiveElimination": Case(arms, "SuccessiveElimination", {"scale": 0.1}, capital=40.0),
    "strategies/CMES": Case(_indirect(), "CMES", {"initial": 2}, capital=8.0, steps=8),
    "strategies/CMES-all": Case(
        lambda: ShiftedPeak((0.8, 0.4)), "CMES", {"resolutions": "all", "sampler": "gumbel"}, capital=6.0, steps=8
    ),
    "strategies/CMES-grid": Case(_indirect(grid=5), "CMES", {"initial": 2}, capital=8.0, steps=8),
    "strategies/CMETS": Case(_indirect(resolutions=3), "CMETS", capital=6.0, steps=8),
    "strategies/ShrinkingWindow": Case(
        lambda: ShiftedPeak((0.8, 0.4, 0.2)), "ShrinkingWindow", capital=8.0, steps=10, seeds=2
    ),
    "strategies/QueryMES": Case(_indirect(), "QueryMES", capital=6.0, steps=6),
    "strategies/QueryUCB": Case(_indirect(known=True), "QueryUCB", capital=6.0, steps=6),
    "strategies/QueryEI": Case(lambda: ShiftedPeak(), "QueryEI", capital=8.0, steps=8),
}
"""Every strategy, on a problem that suits it."""

CASES = HEADLINE | SETTINGS | VALUES | STRATEGIES
"""All of them."""
