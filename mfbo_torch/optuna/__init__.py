"""The strategies as a sampler of Optuna, ``optuna.create_study(sampler=Sampler(fidelity="epochs"))``, and a pruner."""

from mfbo_torch.optuna.pruner import Pruner
from mfbo_torch.optuna.sampler import Sampler

__all__ = ["Pruner", "Sampler"]
