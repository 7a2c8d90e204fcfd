"""Closed forms of the suite: each takes ``n x d`` designs and a fidelity and gives ``n`` values to be maximised.

Where a source minimises, these are the negatives of its functions. Fidelity 0 is the cheapest, the last the target.

References:

.. [Mainini2022benchmarks]
    L. Mainini, A. Serani, M. P. Rumpfkeil, E. Minisci, D. Quagliarella, H. Pehlivan, S. Yildiz, S. Ficini,
    R. Pellegrini, F. Di Fiore, D. Bryson, M. Nikbay, M. Diez, P. Beran. Analytical Benchmark Problems for
    Multifidelity Optimization Methods. arXiv 2204.07867, 2022. Most of them again, numbered as here, in F. Di Fiore,
    M. Nardelli, L. Mainini. Active Learning and Bayesian Optimization: A Unified Perspective to Learn with a Goal.
    Archives of Computational Methods in Engineering 31, 2024.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array, int], Array]


def forrester(x: Array, fidelity: int) -> Array:
    r"""Four fidelities of Forrester's function [Mainini2022benchmarks]_.

    From the target :math:`f` down: the negatives of :math:`f = (6x - 2)^2 \sin(12x - 4)`,
    :math:`(5.5x - 2.5)^2 \sin(12x - 4)`, :math:`0.75 f + 5 (x - 0.5) - 2`, :math:`0.5 f + 10 (x - 0.5) - 5`.
    """
    x = x[:, 0]
    wave = np.sin(12 * x - 4)
    target = (6 * x - 2) ** 2 * wave
    values = (
        0.5 * target + 10 * (x - 0.5) - 5,
        0.75 * target + 5 * (x - 0.5) - 2,
        (5.5 * x - 2.5) ** 2 * wave,
        target,
    )
    return -values[fidelity]


def forrester_pair(x: Array, fidelity: int) -> Array:
    """Forrester's function and the cheapest of its four fidelities."""
    return forrester(x, 3 if fidelity else 0)


def jump_forrester(x: Array, fidelity: int) -> Array:
    r"""Forrester's function with a jump of 10 behind ``x = 0.5`` [Mainini2022benchmarks]_.

    The negatives of :math:`f = (6x - 2)^2 \sin(12x - 4)`, plus 10 for :math:`x > 0.5`; and, cheap, of
    :math:`0.5 f + 10 (x - 0.5) - 5`, plus 3 for :math:`x > 0.5`.
    """
    x = x[:, 0]
    behind = x > 0.5
    target = (6 * x - 2) ** 2 * np.sin(12 * x - 4) + 10 * behind
    return -(target if fidelity else 0.5 * target + 10 * (x - 0.5) - 5 + 3 * behind)


def rosenbrock(x: Array, fidelity: int) -> Array:
    r"""Three fidelities of Rosenbrock's function [Mainini2022benchmarks]_.

    From the target down, the negatives of

    .. math::
        f = \sum_i 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2, \qquad
        \sum_i 50 (x_{i+1} - x_i^2)^2 + (-2 - x_i)^2 - \sum_j 0.5 x_j, \qquad
        \frac{f - 4 - \sum_j 0.5 x_j}{10 + \sum_j 0.25 x_j}

    with ``i`` up to ``d - 1`` and ``j`` up to ``d``.
    """
    total, here = x.sum(-1), x[:, :-1]
    bend = ((x[:, 1:] - here**2) ** 2).sum(-1)
    target = 100 * bend + ((1 - here) ** 2).sum(-1)
    if fidelity == 1:
        return -(50 * bend + ((-2 - here) ** 2).sum(-1) - 0.5 * total)
    return -target if fidelity else -(target - 4 - 0.5 * total) / (10 + 0.25 * total)


def rastrigin(x: Array, fidelity: int) -> Array:
    r"""Three fidelities of a shifted and rotated Rastrigin function [Mainini2022benchmarks]_.

    The negative of :math:`\sum_i z_i^2 + 1 - \cos(10 \pi z_i)` with :math:`z = R (x - 0.1)`, ``R`` turning the planes
    (1, 2), (2, 3), ... by 0.2 one after another (the source tells ``R`` for ``d = 2``), plus a resolution error
    :math:`\sum_i \Theta \cos^2(10 \pi \Theta z_i + 0.5 \pi \Theta + \pi)` where :math:`\Theta` is 0 at the target, then
    0.5, then 0.75.
    """
    z = (x - 0.1) @ turn(x.shape[1], 0.2).T
    theta = (0.75, 0.5, 0.0)[fidelity]
    error = theta * np.cos(10 * np.pi * theta * z + 0.5 * np.pi * theta + np.pi) ** 2
    return -(z**2 + 1 - np.cos(10 * np.pi * z) + error).sum(-1)


