"""Maximising acquisition functions: BoTorch's ``optimize_acqf``, with a quicker loop for fused forms.

With a model whose posterior takes microseconds, four fifths of the time of ``optimize_acqf`` go into autograd, wrappers
and reshaping between two steps of L-BFGS-B. Where an acquisition function has a
:class:`~mfbo_torch.acquisition.fused.Fused` form the steps of all restarts are taken on its arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import botorch.optim
import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim.initializers import gen_batch_initial_conditions
from scipy.optimize import fmin_l_bfgs_b
from torch import Tensor

from mfbo_torch.acquisition import lbfgsb
from mfbo_torch.acquisition.fused import Fused, fused
from mfbo_torch.ops.prepared import Array
from mfbo_torch.utils.errors import SettingError

SIGNATURE = inspect.signature(botorch.optim.optimize_acqf)
ARGUMENTS = {
    "acq_function",
    "bounds",
    "q",
    "num_restarts",
    "raw_samples",
    "options",
    "post_processing_func",
    "batch_initial_conditions",
    "return_best_only",
    "return_acq_values",
    "sequential",
    "retry_on_optimization_warning",
}
"""Arguments that the fused loop takes; with others BoTorch's own function is called."""
OPTIONS = {"maxiter", "seed", "eta", "nonnegative", "alpha", "batch_limit", "init_batch_limit"}
"""Keys of ``options`` that the fused loop takes."""


@wraps(botorch.optim.optimize_acqf, assigned=("__annotations__",))
def optimize_acqf(*args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
    """BoTorch's ``optimize_acqf``, quicker for one point in a box.

    Arguments, result and starting points are those of ``botorch.optim.optimize_acqf``. For ``q = 1``, a finite box and
    an acquisition function with a fused form (:func:`mfbo_torch.acquisition.fused.fused`) all restarts are one batch of
    L-BFGS-B on arrays; a restart whose line search finds nothing better ends where it is. On a CUDA device each step is
    one graph (:mod:`mfbo_torch.ops.posterior.graphs`) and one copy back. Everything else (``q > 1``, fixed features,
    other generators or options, single precision, more data than a graph takes) is BoTorch's own call; so are linear
    constraints, as L-BFGS-B keeps to a box only.
    """
    given = {name: value for name, value in SIGNATURE.bind(*args, **kwargs).arguments.items() if _counts(name, value)}
    form = _fused_form(given)
    if form is None:
        return botorch.optim.optimize_acqf(*args, **kwargs)
    bounds, options = given["bounds"], given.get("options", {})
    lower, upper = bounds.cpu().numpy()
    starts = np.clip(_starts(form, given), lower, upper)
    X = np.clip(lbfgsb.minimized(form.descent, starts, lower, upper, options.get("maxiter", 2000)), lower, upper)
    values = form(X)
    points = torch.from_numpy(X).unsqueeze(-2).to(bounds)
    if "post_processing_func" in given:
        points = given["post_processing_func"](points)
        with torch.no_grad():
            values = given["acq_function"](points).cpu().numpy()
    found = torch.from_numpy(values).to(bounds)
    if given.get("return_best_only", True):
        best = found.argmax()
        points, found = points[best], found[best]
    return points, found if given.get("return_acq_values", True) else None


def _counts(name: str, value: Any) -> bool:
    """Whether an argument is other than if it was not given."""
    return value is not SIGNATURE.parameters[name].default and not (isinstance(value, dict | list) and not value)


def _fused_form(given: dict[str, Any]) -> Fused | None:
    """The fused form of the acquisition; ``None`` where the arguments are not for the loop."""
    bounds, starts = given["bounds"], given.get("batch_initial_conditions")
    known = given.keys() <= ARGUMENTS and given.get("options", {}).keys() <= OPTIONS and given["q"] == 1
    if not lbfgsb.known() or not known or "acq_function" not in given:
        return None
    if bounds.dim() != 2 or len(bounds) != 2 or bounds.dtype is not torch.double or not bounds.isfinite().all():
        return None
    if (bounds[0] > bounds[1]).any():
        raise SettingError("bounds", bounds.tolist(), "the lower ones, then the upper ones")
    if starts is None and "raw_samples" not in given:
        return None
    if starts is not None:
        rows = starts.dim() == 3 and starts.shape[1:] == (1, bounds.shape[1])
        alike = rows and (starts.device, starts.dtype) == (bounds.device, bounds.dtype)
        if not alike or (starts < bounds[0]).any() or (starts > bounds[1]).any():
            return None
    form = fused(given["acq_function"])
    return form if form is not None and form.outputs.device == bounds.device else None


def _starts(form: Fused, given: dict[str, Any]) -> Array:
    """Where the restarts begin, ``b x d``: those that are given, the rest as BoTorch chooses them."""
    starts = [part for part in (given.get("batch_initial_conditions"),) if part is not None]
    missing = given["num_restarts"] - sum(map(len, starts))
    if missing > 0 and "raw_samples" in given:
        arguments = (_Screen(form, given["acq_function"]), given["bounds"], 1, missing, given["raw_samples"])
        starts.append(gen_batch_initial_conditions(*arguments, options=given.get("options")))
    return torch.cat(starts).squeeze(-2).detach().cpu().numpy()


class _Screen(AcquisitionFunction):
    """The acquisition function, at few points from its fused form."""

    def __init__(self, form: Fused, acquisition: AcquisitionFunction) -> None:
        super().__init__(acquisition.model)
        self.form, self.acquisition = form, acquisition

    def forward(self, X: Tensor) -> Tensor:
        return self.form.at(X) if self.form.takes(X) else self.acquisition(X)


def climbed(descent: Callable[[Array], tuple[Array, Array]], starts: Array, held: Array, maxiter: int) -> Array:
    """Local minimisers ``b x d`` in the unit cube from ``b x d`` starts, the coordinates ``held`` fixed. ``descent``
    gives values ``b`` and gradients ``b x d`` at points; a restart takes at most ``maxiter`` steps."""

    def masked(X: Array, rows: list[int]) -> tuple[Array, Array]:
        value, gradient = descent(X)
        return value, np.where(held[rows], 0.0, gradient)

    if lbfgsb.known():
        zero = np.zeros(starts.shape[1])
        found = lbfgsb.minimized(masked, starts, zero, zero + 1.0, maxiter)
        return np.where(held, starts, np.clip(found, 0.0, 1.0))

    def total(x: Array) -> tuple[float, Array]:
        value, gradient = masked(x.reshape(starts.shape), [*range(len(starts))])
        return float(value.sum()), gradient.ravel()

    flat = fmin_l_bfgs_b(total, starts.ravel(), bounds=[(0.0, 1.0)] * starts.size, maxiter=maxiter)[0]
    return np.where(held, starts, np.clip(flat.reshape(starts.shape), 0.0, 1.0))
