"""Input constructors: how BoTorch, and Ax through it, makes the arguments of these acquisition functions.

All name ``X_pending`` and ``target_fidelities``, which are passed as soon as a trial is pending or a
parameter is a fidelity. The target is the last fidelity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature, signature
from typing import Any

from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.acquisition.conditional_mes import ConditionalMaxValueEntropy
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound, scalar_of
from mfbo_torch.acquisition.multi_fidelity_ucb import MultiFidelityUpperConfidenceBound
from mfbo_torch.models.multi_fidelity.fidelity_column import target_of, with_fidelities
from mfbo_torch.utils.errors import SettingError

BETA = 0.2
"""BoTorch's own default for ``UpperConfidenceBound``."""


def _register(acquisition: type[AcquisitionFunction], **defaults: Any) -> None:
    """Register the constructor of an acquisition that has no fidelity, or to which it is an input like the others."""

    def construct_inputs(model: Model, *, target_fidelities: Any = None, **others: Any) -> dict[str, Any]:
        return {"model": model, **defaults, **others}

    # BoTorch passes on what the signature names: all arguments of the class, and the target's fidelities
    target = Parameter("target_fidelities", Parameter.KEYWORD_ONLY, default=None)
    parameters = [*signature(acquisition).parameters.values(), target]
    construct_inputs.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    acqf_input_constructor(acquisition)(construct_inputs)


_register(HallucinatedUpperConfidenceBound, beta=BETA)
_register(ConditionalMaxValueEntropy)


class Negated:
    """The model of ``-f``, as far as the multi-fidelity bound needs it, from that of ``f``."""

    def __init__(self, model: Any) -> None:
        self.model, self.fidelities = model, getattr(model, "fidelities", None)
        self.num_fidelities, self.dim, self.batch_shape = model.num_fidelities, model.dim, model.batch_shape

    def hallucinate(self, X_pending: Tensor | None) -> Negated:
        """The same with deviations conditioned on pending points."""
        return Negated(self.model.hallucinate(X_pending))

    def mean_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of ``-f`` at every fidelity."""
        mean, variance = self.model.mean_variance(X)
        return -mean, variance


@acqf_input_constructor(MultiFidelityUpperConfidenceBound)
def construct_inputs_multi_fidelity_ucb(
    model: Model,
    beta: float = BETA,
    zeta: Sequence[float] | None = None,
    X_pending: Tensor | None = None,
    target_fidelities: Mapping[int, float] | None = None,
    posterior_transform: PosteriorTransform | None = None,
) -> dict[str, Any]:
    """Arguments of :class:`MultiFidelityUpperConfidenceBound`. A transform with a negative weight minimises; one that
    is not one weight raises an ``UnsupportedError``, ``target_fidelities`` other than the last column and its value at
    the target, ``{d: M - 1}`` for a model of this package, a ``SettingError``."""
    known = with_fidelities(model)
    target = {known.dim: target_of(known)}
    if target_fidelities is not None and {i % (known.dim + 1): t for i, t in target_fidelities.items()} != target:
        raise SettingError("target_fidelities", dict(target_fidelities), str(target))
    return {
        "model": known if scalar_of(posterior_transform)[0] > 0 else Negated(known),
        "beta": beta,
        "zeta": zeta,
        "X_pending": X_pending,
    }