@cache
def turn(dim: int, angle: float) -> Array:
    """The rotation by an angle in the planes of neighbouring axes, one after another."""
    whole = np.eye(dim)
    for i in range(dim - 1):
        plane = np.eye(dim)
        plane[i : i + 2, i : i + 2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        whole = plane @ whole
    return whole


def alos(x: Array, fidelity: int) -> Array:
    r"""Heterogeneous functions, rough on one side and smooth on the other [Mainini2022benchmarks]_.

    With one parameter the negatives of :math:`f = \sin(30 (x - 0.9)^4) \cos(2 (x - 0.9)) + (x - 0.9) / 2` and, cheap,
    :math:`(f - 1 + x) / (1 + 0.25 x)`. With two or three

    .. math::
        f = \sin(21 (x_1 - 0.9)^4) \cos(2 (x_1 - 0.9)) + (x_1 - 0.7)/2 + \sum_{i \ge 2} i x_i^i \sin(x_1 \cdots x_i)

    and :math:`(f - 2 + \sum_i x_i) / (5 + 0.25 x_1 + 0.5 x_2 - 0.75 x_3)`.
    """
    dim, first = x.shape[1], x[:, 0]
    alone = dim == 1
    target = np.sin((30 if alone else 21) * (first - 0.9) ** 4) * np.cos(2 * (first - 0.9))
    target = target + (first - (0.9 if alone else 0.7)) / 2
    for i in range(2, dim + 1):
        target = target + i * x[:, i - 1] ** i * np.sin(x[:, :i].prod(-1))
    if fidelity:
        return -target
    bias, scale = (-1, 1) if alone else (-2, 5)
    return -(target + bias + x.sum(-1)) / (scale + x @ np.array([0.25, 0.5, -0.75])[:dim])


def spring_mass(x: Array, fidelity: int) -> Array:
    r"""Where the first of two masses between springs is after six seconds [Mainini2022benchmarks]_.

    The negative of :math:`u_1(6)`, of :math:`m_1 u_1'' = -(k_1 + k_2) u_1 + k_2 u_2` and
    :math:`m_2 u_2'' = k_2 u_1 - (k_1 + k_2) u_2` from rest at :math:`u = (1, 0)`, by Runge-Kutta steps of fourth order
    of 0.01 seconds, cheap of 0.6. The parameters are :math:`k_1, k_2` (masses 1), or
    :math:`m_1, m_2, k_1, k_2`. No trajectory is below -1. With masses 1 it is half of
    :math:`\cos \sqrt{k_1} t + \cos \sqrt{k_1 + 2 k_2} t`.
    """
    springs = x[:, -2:]
    masses = x[:, :2] if x.shape[1] == 4 else np.ones_like(springs)
    steps = 600 if fidelity else 10
    system = np.zeros((len(x), 4, 4))
    system[:, 0, 2] = system[:, 1, 3] = 1
    for i in range(2):
        system[:, 2 + i, i] = -springs.sum(-1) / masses[:, i]
        system[:, 2 + i, 1 - i] = springs[:, 1] / masses[:, i]
    part = system * (6 / steps)
    step = np.eye(4) + part @ (np.eye(4) + part / 2 @ (np.eye(4) + part / 3 @ (np.eye(4) + part / 4)))
    return -np.linalg.matrix_power(step, steps)[:, 0, 0]


def paciorek(x: Array, fidelity: int) -> Array:
    r"""Paciorek's function [Mainini2022benchmarks]_, without its noise.

    The negatives of :math:`f = \sin(1 / (x_1 x_2))` and, cheap, of :math:`f - 9 A^2 \cos(1 / (x_1 x_2))`, ``A = 0.5``.
    """
    inverse = 1 / x.prod(-1)
    return -(np.sin(inverse) if fidelity else np.sin(inverse) - 2.25 * np.cos(inverse))


def humps(x: Array, fidelity: int) -> Array:
    r"""Three humps of heights 1, 0.8 and 0.6; cheap, all are moved by 0.05 and the second is the highest."""
    centres = np.array([(0.68, 0.42), (0.25, 0.75), (0.3, 0.2)]) + (0.0 if fidelity else 0.05)
    heights = (1.0, 0.8, 0.6) if fidelity else (0.8, 0.9, 0.5)
    distance = ((x[:, None] - centres) ** 2).sum(-1)
    return np.exp(-distance / (2 * 0.12**2)) @ np.array(heights)


def failing(x: Array) -> Array:
    """Beyond a line 0.05 from the best of the :func:`humps`; the cheap fidelity has that hump on the far side."""
    return x.sum(-1) > 1.1 + 0.05 * np.sqrt(2)


def waves(x: Array, fidelity: int) -> Array:
    """Two smooth functions that know nothing of each other, each a draw from a Gaussian process (lengthscale 0.2)."""
    frequencies, phases, weights = _draw(x.shape[1], 1 if fidelity else 8)
    return np.cos(x @ frequencies + phases) @ weights


@cache
def _draw(dim: int, seed: int) -> tuple[Array, Array, Array]:
    """Random Fourier features of an RBF kernel with unit variance."""
    rng, features = np.random.Generator(np.random.PCG64(seed)), 256
    frequencies = rng.standard_normal((dim, features)) / 0.2
    phases = rng.uniform(0, 2 * np.pi, features)
    return frequencies, phases, rng.standard_normal(features) * np.sqrt(2 / features)
