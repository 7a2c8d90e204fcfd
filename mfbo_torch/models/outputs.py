"""A model's outputs at a few points with their gradients, where these have a closed form."""

from __future__ import annotations

from botorch.models.model import Model
from botorch.settings import propagate_grads

from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.gp.exact import current_state
from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.posterior.fused import Outputs, plain

LINEAR_LINKS = ("recursive", "independent")
"""Links whose outputs are linear in independent processes."""


def factors(model: Model) -> tuple[Cache, ...] | None:
    """The factors that a model's outputs at points in the user's units come from; ``None`` where it has none."""
    if isinstance(model, CachedGP):
        state = current_state(model._wrapped)
        closed = state.cache is not None and not state.transforms and not propagate_grads.on()
        return (model._with_pending(state.cache),) if closed else None
    if isinstance(model, PerFidelityGP) and model.link in LINEAR_LINKS and not model.batch_shape:
        closed = "input_transform" not in model._modules and model.coupled is None
        return model.caches if closed else None
    return None


def outputs(model: Model, caches: tuple[Cache, ...]) -> Outputs | None:
    """The outputs of a model, of its :func:`factors`; ``None`` where these are not on the processor in double
    precision, or have a gradient themselves."""
    if not all(plain(cache.inverse) and not cache.differentiable for cache in caches):
        return None
    processes = [process for cache in caches for process in cache.prepared.processes]
    if isinstance(model, PerFidelityGP):
        weights, offsets = (part.numpy() for part in model._weights())
        return Outputs(processes, weights, offsets[:, None])
    return Outputs(processes)
