"""The search space: parameters, conditions and constraints, fidelities and their costs."""

from mfbo_torch.space.fidelities import checked_costs, checked_zeta, named_fidelities
from mfbo_torch.space.indirect import IndirectSpace, Policy, Samples, Window
from mfbo_torch.space.parameter import Parameter
from mfbo_torch.space.space import Space

__all__ = [
    "IndirectSpace",
    "Parameter",
    "Policy",
    "Samples",
    "Space",
    "Window",
    "checked_costs",
    "checked_zeta",
    "named_fidelities",
]
