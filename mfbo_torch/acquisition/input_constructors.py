"""How BoTorch and Ax construct the acquisition functions of this room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botorch.acquisition.input_constructors import acqf_input_constructor
from torch import Tensor

from mfbo_torch.acquisition.conditional_mes import ConditionalMaxValueEntropy
from mfbo_torch.models.deconditional import DeconditionalGP


@acqf_input_constructor(ConditionalMaxValueEntropy)
def conditional_max_value_entropy(
    model: DeconditionalGP,
    candidate_set: Tensor,
    num_max_value_samples: int = 10,
    sampler: str = "thompson",
    form: str = "truncated",
    cost: Callable[[Tensor], Tensor] | None = None,
    noise: Callable[[Tensor], Tensor] | None = None,
    X_pending: Tensor | None = None,
    log: bool = False,
    target_fidelities: dict[int, float] | None = None,
) -> dict[str, Any]:
    """Arguments of :class:`ConditionalMaxValueEntropy`; queries have no fidelity, so there is no target one."""
    return {
        "model": model,
        "candidate_set": candidate_set,
        "num_max_value_samples": num_max_value_samples,
        "sampler": sampler,
        "form": form,
        "cost": cost,
        "noise": noise,
        "X_pending": X_pending,
        "log": log,
    }
