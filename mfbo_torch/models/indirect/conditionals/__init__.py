"""What a query averages over: samples, windows, policies."""

from mfbo_torch.models.indirect.conditionals.base import Conditional
from mfbo_torch.models.indirect.conditionals.empirical import EmpiricalConditional
from mfbo_torch.models.indirect.conditionals.policy import PolicyConditional
from mfbo_torch.models.indirect.conditionals.windows import GaussianConditional, UniformConditional

__all__ = ["Conditional", "EmpiricalConditional", "GaussianConditional", "PolicyConditional", "UniformConditional"]
