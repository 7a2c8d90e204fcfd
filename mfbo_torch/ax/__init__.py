"""The strategies in Ax, the experiment manager: ``pip install mfbo-torch[ax]``.

Importing this registers everything Ax needs to store and load what is here, in JSON and in SQL.
"""

try:
    import ax  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "ax":
        raise
    raise ModuleNotFoundError("mfbo_torch.ax needs Ax: pip install mfbo-torch[ax]", name="ax") from error

from mfbo_torch.app.builder import trust
from mfbo_torch.ax.acquisition import MultiFidelityAcquisition, modular_node
from mfbo_torch.ax.analysis import ValueAgainstCost
from mfbo_torch.ax.best import BestInput, BestPoint, FrontPoint, best_front, best_point
from mfbo_torch.ax.client import multi_fidelity_client
from mfbo_torch.ax.node import StrategyNode
from mfbo_torch.ax.storage import register
from mfbo_torch.ax.warm import attach_observations

register()

__all__ = [
    "BestInput",
    "BestPoint",
    "FrontPoint",
    "MultiFidelityAcquisition",
    "StrategyNode",
    "ValueAgainstCost",
    "attach_observations",
    "best_front",
    "best_point",
    "modular_node",
    "multi_fidelity_client",
    "trust",
]
