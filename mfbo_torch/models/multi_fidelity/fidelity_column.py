"""Exact GPs of BoTorch with a fidelity column, as models of several fidelities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from botorch.exceptions import InputDataError
from botorch.models import SingleTaskMultiFidelityGP
from botorch.models.model import Model
from botorch.posteriors import Posterior
from torch import Tensor

from mfbo_torch.models.gp.base import SingleOutputModel
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.input_checks import check_points
from mfbo_torch.models.multi_fidelity.base import at_every_fidelity
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, several

EXAMPLE = "FidelityColumn(model, [0.0, 0.5, 1.0]), the values that the last input column has, the target's last"


class FidelityColumn(SingleOutputModel):
    r"""An exact GP whose last input column is the fidelity, as a model of ``M`` fidelities by its joint posterior.

    Fidelity ``m`` is the GP at the column's ``m``-th value; deviations are conditioned on pending points at any of the
    fidelities through the joint covariance. The weight of a fidelity in the target depends on the design,
    :math:`c_m(x) = \mathrm{Cov}(f^{(m)}(x), f^{(M)}(x)) / \mathrm{Var} f^{(m)}(x)`.

    Args:
        model: An exact single-output GP of BoTorch, such as ``SingleTaskMultiFidelityGP``.
        fidelities: ``M`` values of the last column, the cheapest first, the target last. By default, for a
            ``SingleTaskMultiFidelityGP``, those of its data, the largest being the target.

    Raises:
        UnsupportedError: A model that is not an exact GP or has several outputs.
        SettingError: The fidelities of such a model are not known, or not finite numbers, each once.
    """

    def __init__(self, model: Model, fidelities: Sequence[float] | None = None) -> None:
        super().__init__()
        self.model = model if isinstance(model, CachedGP) else CachedGP(model)
        wanted = "finite numbers, each once, the target's last"
        found = _seen(self.model) if fidelities is None else fidelities
        self.fidelities = several("fidelities", found, number, wanted)
        if len(set(self.fidelities)) < len(self.fidelities):
            raise SettingError("fidelities", list(self.fidelities), wanted)
        self.num_fidelities, self.dim = len(self.fidelities), self.model.dim - 1

    @property
    def batch_shape(self) -> torch.Size:
        return self.model.batch_shape

    def posterior(self, *args: Any, **kwargs: Any) -> Posterior:
        """The wrapped model's, at ``b x q x (d + 1)`` points."""
        return self.model.posterior(*args, **kwargs)

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.model.joint(X)

    def mean_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of every fidelity, two ``... x q x M`` tensors, at ``... x q x d`` designs.
        ``...`` is broadcast with the batch shape."""
        points, batch = at_every_fidelity(X, torch.tensor(self.fidelities)), self.batch_shape
        if batch:  # a design meets all models of the batch
            points = points[(None,) * (len(batch) + 3 - points.dim())].movedim(-3, 0)
        mean, covariance, _ = self.model.joint(points)
        variance = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)
        return (mean.movedim(0, -2), variance.movedim(0, -2)) if batch else (mean, variance)

    def slopes_at(self, x: Tensor) -> Tensor:
        """``M`` weights of each fidelity in the target at a ``1 x d`` design, the last one 1; 0 for one without
        variance."""
        _, covariance, _ = self.model.joint(at_every_fidelity(x, torch.tensor(self.fidelities)))
        own = covariance[0].diagonal()
        weights = torch.where(own > 0, covariance[0, -1] / own, 0.0)
        weights[-1] = 1.0
        return weights

    def hallucinate(self, X_pending: Tensor | None, former: Any = None) -> Self:
        """This model with deviations also conditioned on ``p x (d + 1)`` pending points; errors as of
        :meth:`ConditionedModel.hallucinate`, also for a fidelity that is none of :attr:`fidelities`."""
        if X_pending is None or not len(X_pending):
            return self
        X = check_points("X_pending", X_pending, self.dim + 1)
        if strange := set(X[:, -1].tolist()) - set(torch.tensor(self.fidelities).to(X).tolist()):
            wanted = f"one of {', '.join(f'{value:g}' for value in self.fidelities)}"
            raise InputDataError(f"X_pending: fidelity {strange.pop():g}: must be {wanted}")
        return type(self)(self.model.hallucinate(X), self.fidelities)


def with_fidelities(model: Any) -> Any:
    """A model of several fidelities: itself, or a :class:`FidelityColumn` of it, with the errors of that."""
    return model if hasattr(model, "num_fidelities") else FidelityColumn(model)


def target_of(model: Any) -> float:
    """The value that the last column has at the target."""
    fidelities = getattr(model, "fidelities", None) or range(model.num_fidelities)
    return fidelities[-1]


def _seen(model: CachedGP) -> list[float]:
    """The values that the fidelity has in the data."""
    inner, width = model.model, model.dim
    if not isinstance(inner, SingleTaskMultiFidelityGP):
        raise SettingError("model", type(inner).__name__, f"told its fidelities: {EXAMPLE}")
    known = inner._init_args
    iteration = known["iteration_fidelity"]
    columns = [*(known["data_fidelities"] or ()), *([iteration] if iteration else ())]
    if [column % width for column in columns] != [width - 1]:
        raise SettingError("data_fidelities", columns, f"[{width - 1}], the last column alone")
    return sorted(set(model.data_inputs[..., -1].flatten().tolist()))
