r"""Widths of confidence bands: the schedules ``β_t``.

References:

.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit
    Optimisation with Multi-fidelity Evaluations. NeurIPS 2016.
"""

from __future__ import annotations

import math

from mfbo_torch.errors import SettingError


def practical_beta(t: int, dim: int) -> float:
    """``β_t = 0.2 d log(2 t)`` for ``t >= 1`` [Kandasamy2016mfgpucb]_ (Appendix B)."""
    if t < 1:
        raise SettingError("t", t, "a whole number from 1 on")
    return 0.2 * dim * math.log(2 * t)


def mf_gp_ucb_beta(
    t: int, dim: int, num_fidelities: int, *, delta: float = 0.1, a: float = 1.0, b: float = 1.0, r: float = 1.0
) -> float:
    """``β_t`` of the regret bound [Kandasamy2016mfgpucb]_ (Theorem 10).

    ``2 log(M π² t² / 2δ) + 4 d log t + max{0, 2 d log(b r d log(6 M a d / δ))}``, for a box of
    side ``r`` and the constants ``a, b`` of the kernel's Lipschitz assumption.

    Raises:
        SettingError: ``t`` below 1 or ``delta`` outside (0, 1).
    """
    if t < 1:
        raise SettingError("t", t, "a whole number from 1 on")
    if not 0 < delta < 1:
        raise SettingError("delta", delta, "between 0 and 1")
    cover = b * r * dim * max(0.0, math.log(6 * num_fidelities * a * dim / delta))
    return (
        2 * math.log(num_fidelities * math.pi**2 * t**2 / (2 * delta))
        + 4 * dim * math.log(t)
        + (2 * dim * math.log(cover) if cover > 1 else 0.0)
    )
