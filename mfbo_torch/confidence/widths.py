"""Widths of confidence bands: the schedules ``α_t`` and ``β_t``. They raise a ``SettingError`` for ``t``, a dimension
or a size below 1, ``delta`` outside (0, 1), a negative gain or norm, or a constant that is not positive."""

from __future__ import annotations

import math

from mfbo_torch.utils.validation import number, whole


def practical_beta(t: int, dim: int) -> float:
    """``β_t = 0.2 d log(2 t)`` for ``t >= 1`` [Kandasamy2016mfgpucb]_ (Appendix B)."""
    return 0.2 * whole("dim", dim) * math.log(2 * whole("t", t))


def gp_ucb_beta(t: int, dim: int, delta: float = 0.1, *, a: float = 1.0, b: float = 1.0, r: float = 1.0) -> float:
    """``β_t = 2 log(2π² t² / 3δ) + 2d log(t² b d r √(4ad/δ))`` for a box of side ``r`` and the constants
    ``a, b`` of the kernel's Lipschitz assumption [Kandasamy2016mfgpucb]_ (Theorem 4). :func:`box_alpha` has a logarithm
    under the root. The second term is the logarithm of a number of points and left out where that is below one."""
    _check(t, delta, dim=dim)
    _check_positive(a=a, b=b, r=r)
    cover = t**2 * b * dim * r * math.sqrt(4 * a * dim / delta)
    return 2 * math.log(2 * math.pi**2 * t**2 / (3 * delta)) + (2 * dim * math.log(cover) if cover > 1 else 0.0)


def mf_gp_ucb_beta(
    t: int, dim: int, num_fidelities: int, *, delta: float = 0.1, a: float = 1.0, b: float = 1.0, r: float = 1.0
) -> float:
    """``β_t = 2 log(M π² t² / 2δ) + 4 d log t + max{0, 2 d log(b r d log(6 M a d / δ))}`` for a box of side ``r`` and
    the constants ``a, b`` of the kernel's Lipschitz assumption [Kandasamy2016mfgpucb]_ (Theorem 10)."""
    _check(t, delta, dim=dim, num_fidelities=num_fidelities)
    _check_positive(a=a, b=b, r=r)
    cover = b * r * dim * max(0.0, math.log(6 * num_fidelities * a * dim / delta))
    union = 2 * math.log(num_fidelities * math.pi**2 * t**2 / (2 * delta))
    return union + 4 * dim * math.log(t) + (2 * dim * math.log(cover) if cover > 1 else 0.0)


def finite_alpha(t: int, size: int, delta: float = 0.1) -> float:
    """``α_t = 2 log(|D| t² π² / 6δ)`` for a finite set of ``size`` points [Desautels2012gpbucb]_ (Theorem 1, case 1).
    Here and below ``t`` is a round whose feedback has arrived; before there is any, take 1."""
    _check(t, delta, size=size)
    return 2 * math.log(size * t**2 * math.pi**2 / (6 * delta))


def box_alpha(t: int, dim: int, delta: float = 0.1, *, a: float = 1.0, b: float = 1.0, side: float = 1.0) -> float:
    """``α_t = 2 log(2π² t² / 3δ) + 2d log(t² d b l √log(4da/δ))`` for a box ``[0, l]^d`` where the slopes of the
    process exceed ``L`` with probability at most ``a exp(-(L/b)²)`` [Desautels2012gpbucb]_ (Theorem 1, case 2). The
    second term is the logarithm of a number of points and left out where that is below one."""
    _check(t, delta, dim=dim)
    _check_positive(a=a, b=b, side=side)
    cover = t**2 * dim * b * side * math.sqrt(max(0.0, math.log(4 * dim * a / delta)))
    return 2 * math.log(2 * math.pi**2 * t**2 / (3 * delta)) + (2 * dim * math.log(cover) if cover > 1 else 0.0)


def rkhs_alpha(t: int, gain: float, delta: float = 0.1, *, norm: float = 1.0) -> float:
    """``α_t = 2M² + 300 γ_t ln³(t / δ)`` for a function of RKHS norm at most ``norm = M``, with ``gain = γ_t`` the most
    information that ``t`` observations have, in nats [Desautels2012gpbucb]_ (Theorem 1, case 3; Eq. 6)."""
    _check(t, delta)
    return 2 * number("norm", norm, 0) ** 2 + 300 * number("gain", gain, 0) * math.log(t / delta) ** 3


def gp_bucb_beta(alpha: float, gain: float) -> float:
    """``β_t = exp(2C) α_fb[t]`` of GP-BUCB [Desautels2012gpbucb]_ (Theorem 1), from ``alpha``, the sequential width at
    the last round whose feedback has arrived, and ``gain = C`` in nats (:func:`batch_gain_bound`)."""
    return math.exp(2 * number("gain", gain, 0)) * number("alpha", alpha, 0)


def _check(t: int, delta: float, **counts: int) -> None:
    number("delta", delta, above=0, below=1)
    for name, count in {"t": t, **counts}.items():
        whole(name, count)


def _check_positive(**constants: float) -> None:
    for name, constant in constants.items():
        number(name, constant, above=0)
