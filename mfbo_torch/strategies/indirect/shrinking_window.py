"""Upper confidence bounds on ``f`` with windows that shrink on a schedule."""

from __future__ import annotations

import math
from typing import Any

import torch

from mfbo_torch.confidence import finite_alpha, practical_beta
from mfbo_torch.history import Query
from mfbo_torch.space.indirect import Window
from mfbo_torch.strategies.indirect.base import OverAverages
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, whole


def window_variance(t: int, dim: int) -> float:
    r""":math:`\tau_t^2 / \tau_1^2` in (0, 1], falling in ``t >= 1`` [Zhang2024indirect]_ (Theorem 2).

    :math:`t^{-1/2} (\log t)^{d/2}` rises up to :math:`t = e^d`; scaled to one there and kept at one before, it is of
    the same order and never rises. A :class:`SettingError` is raised for ``t`` below 1.
    """
    scaled = max(whole("t", t), math.e**dim)
    return (scaled / math.e**dim) ** -0.5 * (math.log(scaled) / dim) ** (dim / 2)


class ShrinkingWindow(OverAverages):
    r"""GP-UCB on ``f``, queried through ever smaller windows around each query [Zhang2024indirect]_ (Theorem 2).

    The ``t``-th query, :math:`a_t = \arg\max_x m_{t-1}(x) + \beta_t^{1/2} \sigma_{t-1}(x)`, has the coarsest resolution
    whose window is no wider than :math:`\tau_t`, where :math:`\tau_t^2 = O(t^{-1/2} (\log t)^{d/2})` starts as the
    coarsest of all; that keeps the rate of direct queries. With a capital it is at most :math:`\tau_1^2 t^{-r}`, which
    comes to the finest window with half of it (:meth:`rate`). The initial queries follow the schedule too.

    Args:
        beta: :math:`\beta`, from 0 on; by default ``0.2 d log 2t``. ``"theory"``: that of the bound,
            :math:`2 \log(|\mathcal X| \pi_t / \delta)` with :math:`\pi_t = \pi^2 t^2 / 6` and the space's inputs for
            :math:`\mathcal X` [Zhang2024indirect]_ (Lemma 5).
        delta: Probability with which the bound may fail, in (0, 1).
    """

    def __init__(self, *, beta: float | str | None = None, delta: float = 0.1, **settings: Any) -> None:
        super().__init__(**settings)
        if beta is not None and beta != "theory":
            beta = number("beta", beta, 0, wanted="a number from 0 on, 'theory' or None")
        self.beta, self.delta = beta, number("delta", delta, above=0, below=1)

    def widths(self) -> list[float]:
        """The largest width of each resolution, relative to the coarsest."""
        feedback = self.space.feedback
        if not isinstance(feedback, Window) or feedback.location is not None:
            raise SettingError("feedback", type(feedback).__name__, "a Window around the query itself")
        widest = [torch.as_tensor(width, dtype=torch.double).max().item() for width in feedback.widths]
        return [width / max(widest) for width in widest]

    def rate(self) -> float:
        """The power ``r`` of ``1 / t`` with which windows are finest after half of the capital; 0 without a capital."""
        half = (self.capital or 0.0) / (2 * self.space.costs[self.space.target])
        return -2 * math.log(min(self.widths())) / math.log(half) if math.e < half < math.inf else 0.0

    def resolution(self, t: int) -> int:
        """The coarsest resolution that the schedule allows the ``t``-th query; else the finest."""
        deviation = math.sqrt(min(window_variance(t, self.space.dim), t ** -self.rate()))
        return next((m for m, width in enumerate(self.widths()) if width <= deviation * (1 + 1e-12)), self.space.target)

    def counts(self, snapshot: Snapshot) -> list[int]:
        counts = [0] * self.space.num_fidelities
        for t in range(1, self.initial + 1):
            counts[self.resolution(t)] += 1
        return counts

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        t = 1 + sum(r.decided for r in snapshot.records)
        fidelity = self.resolution(t)
        beta = practical_beta(t, self.space.dim) if self.beta is None else self.beta
        if isinstance(beta, str):
            beta = finite_alpha(t, len(self.space.inputs), self.delta)
        model = self.model(snapshot).model
        with torch.no_grad():
            mean, variance = model.hallucinate(self.queries(snapshot.pending)).latent_mean_variance(self.inputs())
        best = int((mean + (beta * variance).sqrt()).argmax())
        return self.placed(self.space.to_unit(self.space.inputs[best]), fidelity, snapshot, generator, beta=beta)
