"""MF-GP-UCB with a small initial design, its model, and the largest of its bound."""

import torch
from botorch.acquisition import AcquisitionFunction
from strategy_table import SPACE, step, toy

from mfbo_torch.history import History, Query
from mfbo_torch.models import PerFidelityGP
from mfbo_torch.space import Space
from mfbo_torch.strategies import MFGPUCB

LINKS = ("recursive", "independent")


def strategy(link: str, space: Space = SPACE, capital: float | None = None, **settings) -> MFGPUCB:
    return MFGPUCB(link=link, **{"initial_capital": 2.0, **settings}).bind(space, capital)


def model_of(asks: MFGPUCB, history: History) -> PerFidelityGP:
    return asks.rule.model(asks.snapshot(history))


def designed(asks: MFGPUCB, objective=None) -> History:
    """The history at the end of the initial design."""
    objective, history = objective or toy(asks.space), History()
    while (query := asks.ask(history)[0]).meta["stage"] == "initial":
        history = step(history, query, asks.space, objective(query))
    return history


def check_largest(acquisition: AcquisitionFunction, query: Query, space: Space, tolerance: float = 1e-4) -> None:
    """No design of a random grid has a larger value than that of the query, but for the tolerance."""
    grid = torch.rand(2000, 1, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    with torch.no_grad():
        own = acquisition(space.to_unit(torch.tensor([query.x], dtype=torch.double)).unsqueeze(-2))
        assert own >= acquisition(grid).max() - tolerance
