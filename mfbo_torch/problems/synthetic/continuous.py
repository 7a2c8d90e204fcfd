"""Synthetic functions with a continuous fidelity, after those of [Kandasamy2017boca]."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from mfbo_torch.problems.synthetic.multi_fidelity import Borehole, Currin, Hartmann3, Hartmann6, SyntheticProblem
from mfbo_torch.space import Parameter
from mfbo_torch.space.continuous_fidelity import LEVELS
from mfbo_torch.utils.validation import whole


class ContinuousProblem(SyntheticProblem):
    r"""A function :math:`g(z, x)` with a fidelity ``z`` in ``[0, 1]``, the target being 1.

    The functions, their perturbations and costs are those of the authors' package [Kandasamy2020dragonfly]_. Where it
    has ``p`` fidelities this is the diagonal of their cube, all of them equal to ``z``. A query costs
    :math:`\lambda(z) = 0.1 + \frac{0.9}{p} \sum_i z^{a_i}`.

    Args:
        levels: Number of values of ``z``, at least 2, evenly from 0 to 1; with 3 there are three discrete fidelities.
    """

    powers: ClassVar[tuple[float, ...]] = (2.0,)

    def __init__(self, levels: int = LEVELS, noise_std: float | None = None, negate: bool = False) -> None:
        self.levels = self.num_fidelities = whole("levels", levels, 2)  # type: ignore[misc]
        z = torch.linspace(0.0, 1.0, self.levels, dtype=torch.double)
        costs = 0.1 + 0.9 * torch.stack([z**power for power in self.powers]).mean(0)
        super().__init__(noise_std, negate, costs.tolist())
        self.optimizers[:, -1] = self.levels - 1

    def _value(self, x: Tensor, fidelity: Tensor) -> Tensor:
        return self._at(x, fidelity / (self.levels - 1))

    def _at(self, x: Tensor, z: Tensor) -> Tensor:
        raise NotImplementedError


class ContinuousCurrin(ContinuousProblem, Currin):
    r"""Currin's function with :math:`1 - \alpha(z) e^{-1/(2 x_2)}` for its first factor, ``d = 2``.

    :math:`\alpha(z) = 1 - 0.1 (1 - z)`, so that the target is :class:`~mfbo_torch.problems.Currin`'s.
    """

    def _at(self, x: Tensor, z: Tensor) -> Tensor:
        x1, x2 = x.unbind(-1)
        decay = torch.exp(-0.5 / x2.clamp_min(0.01))
        return self._target(x1, x2) * (1 + 0.1 * (1 - z) * decay / (1 - decay))


class ContinuousBranin(ContinuousProblem):
    r"""The negative of Branin's function with coefficients that depend on the fidelity, ``d = 2``, ``p = 3``.

    .. math::
        -\bigl( (x_2 - b(z) x_1^2 + c(z) x_1 - 6)^2 + 10 (1 - t(z)) \cos x_1 + 10 \bigr),

    :math:`b = 5.1 / 4 \pi^2 - 0.01 (1 - z)`, :math:`c = 5 / \pi - 0.1 (1 - z)`, :math:`t = 1 / 8 \pi + 0.005 (1 - z)`.
    """

    powers = (3.0, 2.0, 1.5)
    _design = (Parameter("x1", -5.0, 10.0), Parameter("x2", 0.0, 15.0))
    _optimal_value = -0.39788735772973816
    _optimizers: ClassVar[list[tuple[float, ...]]] = [(math.pi, 2.275, 1.0)]
    _worst = -310.0

    def _at(self, x: Tensor, z: Tensor) -> Tensor:
        x1, x2 = x.unbind(-1)
        b, c = 5.1 / (4 * math.pi**2) - 0.01 * (1 - z), 5 / math.pi - 0.1 * (1 - z)
        t = 1 / (8 * math.pi) + 0.005 * (1 - z)
        return -((x2 - b * x1.square() + c * x1 - 6).square() + 10 * (1 - t) * x1.cos() + 10)


class _ContinuousHartmann(ContinuousProblem):
    r"""Hartmann's function with :math:`\alpha_i(z) = \alpha_i - 0.1 (1 - z)`."""

    _A: ClassVar[list[list[float]]]
    _P: ClassVar[list[list[int]]]

    def _at(self, x: Tensor, z: Tensor) -> Tensor:
        alpha = x.new_tensor([1.0, 1.2, 3.0, 3.2]) - 0.1 * (1 - z.unsqueeze(-1))
        distance = (x.new_tensor(self._A) * (x.unsqueeze(-2) - 1e-4 * x.new_tensor(self._P)).square()).sum(-1)
        return (alpha * torch.exp(-distance)).sum(-1)


class ContinuousHartmann3(_ContinuousHartmann, Hartmann3):
    r"""Hartmann's function with :math:`\alpha_i(z) = \alpha_i - 0.1 (1 - z)`, ``d = 3``, ``p = 4``."""

    powers = (3.0, 2.0, 1.6, 1.2)


class ContinuousHartmann6(_ContinuousHartmann, Hartmann6):
    r"""Hartmann's function with :math:`\alpha_i(z) = \alpha_i - 0.1 (1 - z)`, ``d = 6``, ``p = 4``."""

    powers = (3.0, 2.0, 1.6, 1.2)


class ContinuousBorehole(ContinuousProblem, Borehole):
    r""":math:`z f + (1 - z) f_0` with the two fidelities of :class:`~mfbo_torch.problems.Borehole`, ``d = 8``."""

    def _at(self, x: Tensor, z: Tensor) -> Tensor:
        ones = torch.ones_like(z)
        return z * Borehole._value(self, x, ones) + (1 - z) * Borehole._value(self, x, 0 * ones)
