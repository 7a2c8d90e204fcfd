"""The runs whose histories are compared: problems, strategies and settings, by name.

Only public names are used here, so that the table runs on versions of the package whose insides differ. Every
objective is a fixed function of the design, the fidelity and the number of its query.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from mfbo_torch.space.objectives import Objective as NamedObjective
from mfbo_torch.strategies import Strategy

Objective = Callable[[Sequence[float], int, int], Any]
"""From a design, its fidelity and the number of the query to what is observed, to be maximised."""
RATE = (0.01, 100.0)


@dataclass(frozen=True)
class Case:
    """A run of a strategy with settings beyond seed, space and capital (in costs of the target).

    A problem is handed to :func:`mfbo_torch.run`, a pair of a space and an objective to an
    :class:`~mfbo_torch.Optimizer`, or to :func:`mfbo_torch.maximize`, which calls the objective by its own arguments.
    ``steps`` is the most queries that are decided, ``pending`` how many are in flight: of several, they end in another
    order than they began. ``cost`` is for measured costs, ``before`` is done before the first query.
    """

    problem: Callable[[], Problem | tuple[Space, Objective]]
    capital: float = 8.0
    settings: dict[str, Any] | None = None
    strategy: str = "MFGPUCB"
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


NETWORK = {"network": {"choices": ["small", "large", "deep"]}, "width": {"lower": 0.05, "upper": 1.0, "log": True}}
MOMENTUM = {"lower": 0.0, "upper": 1.0}


def tuned() -> UserProblem:
    """:func:`tuning` with everything that a user's problem can have."""
    depth = {"lower": 1, "upper": 6, "integer": True}
    parameters = {**NETWORK, "depth": depth, "momentum": {**MOMENTUM, "when": {"network": "deep"}}}
    return UserProblem(tuning, parameters, fidelities={"epochs": [1, 3, 9]}, constraints={"latency": "<= 8"})


def mixed() -> UserProblem:
    """:func:`tuning` without a limit."""
    depth = {"choices": [1, 2, 4], "ordered": True}
    parameters = {**NETWORK, "depth": depth, "momentum": {**MOMENTUM, "when": {"network": ["deep", "large"]}}}
    return UserProblem(lambda **design: tuning(**design)["value"], parameters, fidelities={"epochs": [1, 9]})


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


def two(x: Sequence[float], fidelity: int, number: int) -> dict[str, float]:
    """The depth below the hill, and a latency that is largest there."""
    return {"loss": -hill(x, fidelity), "latency": 1.0 + hill(x, 1)}


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


def interval() -> tuple[Space, Objective]:
    """:func:`plane` with a share between 0.05 and 1 as its fidelity."""
    share = {"share": {"lower": 0.05, "upper": 1.0}}
    return plane(lambda x, level, number: hill(x, 1) + 1e-3 * math.sqrt(level), (0.2, 1.0), fidelities=share)


SHORT, INITIAL = {"initial_capital": 2.0}, {"initial": 4}
INDEPENDENT = {"link": "independent"}
QUICK = {**SHORT, "num_restarts": 1, "raw_samples": 8, "max_iterations": 4}
MATCHING = {**INITIAL, "num_simulations": 8, "num_candidates": 64, "batch_size": 3}
DRAWN = {**INITIAL, "samples": 16}
NOISE = {"scale": 0.1}

