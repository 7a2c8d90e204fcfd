"""Concentration of the mean of an arm's rewards: ψ, its inverse, and the widths of multi-fidelity bandits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, whole

KINDS = ("gaussian", "bounded")
CONTRADICTION = 0.01
"""Probability, over all arms, fidelities and times, that observations that keep ζ are found to contradict it."""


class Tail:
    r"""A bound on the tails of a mean of ``s`` rewards [Kandasamy2016mfucb]_ (Eq. 2).

    :math:`P(|\bar X_s - \mu| > \epsilon) < 2 e^{-s \psi(\epsilon)}`.

    Args:
        psi: ``ψ``, increasing from ``ψ(0) = 0``, of double tensors.
        inverse: ``ψ^{-1}`` of double tensors, increasing in floating point too; infinity stays infinite. If it is no
            inverse, a ``SettingError``.
        interval: Where every reward must lie.
    """

    def __init__(
        self,
        psi: Callable[[Tensor], Tensor],
        inverse: Callable[[Tensor], Tensor],
        interval: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        self.psi, self.inverse, self.interval = psi, inverse, interval
        epsilon = torch.logspace(-3, 0, 16, dtype=torch.double)
        levels = psi(epsilon)
        there_and_back = torch.allclose(inverse(levels), epsilon, rtol=1e-6, atol=0.0)
        ends = inverse(torch.tensor([0.0, math.inf], dtype=torch.double)).tolist()
        if not (levels.diff() > 0).all() or not there_and_back or ends != [0.0, math.inf]:
            raise SettingError("psi", (psi, inverse), "an increasing function from psi(0) = 0 on and its inverse")


class SubGaussian(Tail):
    """Sub-Gaussian rewards, ``ψ(ε) = ε² / (2 σ²)``.

    Args:
        scale: ``σ``, above 0, in the unit of the rewards.
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.factor = 2.0 * number("scale", scale, above=0, wanted="a positive number") ** 2
        super().__init__(self._psi, self._inverse)

    def _psi(self, epsilon: Tensor) -> Tensor:
        return epsilon**2 / self.factor

    def _inverse(self, level: Tensor) -> Tensor:
        return rounded_sqrt(level * self.factor)


def rounded_sqrt(x: Tensor) -> Tensor:
    """Square roots rounded correctly, so that they are increasing and the same on every device. Torch's own are on
    CUDA; on a CPU they may be a unit in the last place off, which breaks a tie between arms another way."""
    return torch.as_tensor(np.sqrt(x.numpy())) if x.device.type == "cpu" else x.sqrt()


class Bounded(SubGaussian):
    """Rewards in ``[0, 1]``, ``ψ(ε) = 2 ε²`` by Hoeffding's inequality."""

    def __init__(self) -> None:
        super().__init__(0.5)
        self.interval = (0.0, 1.0)


def tail_of(rewards: str | Tail, scale: float | None) -> Tail:
    """The tail of ``"gaussian"`` rewards of a scale, 1 if not given, of ``"bounded"`` ones (in ``[0, 1]``), or a
    :class:`Tail` itself. A ``SettingError`` for anything else, or a scale of those that have none."""
    if rewards == "gaussian":
        return SubGaussian(1.0 if scale is None else scale)
    if scale is not None:
        raise SettingError("scale", scale, "left out unless rewards is 'gaussian'")
    if rewards == "bounded":
        return Bounded()
    if not isinstance(rewards, Tail):
        raise SettingError("rewards", rewards, f"{', '.join(map(repr, KINDS))} or a Tail")
    return rewards


def switching_thresholds(costs: Sequence[float], zeta: Sequence[float], tail: Tail) -> Tensor:
    r"""``M - 1`` widths below which a fidelity is left,
    :math:`\psi^{-1}\left(\lambda^{(m)} \psi(\zeta^{(m)}) / \lambda^{(m+1)}\right)` [Kandasamy2016mfucb]_ (Eq. 4)."""
    price = torch.tensor(tuple(costs), dtype=torch.double)
    return tail.inverse(price[:-1] / price[1:] * tail.psi(torch.tensor(tuple(zeta)[:-1], dtype=torch.double)))


def decays_fast(zeta: Sequence[float], tail: Tail) -> bool:
    r"""Whether :math:`\sum_{i \le m} 1 / \psi(\zeta^{(i)}) \le 1 / \psi(\zeta^{(m+1)})` for every ``m < M``, up to
    rounding [Kandasamy2016mfucb]_ (Assumption 1)."""
    inverse = 1.0 / tail.psi(torch.tensor(tuple(zeta), dtype=torch.double))
    return bool((inverse.cumsum(0)[:-1] <= inverse[1:] * (1 + 1e-9)).all())


def anytime_width(plays: Tensor, cells: int, tail: Tail, delta: float) -> Tensor:
    r"""Half-widths :math:`\psi^{-1}\left(\log(2 c\, T (T + 1) / \delta) / T\right)` that hold after every number ``T``
    of plays, of every one of ``c = cells`` means at once, but with probability ``δ``, by a union bound over the means,
    both sides and all ``T`` (:math:`\sum_T 1 / (T (T + 1)) = 1`); infinite before the first."""
    known, share = plays.clamp_min(1.0), 2.0 * whole("cells", cells) / number("delta", delta, above=0, below=1)
    level = (share * known * (known + 1.0)).log() / known
    return torch.where(plays > 0, tail.inverse(level), math.inf)
