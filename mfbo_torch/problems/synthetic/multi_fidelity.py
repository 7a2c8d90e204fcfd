"""The synthetic multi-fidelity functions of [Kandasamy2016mfgpucb], Appendix D.2, as BoTorch test functions."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.noise import drawn
from mfbo_torch.space import Parameter, Space, checked_costs
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number


def _unit_cube(dim: int) -> tuple[Parameter, ...]:
    return tuple(Parameter(f"x{i}", 0.0, 1.0) for i in range(1, dim + 1))


class SyntheticProblem(SyntheticTestFunction, Problem):
    """A closed-form problem that is a BoTorch test function as well.

    As a test function it takes ``... x (d + 1)`` tensors whose last column is the fidelity, an integer in ``0..M-1``;
    so ``dim`` is ``d + 1`` and ``bounds`` is ``2 x (d + 1)``. As a :class:`Problem` it takes the ``d`` design values
    and the fidelity apart. Both are maximised; ``negate`` turns both into minimisation, and :meth:`reward` turns back.

    Args:
        noise_std: Standard deviation of the observation noise, at every fidelity.
        negate: Whether to return the negative of the function, to be minimised.
        costs: ``M`` increasing costs; the paper's ``1, 10, 100, ...`` by default.
    """

    num_fidelities: ClassVar[int] = 2
    _design: ClassVar[tuple[Parameter, ...]]
    _worst: ClassVar[float]
    _is_minimization_by_default = False

    def __init__(
        self, noise_std: float | None = None, negate: bool = False, costs: Sequence[float] | None = None
    ) -> None:
        target = self.num_fidelities - 1
        if noise_std is not None:
            noise_std = number("noise_std", noise_std, 0)
        self.dim = len(self._design) + 1
        self.continuous_inds = list(range(self.dim - 1))
        self.discrete_inds = [self.dim - 1]
        self._bounds = [*((p.lower, p.upper) for p in self._design), (0.0, float(target))]
        super().__init__(noise_std=noise_std, negate=negate)
        chosen = checked_costs([10.0**m for m in range(target + 1)] if costs is None else costs)
        if len(chosen) != self.num_fidelities:
            raise SettingError("costs", list(chosen), f"{self.num_fidelities} numbers, one a fidelity")
        self.space = Space(self._design, chosen)
        self.maximize = not negate
        self.optimum = self.optimal_value
        self.worst = self.signed(self._worst)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        # A fidelity is a whole number, so no gradient leads to it.
        return self._value(X[..., :-1], X[..., -1].detach())

    @abstractmethod
    def _value(self, x: Tensor, fidelity: Tensor) -> Tensor:
        """Values (``...``) of designs (``... x d``) at fidelities (``...``)."""

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The function at ``x`` and ``fidelity``; a ``ValueError`` where ``x`` lies outside the bounds."""
        point, level = self.checked(x, fidelity)
        with torch.no_grad():
            return float(self(self.bounds.new_tensor([[*point, level]]), noise=False))

    def observe(self, x: Sequence[float], fidelity: int, number: int) -> float:
        return self.reward(x, fidelity) + (self.noise_std or 0.0) * drawn(self.trial, number)


class Currin(SyntheticProblem):
    r"""The Currin exponential function, ``d = 2``, ``M = 2``, on the unit square.

    .. math::
        f(x) = (1 - e^{-1/(2 x_2)}) \frac{2300 x_1^3 + 1900 x_1^2 + 2092 x_1 + 60}
               {100 x_1^3 + 500 x_1^2 + 4 x_1 + 20},

    with the limit 1 for the first factor at ``x_2 = 0``. The cheap fidelity is the mean of ``f`` over the four points
    ``x_1 ± 0.05``, ``x_2 + 0.05`` and ``max(0, x_2 - 0.05)``. The largest value is reached along the edge ``x_2 = 0``
    (to rounding, up to 0.013); the smallest, ``3 (1 - e^{-1/2})``, at ``(0, 1)`` by differential evolution.
    """

    _design = _unit_cube(2)
    _optimal_value = 13.798722044728435
    _optimizers: ClassVar[list[tuple[float, ...]]] = [(0.21666666666666667, 0.0, 1.0)]
    _worst = 1.18

    @staticmethod
    def _target(x1: Tensor, x2: Tensor) -> Tensor:
        # Below 0.01 the exponential is lost in rounding, and its gradient would be 0 * inf.
        factor = 1 - torch.exp(-0.5 / x2.clamp_min(0.01))
        top = ((2300 * x1 + 1900) * x1 + 2092) * x1 + 60
        return factor * top / (((100 * x1 + 500) * x1 + 4) * x1 + 20)

    def _cheap(self, x1: Tensor, x2: Tensor) -> Tensor:
        above, below = x2 + 0.05, (x2 - 0.05).clamp_min(0)
        corners = [self._target(x1 + step, other) for step in (0.05, -0.05) for other in (above, below)]
        return torch.stack(corners).mean(0)

    def _value(self, x: Tensor, fidelity: Tensor) -> Tensor:
        x1, x2 = x.unbind(-1)
        return torch.where(fidelity > 0, self._target(x1, x2), self._cheap(x1, x2))


