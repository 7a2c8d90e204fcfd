"""The strategies as a sampler of Optuna: ``optuna.create_study(sampler=Sampler(fidelity="epochs"))``."""

from mfbo_torch.optuna.sampler import Sampler

__all__ = ["Sampler"]
