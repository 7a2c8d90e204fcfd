"""Every strategy that must keep the contract: one row each, and a small problem to keep it on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from mfbo_torch import strategies
from mfbo_torch.history import History, Query
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.indirect import IndirectSpace, Samples, Window
from mfbo_torch.strategies.common.initial_design import sobol


def unchanged(space: Space) -> Space:
    return space


def averaged(space: Space) -> IndirectSpace:
    """The same queries, as averages over the unit cube near them that samples teach."""
    U = sobol(space.dim, 40, 0)
    A = space.from_unit(U)
    if space.num_fidelities > 1:
        A = torch.cat([A, torch.arange(40).remainder(space.num_fidelities).unsqueeze(-1)], -1)
    X = U + 0.05 * torch.randn(U.shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return IndirectSpace(space.parameters, space.costs, space.measured, inputs=U, feedback=Samples(X, A))


def windowed(space: Space) -> IndirectSpace:
    """The same queries, as averages over windows that halve from fidelity to fidelity."""
    window = Window([0.5**m for m in range(space.num_fidelities)])
    inputs = space.from_unit(sobol(space.dim, 40, 0))
    return IndirectSpace(space.parameters, space.costs, space.measured, inputs=inputs, feedback=window)


SPACE = Space((Parameter("width", -5.0, 10.0), Parameter("rate", 0.01, 100.0, log=True)), (1.0, 4.0))
ARMS = Space((Parameter("arm", -1, 4, integer=True),), (1.0, 4.0), zeta=(0.5, 0.0))


@dataclass(frozen=True, eq=False)
class Row:
    """A strategy under test.

    Args:
        label: Its name in the test's id.
        kind: Its class.
        settings: Those that make it quick.
        steps: Length of a run: a few decisions beyond the initial design.
        seeded: Whether its decisions depend on the seed.
        capital: What it is bound to; the toy costs are ``4^m``.
        space: Where it is tested. One that plays arms asks them again, and measures values by their own scale.
        repeats: Whether it asks a pending design again, by definition.
        adapt: From a plain space to one that it can search.
        most: Dimensions beyond which it has to be told how many children a cell has.
        slow: Whether a run takes seconds: its tests are in the slow part.
    """

    label: str
    kind: type[strategies.Strategy]
    settings: dict[str, Any] = field(default_factory=dict)
    steps: int = 9
    seeded: bool = True
    capital: float = 40.0
    space: Space = SPACE
    repeats: bool = False
    adapt: Callable[[Space], Space] = unchanged
    most: int = 100
    slow: bool = False

    def make(self, seed: int) -> strategies.Strategy:
        return self.kind(seed=seed, **self.settings)


SIMULATED = {"initial": 4, "batch_size": 3, "num_simulations": 8, "num_candidates": 64}
SEARCHED = {"initial_capital": 1.0, "num_restarts": 1}
GIBBON = {**SEARCHED, "num_candidates": 50, "raw_samples": 8, "max_iterations": 4}
GRADIENT = {**SEARCHED, "num_fantasies": 2, "raw_samples": 2, "max_iterations": 2}
ROWS = [
    Row("random", strategies.RandomSearch),
    Row("direct", strategies.Direct, seeded=False),
    Row("gp_ucb", strategies.GPUCB, {"initial": 4}),
    Row("ei", strategies.ExpectedImprovement, {"initial": 4}),
    Row("pi", strategies.ProbabilityOfImprovement, {"initial": 4}, slow=True),
    Row("GPBUCB", strategies.GPBUCB, {"initial": 4}),
    Row("GPBUCB-theory", strategies.GPBUCB, {"initial": 4, "beta": "theory", "initialisation": 2}, steps=8),
    Row("naive_repeat", strategies.NaiveRepeat, {"initial": 4}, steps=7, repeats=True),
    Row("naive_top", strategies.NaiveTop, {"initial": 4}, steps=7),
    Row("simulation_matching-ucb", strategies.SimulationMatching, {"policy": "ucb", **SIMULATED}),
    Row("simulation_matching-mei", strategies.SimulationMatching, {"policy": "mei", **SIMULATED}),
    Row("qucb", strategies.QUpperConfidenceBound, {"initial": 4, "samples": 16}, steps=6, slow=True),
    Row("qlogei", strategies.QLogExpectedImprovement, {"initial": 4, "samples": 16}, steps=6, slow=True),
    Row("mf_naive", strategies.MFNaive, {"initial": 4}, capital=12.0),
    Row("mf_naive_random", strategies.MFNaive, {"explore": "random"}, capital=12.0),
    Row("BOCA", strategies.BOCA, {"initial_capital": 2.0}, steps=8),
    Row("MFGPUCB", strategies.MFGPUCB, {"initial_capital": 2.0}, steps=8),
    Row("MFGPUCB-independent", strategies.MFGPUCB, {"link": "independent", "initial_capital": 2.0}, steps=8, slow=True),
    Row("mf_sko", strategies.MFSKO, {"initial_capital": 1.0}, steps=5, slow=True),
    Row("mf_gibbon", strategies.MFGIBBON, GIBBON, steps=5, slow=True),
    Row("mf_kg", strategies.MFKnowledgeGradient, GRADIENT, steps=4, slow=True),
    Row("freeze_thaw", strategies.FreezeThaw),
    Row("MFUCB", strategies.MFUCB, {"scale": 0.1}, steps=20, seeded=False, space=ARMS),
    Row("UCB", strategies.UCB, {"scale": 0.1}, steps=20, seeded=False, space=ARMS),
    Row("elimination", strategies.SuccessiveElimination, {"scale": 0.1}, steps=20, seeded=False, space=ARMS),
    Row("cmes", strategies.CMES, {"initial": 2}, steps=4, adapt=averaged),
    Row("cmes_all", strategies.CMES, {"resolutions": "all", "sampler": "gumbel"}, steps=3, adapt=averaged, slow=True),
    Row("cmets", strategies.CMETS, steps=5, seeded=False, adapt=averaged, most=8, slow=True),
    Row("shrinking_window", strategies.ShrinkingWindow, steps=4, adapt=windowed, slow=True),
    Row("query_mes", strategies.QueryMES, steps=3, adapt=averaged, slow=True),
    Row("query_ucb", strategies.QueryUCB, steps=3, adapt=averaged),
    Row("query_ei", strategies.QueryEI, steps=3, adapt=averaged),
]
DESIGN_ROWS = [row for row in ROWS if row.space is SPACE]
"""Those that look for a design."""
PLAIN_ROWS = [row for row in DESIGN_ROWS if row.adapt is unchanged]
"""Those that see the objective itself."""


def each(rows: list[Row]) -> list:
    """The rows as values of a parameter of tests."""
    return [pytest.param(row, id=row.label, marks=[pytest.mark.slow] * row.slow) for row in rows]


MIXED = Space(
    (Parameter("layers", 1, 6, integer=True), Parameter("rate", 1e-4, 1e2, log=True), Parameter("x", -3.0, 2.0)),
    (1.0, 4.0),
)


def box(dim: int, num_fidelities: int = 2) -> Space:
    """The unit cube with costs ``4^m``."""
    return Space.box([[0.0] * dim, [1.0] * dim], [4.0**m for m in range(num_fidelities)])


def toy(space: Space, scale: float = 1.0, shift: float = 0.0) -> Callable[[Query], float]:
    """A smooth objective whose fidelities differ by a small bias, times ``scale`` plus ``shift``."""

    def value(query: Query) -> float:
        u = space.to_unit(torch.tensor(query.x, dtype=torch.double))
        bias = 0.1 * (space.target - query.fidelity)
        return shift + scale * (-((u - 0.3 - bias) ** 2).mean().item() + 0.2 * bias * u[0].item())

    return value


def step(history: History, query: Query, space: Space, value: float | None) -> History:
    """The history with one more query, done, or failed where ``value`` is ``None``."""
    history = history.asked(query, space.costs[query.fidelity])
    record = history.records[-1]
    return history.updated(record.failed("a test") if value is None else record.done(value))


def loop(
    strategy: strategies.Strategy,
    objective: Callable[[Query], float | None],
    steps: int,
    history: History | None = None,
):
    """The history after ``steps`` sequential decisions."""
    history = history or History()
    for _ in range(steps):
        query = strategy.ask(history)[0]
        history = step(history, query, strategy.space, objective(query))
    return history