class BadCurrin(Currin):
    """Currin with a cheap fidelity that misleads everywhere: the negative of the target."""

    def _cheap(self, x1: Tensor, x2: Tensor) -> Tensor:
        return -self._target(x1, x2)


class Park(SyntheticProblem):
    r"""The Park function, ``d = 4``, ``M = 2``, on the unit cube.

    .. math::
        f(x) = \tfrac12 (\sqrt{x_1^2 + (x_2 + x_3^2) x_4} - x_1) + (x_1 + 3 x_4) e^{1 + \sin x_3}

    (the paper's form times ``x_1 / x_1``, so that ``x_1 = 0`` is defined); the cheap fidelity is
    ``(1 + sin(x_1) / 10) f(x) - 2 x_1^2 + x_2^2 + x_3^2 + 0.5``. Every term of ``f`` is at least 0, which it is at
    ``x_1 = x_4 = 0``. The gradient is unbounded next to a zero of the root and taken as 0 on it.
    """

    _design = _unit_cube(4)
    _optimal_value = 25.58925415860655
    _optimizers: ClassVar[list[tuple[float, ...]]] = [(1.0, 1.0, 1.0, 1.0, 1.0)]
    _check_grad_at_opt = False
    _worst = 0.0

    def _value(self, x: Tensor, fidelity: Tensor) -> Tensor:
        x1, x2, x3, x4 = x.unbind(-1)
        square = x1.square() + (x2 + x3.square()) * x4
        positive = square > 0
        root = torch.where(positive, square, 1).sqrt() * positive
        target = (root - x1) / 2 + (x1 + 3 * x4) * torch.exp(1 + x3.sin())
        cheap = (1 + x1.sin() / 10) * target - 2 * x1.square() + x2.square() + x3.square() + 0.5
        return torch.where(fidelity > 0, target, cheap)


class Borehole(SyntheticProblem):
    r"""Flow of water through a borehole in cubic metres a year, ``d = 8``, ``M = 2``.

    .. math::
        f = \frac{a\, T_u (H_u - H_l)}{\log(r/r_w) (b + 2 L T_u / (\log(r/r_w) r_w^2 K_w) + T_u / T_l)}

    with ``a = 2 pi, b = 1`` at the target and ``a = 5, b = 1.5`` at the cheap fidelity. The parameters are the physical
    ones in metres, square metres a year and metres a year. The flow is monotone in each, so both extremes lie in
    corners; the smallest is 7.8197.
    """

    _design = (
        Parameter("rw", 0.05, 0.15),
        Parameter("r", 100.0, 50_000.0),
        Parameter("Tu", 63_070.0, 115_600.0),
        Parameter("Hu", 990.0, 1110.0),
        Parameter("Tl", 63.1, 116.0),
        Parameter("Hl", 700.0, 820.0),
        Parameter("L", 1120.0, 1680.0),
        Parameter("Kw", 9855.0, 12_045.0),
    )
    _optimal_value = 309.575587660408
    _optimizers: ClassVar[list[tuple[float, ...]]] = [
        (0.15, 100.0, 115_600.0, 1110.0, 116.0, 700.0, 1120.0, 12_045.0, 1.0)
    ]
    _check_grad_at_opt = False
    _worst = 7.8

    def _value(self, x: Tensor, fidelity: Tensor) -> Tensor:
        rw, r, Tu, Hu, Tl, Hl, L, Kw = x.unbind(-1)
        is_target = fidelity > 0
        scale = torch.where(is_target, x.new_tensor(2 * math.pi), x.new_tensor(5.0))
        offset = torch.where(is_target, x.new_tensor(1.0), x.new_tensor(1.5))
        log = torch.log(r / rw)
        return scale * Tu * (Hu - Hl) / (log * (offset + Tu / Tl) + 2 * L * Tu / (rw.square() * Kw))