HEADLINE = {
    "Currin": Case(Currin, 20.0, seeds=5),
    "BadCurrin": Case(BadCurrin, 20.0, seeds=5),
    "Park": Case(Park, 20.0, seeds=5),
    "Borehole": Case(Borehole, 20.0, seeds=5),
    "Hartmann3": Case(Hartmann3, 14.0, seeds=5),
    "user": Case(tuned, 12.0, seeds=5),
}
"""The default strategy on six problems."""
SETTINGS = {
    "independent": Case(Currin, 14.0, INDEPENDENT, seeds=2),
    "independent-strict": Case(Currin, 14.0, {**INDEPENDENT, "strict": True}),
    "independent-theory": Case(Currin, 14.0, {**INDEPENDENT, "beta": "theory"}),
    "independent-zeta": Case(plane, 8.0, {**INDEPENDENT, "zeta": [0.2], "gamma": [0.1], **SHORT}),
    "unhedged": Case(Currin, 14.0, {"hedge": False}, seeds=2),
    "theory": Case(Currin, 12.0, {"beta": "theory"}),
    "fixed-beta": Case(plane, 10.0, {"beta": 2.0, "refit_every": 3}),
    "float32": Case(plane, 10.0, {"dtype": "float32"}),
    "pending": Case(Currin, 14.0, pending=4, seeds=2),
    "pending-plane": Case(lambda: plane(noisy), 14.0, pending=4),
    "svm": Case(lambda: SVM(sizes=[100, 300]), 8.0),
    "mixed": Case(mixed, 10.0),
    "finite": Case(finite, 12.0),
}
"""The default strategy with other settings."""
VALUES = {
    "raising": Case(lambda: plane(raising), 12.0, seeds=2),
    "nan": Case(lambda: plane(half_nan), 12.0),
    "tail": Case(lambda: plane(tail), 12.0, seeds=2),
    "huge": Case(lambda: plane(times(1e200)), 8.0),
    "tiny": Case(lambda: plane(times(1e-200)), 8.0),
    "noisy": Case(lambda: plane(noisy), 12.0),
    "standard-error": Case(lambda: plane(with_error), 10.0, seeds=2),
    "limits": Case(lambda: plane(limited, limits={"latency": "<= 7", "memory": "<= 0.9"}), 10.0, seeds=2),
    "constraints": Case(box, 10.0),
    "measured": Case(lambda: plane(measured=True), 8.0, steps=24, cost=measured_cost),
    "continues": Case(lambda: plane(continues=True), 10.0),
    "trained": Case(lambda: plane(trained, continues=True), 8.0, maximize=True),
    "given": Case(plane, 8.0, before=given_and_enqueued, seeds=2),
    "subset": Case(lambda: plane(noisy), 8.0, {"initial_capital": 1.0}, steps=5, before=given(1400)),
    "subset-target": Case(lambda: single(noisy), 8.0, {"initial": 1}, "GPUCB", steps=4, before=given(1100, 1)),
}
"""The default strategy on values, costs and records of other kinds."""
STRATEGIES = {
    "RandomSearch": Case(Currin, 12.0),
    "RandomSearch-mixed": Case(mixed, 8.0),
    "Direct": Case(Currin, 30.0),
    "GPUCB": Case(single, 16.0, seeds=2),
    "GPUCB-fails": Case(lambda: single(raising), 14.0),
    "GPUCB-limits": Case(lambda: single(limited, limits={"latency": "<= 7"}), 12.0, before=given(4, 1)),
    "ExpectedImprovement": Case(single, 16.0, seeds=2),
    "ExpectedImprovement-noisy": Case(lambda: single(with_error), 14.0),
    "ProbabilityOfImprovement": Case(single, 16.0),
    "GPBUCB": Case(single, 20.0, pending=4, seeds=2),
    "GPBUCB-theory": Case(single, 12.0, {"beta": "theory", "initialisation": 2, "initial": 4}, pending=3),
    "GPBUCB-finite": Case(lambda: finite(True), 16.0, pending=4),
    "GPBUCB-finite-eager": Case(lambda: finite(True), 16.0, {"lazy": False}, pending=4),
    "GPBUCB-limits": Case(lambda: single(limited, limits={"latency": "<= 7"}), 12.0, pending=3),
    "NaiveRepeat": Case(single, 12.0, INITIAL, pending=3),
    "NaiveTop": Case(single, 12.0, INITIAL, pending=3),
    "SimulationMatching": Case(single, 12.0, MATCHING, pending=3),
    "SimulationMatching-mei": Case(single, 12.0, {**MATCHING, "policy": "mei"}, pending=3),
    "QUpperConfidenceBound": Case(single, 10.0, DRAWN, pending=2),
    "QLogExpectedImprovement": Case(single, 10.0, DRAWN, pending=2),
    "MFNaive": Case(plane, 8.0, INITIAL),
    "MFNaive-random": Case(plane, 8.0, {"explore": "random"}),
    "BOCA": Case(ContinuousCurrin, 6.0, SHORT, seeds=2),
    "BOCA-interval": Case(interval, 6.0, SHORT),
    "BOCA-levels": Case(plane, 8.0, SHORT),
    "FreezeThaw": Case(plane, 8.0, steps=20),
    "MFEHVI": Case(lambda: plane(two, objectives=(NamedObjective("loss"), NamedObjective("latency"))), 8.0, steps=12),
    "MFSKO": Case(plane, 6.0, SHORT),
    "MFGIBBON": Case(plane, 6.0, {**QUICK, "num_candidates": 50}),
    "MFKnowledgeGradient": Case(plane, 4.0, {**QUICK, "num_fantasies": 2, "raw_samples": 2}),
    "MFUCB": Case(arms, 30.0, NOISE),
    "MFUCB-problem": Case(lambda: SyntheticBandit(1), 5.0),
    "UCB": Case(arms, 30.0, NOISE),
    "SuccessiveElimination": Case(arms, 40.0, NOISE),
    "CMES": Case(partial(IndirectBranin, num_samples=60), 8.0, {"initial": 2}, steps=8),
    "CMES-all": Case(lambda: ShiftedPeak((0.8, 0.4)), 6.0, {"resolutions": "all", "sampler": "gumbel"}, steps=8),
    "CMES-grid": Case(partial(IndirectBranin, num_samples=60, grid=5), 8.0, {"initial": 2}, steps=8),
    "CMETS": Case(partial(IndirectBranin, num_samples=60, resolutions=3), 6.0, steps=8),
    "ShrinkingWindow": Case(lambda: ShiftedPeak((0.8, 0.4, 0.2)), 8.0, steps=10, seeds=2),
    "QueryMES": Case(partial(IndirectBranin, num_samples=60), 6.0, steps=6),
    "QueryUCB": Case(partial(IndirectBranin, num_samples=60, known=True), 6.0, steps=6),
    "QueryEI": Case(ShiftedPeak, 8.0, steps=8),
}
"""Every strategy, which a name begins with, on a problem that suits it."""

CASES = {
    **{f"headline/{name}": case for name, case in HEADLINE.items()},
    **{f"settings/{name}": case for name, case in SETTINGS.items()},
    **{f"values/{name}": case for name, case in VALUES.items()},
    **{f"strategies/{name}": replace(case, strategy=name.partition("-")[0]) for name, case in STRATEGIES.items()},
}
"""All of them."""
