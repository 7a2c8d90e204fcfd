"""How BoTorch, and Ax through it, makes the arguments of the acquisition functions here.

Both name ``X_pending`` and ``target_fidelities``, which are passed as soon as a trial is pending or a
parameter is a fidelity. Points are pending on all fidelities; the target is always the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.acquisition._settings import scalar_of
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.acquisition.multi_fidelity_ucb import MultiFidelityUpperConfidenceBound
from mfbo_torch.errors import SettingError
from mfbo_torch.models.per_fidelity import PerFidelityGP

BETA = 0.2
"""BoTorch's own default for ``UpperConfidenceBound``."""


@acqf_input_constructor(HallucinatedUpperConfidenceBound)
def construct_inputs_hallucinated_ucb(
    model: Model,
    beta: float = BETA,
    X_pending: Tensor | None = None,
    target_fidelities: Mapping[int, float] | None = None,
    posterior_transform: PosteriorTransform | None = None,
) -> dict[str, Any]:
    """Arguments of :class:`HallucinatedUpperConfidenceBound`.

    Args:
        model: An exact single-output GP.
        beta: Squared width of the confidence band.
        X_pending: ``p x d`` points whose values are still out.
        target_fidelities: Not used: to this bound a fidelity is an input like the others.
        posterior_transform: A weight of the one outcome.
    """
    return {"model": model, "beta": beta, "X_pending": X_pending, "posterior_transform": posterior_transform}


@acqf_input_constructor(MultiFidelityUpperConfidenceBound)
def construct_inputs_multi_fidelity_ucb(
    model: PerFidelityGP,
    beta: float = BETA,
    zeta: Sequence[float] | None = None,
    X_pending: Tensor | None = None,
    target_fidelities: Mapping[int, float] | None = None,
    posterior_transform: PosteriorTransform | None = None,
) -> dict[str, Any]:
    """Arguments of :class:`MultiFidelityUpperConfidenceBound`.

    Args:
        model: A model of ``M`` fidelities.
        beta: Squared width of the confidence band.
        zeta: ``M`` bounds, or ``None`` for the target's own bound.
        X_pending: ``p x (d + 1)`` points whose values are still out.
        target_fidelities: Column and value of the target: the last ones, ``{d: M - 1}``.
        posterior_transform: One that changes nothing.

    Raises:
        SettingError: Another column or another value of the target.
        UnsupportedError: A transform that weighs or shifts the outcome.
    """
    top = model.num_fidelities - 1
    for column, value in (target_fidelities or {}).items():
        if column not in (-1, model.dim) or value != top:
            raise SettingError("target_fidelities", dict(target_fidelities or {}), f"{{{model.dim}: {top}}}")
    if scalar_of(posterior_transform) != (1.0, 0.0):
        raise UnsupportedError("posterior_transform: must have weight 1, negate the observations to minimise")
    return {"model": model, "beta": beta, "zeta": zeta, "X_pending": X_pending}