class _Hartmann(SyntheticProblem):
    r"""Sums of four Gaussian humps whose heights depend on the fidelity.

    .. math::
        f^{(m)}(x) = \sum_i (\alpha_i + (M - m) \delta_i) e^{-\sum_j A_{ij} (x_j - P_{ij})^2},

    where ``m = 1..M`` is the paper's fidelity, one more than the index. All terms are positive at the target: 0 is a
    lower bound, and nearly attained in a corner.
    """

    _A: ClassVar[list[list[float]]]
    _P: ClassVar[list[list[int]]]
    _worst = 0.0

    def _value(self, x: Tensor, fidelity: Tensor) -> Tensor:
        alpha, delta = x.new_tensor([1.0, 1.2, 3.0, 3.2]), x.new_tensor([0.01, -0.01, -0.1, 0.1])
        steps = self.num_fidelities - 1 - fidelity.unsqueeze(-1)
        distance = (x.new_tensor(self._A) * (x.unsqueeze(-2) - 1e-4 * x.new_tensor(self._P)).square()).sum(-1)
        return ((alpha + steps * delta) * torch.exp(-distance)).sum(-1)


class Hartmann3(_Hartmann):
    """The Hartmann function on the unit cube, ``d = 3``, ``M = 3``; the cheaper, the more biased."""

    num_fidelities = 3
    _design = _unit_cube(3)
    _optimal_value = 3.8627797873326625
    _optimizers: ClassVar[list[tuple[float, ...]]] = [(0.11458887665506897, 0.55564889461693, 0.8525469846866774, 2.0)]
    _A: ClassVar[list[list[float]]] = [[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]
    _P: ClassVar[list[list[int]]] = [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]


class Hartmann6(_Hartmann):
    """The Hartmann function on the unit cube, ``d = 6``, ``M = 4``; the cheaper, the more biased."""

    num_fidelities = 4
    _design = _unit_cube(6)
    _optimal_value = 3.322368011415515
    _optimizers: ClassVar[list[tuple[float, ...]]] = [
        (
            0.20168951100670542,
            0.15001069182345797,
            0.476873974221897,
            0.27533243049405607,
            0.31165161660011324,
            0.6573005340656203,
            3.0,
        )
    ]
    _A: ClassVar[list[list[float]]] = [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
    _P: ClassVar[list[list[int]]] = [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]


class Illustration(SyntheticProblem):
    r"""A one-dimensional pair of fidelities to draw, ``d = 1``, ``M = 2``, on ``[0, 1]``.

    The paper draws such a pair (Figs. 2 and 6) without its formula; this one is ours:

    .. math:: f(x) = e^{-((x - 0.72)/0.11)^2} + 0.85\, e^{-((x - 0.27)/0.14)^2}

    and ``f(x) + zeta cos(2 pi (x - 0.27))`` at the cheap fidelity, which is off by ``zeta = 0.15`` at most and favours
    the wrong hump, near 0.27. The target is positive.
    """

    zeta: ClassVar[float] = 0.15
    _design = _unit_cube(1)
    _optimal_value = 1.0000277028607056
    _optimizers: ClassVar[list[tuple[float, ...]]] = [(0.7199923027470338, 1.0)]
    _worst = 0.0

    def _value(self, x: Tensor, fidelity: Tensor) -> Tensor:
        x1 = x[..., 0]
        target = torch.exp(-(((x1 - 0.72) / 0.11) ** 2)) + 0.85 * torch.exp(-(((x1 - 0.27) / 0.14) ** 2))
        return torch.where(fidelity > 0, target, target + self.zeta * torch.cos(2 * math.pi * (x1 - 0.27)))
