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

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array, int], Array]


def forrester(x: Array, fidelity: int) -> Array:
    """Four fidelities of Forrester's function on [0, 1] [Mainini2022benchmarks]_."""
    x = x[:, 0]
    wave = np.sin(12 * x - 4)
    target = (6 * x - 2) ** 2 * wave
    values = (0.5 * target + 10 * (x - 0.5) - 5, 0.75 * target + 5 * (x - 0.5) - 2, (5.5 * x - 2.5) ** 2 * wave, target)
    return -values[fidelity]


def forrester_pair(x: Array, fidelity: int) -> Array:
    """Forrester's function and the cheapest of its four fidelities."""
    return forrester(x, 3 if fidelity else 0)


def jump_forrester(x: Array, fidelity: int) -> Array:
    """Forrester's function with a jump of 10 behind ``x = 0.5``, cheap of 3 [Mainini2022benchmarks]_."""
    x = x[:, 0]
    behind = x > 0.5
    target = (6 * x - 2) ** 2 * np.sin(12 * x - 4) + 10 * behind
    return -(target if fidelity else 0.5 * target + 10 * (x - 0.5) - 5 + 3 * behind)


def rosenbrock(x: Array, fidelity: int) -> Array:
    """Three fidelities of Rosenbrock's function [Mainini2022benchmarks]_."""
    total, here = x.sum(-1), x[:, :-1]
    bend = ((x[:, 1:] - here**2) ** 2).sum(-1)
    target = 100 * bend + ((1 - here) ** 2).sum(-1)
    if fidelity == 1:
        return -(50 * bend + ((-2 - here) ** 2).sum(-1) - 0.5 * total)
    return -target if fidelity else -(target - 4 - 0.5 * total) / (10 + 0.25 * total)


def rastrigin(x: Array, fidelity: int) -> Array:
    """Three fidelities of a shifted and rotated Rastrigin function [Mainini2022benchmarks]_.

    The planes (1, 2), (2, 3), ... are turned one after another (the source tells the rotation for ``d = 2``); the
    cheaper fidelities have a resolution error on top.
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
    """Functions of one to three parameters, rough on one side, smooth on the other [Mainini2022benchmarks]_."""
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
    """Where the first of two masses between springs is after six seconds [Mainini2022benchmarks]_.

    The negative of :math:`u_1(6)`, of :math:`m_1 u_1'' = -(k_1 + k_2) u_1 + k_2 u_2` and
    :math:`m_2 u_2'' = k_2 u_1 - (k_1 + k_2) u_2` from rest at :math:`u = (1, 0)`, by Runge-Kutta steps of fourth order
    of 0.01 seconds, cheap of 0.6. The parameters are :math:`k_1, k_2` (masses 1), or :math:`m_1, m_2, k_1, k_2`.
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
    """Paciorek's function with ``A = 0.5`` [Mainini2022benchmarks]_, without its noise."""
    inverse = 1 / x.prod(-1)
    return -(np.sin(inverse) if fidelity else np.sin(inverse) - 2.25 * np.cos(inverse))


def humps(x: Array, fidelity: int) -> Array:
    r"""Three humps of heights 1, 0.8 and 0.6; cheap, all are moved by 0.05 and the second is the highest."""
    centres = np.array([(0.68, 0.42), (0.25, 0.75), (0.3, 0.2)]) + (0.0 if fidelity else 0.05)
    heights = (1.0, 0.8, 0.6) if fidelity else (0.8, 0.9, 0.5)
    distance = ((x[:, None] - centres) ** 2).sum(-1)
    return np.exp(-distance / (2 * 0.12**2)) @ np.array(heights)


def branin(x: Array, fidelity: int) -> Array:
    """Branin's function on the unit square, and two below it that are moved, bent and tilted."""
    u, v = 15 * x[:, 0] - 5, 15 * x[:, 1]
    if fidelity == 0:
        u, v = 0.9 * u + 0.5, 0.95 * v + 0.3
    value = (v - 5.1 / (4 * np.pi**2) * u**2 + 5 / np.pi * u - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u) + 10
    if fidelity == 2:
        return -value
    tilt = (25, 8)[fidelity]
    return -((0.6, 0.8)[fidelity] * value + tilt * (x[:, 0] - x[:, 1]))


def levy(x: Array, fidelity: int) -> Array:
    """Levy's function of many shallow optima, largest at 1; cheap, without its waves and beside it."""
    w = 1 + (x - (1.0 if fidelity else 1.6)) / 4
    waves = fidelity
    inner = (w[:, :-1] - 1) ** 2 * (1 + 10 * waves * np.sin(np.pi * w[:, :-1] + 1) ** 2)
    last = (w[:, -1] - 1) ** 2 * (1 + waves * np.sin(2 * np.pi * w[:, -1]) ** 2)
    return -(waves * np.sin(np.pi * w[:, 0]) ** 2 + inner.sum(-1) + last)


def styblinski(x: Array, fidelity: int) -> Array:
    """The function of Styblinski and Tang, with two optima an axis; cheap, the other one of the two is the deeper."""
    if fidelity:
        return -0.5 * (x**4 - 16 * x**2 + 5 * x).sum(-1)
    return -0.5 * (0.9 * x**4 - 14 * x**2 - x).sum(-1)


def cliff(x: Array, fidelity: int) -> Array:
    """A hill whose top is beside a cliff of height 3; cheap, the cliff is elsewhere and half as high."""
    edge = 0.62 if fidelity else 0.56
    slope = -4 * ((x - 0.6) ** 2).sum(-1)
    return slope - (3.0 if fidelity else 1.5) * (x.mean(-1) > edge)


def camel(x: Array, fidelity: int) -> Array:
    """The six-hump camel on the unit square, and two below it that are smoother and moved."""
    shift = (0.25, 0.1, 0.0)[fidelity]
    u, v = 4 * x[:, 0] - 2 + shift, 2 * x[:, 1] - 1 - shift
    fourth = (0.5, 0.8, 1.0)[fidelity]
    return -((4 - 2.1 * u**2 + u**4 / 3) * u**2 + u * v + (-4 + 4 * fourth * v**2) * v**2)


def ackley(x: Array, fidelity: int) -> Array:
    """Ackley's function, largest at 0.3; cheap, with waves of half the size, at 0.34."""
    z = 4 * (x - (0.3 if fidelity else 0.34))
    waves = np.exp(np.cos(2 * np.pi * z).mean(-1)) - np.e
    return 20 * np.exp(-0.2 * np.sqrt((z**2).mean(-1))) - 20 + (1.0 if fidelity else 0.5) * waves


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
