"""MF-GP-UCB: upper confidence bounds from several fidelities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from torch import Tensor

from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query, Recommendation, Record, Status, payable
from mfbo_torch.models.multi_fidelity.per_fidelity import LINKS
from mfbo_torch.space import Space
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.multi.mf_gp_ucb_published import PublishedMFGPUCB
from mfbo_torch.strategies.multi.mf_gp_ucb_recursive import RecursiveMFGPUCB
from mfbo_torch.strategies.multi.model_hedge import HedgedMFGPUCB
from mfbo_torch.strategies.multi.upper_bounds import UpperBounds
from mfbo_torch.strategies.single.analytic import ExpectedImprovement
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import one_of

DEAR = 0.35
"""Share of the target's cost from which on a fidelity does not pay."""
FIRST = 3
"""Number of initial queries where the target alone is asked."""


class MFGPUCB(Strategy):
    r"""Multi-fidelity optimisation by upper confidence bounds.

    ``link="recursive"``, the default, learns how each fidelity follows from the one below
    [LeGratiet2014recursive]_, maximises the target's own bound
    :math:`\mu^{(M)} + \beta_t^{1/2} \sigma^{(M)}`, and queries the lowest fidelity that explains as
    much of the target's variance there per unit of cost as the target itself does. Between two queries of the target
    those below cost at most as much as one, and are at most ``10 d``: a link that misleads is found out, and the target
    has about half of the capital or more.

    The first design fills the space at the cheapest fidelity, and its best designs are asked above. Where the capital
    is below ten target costs, up to half of the cheapest queries go where that fidelity is expected to improve. Below
    six, one query of the target is in it, and the rest is spent from the cheapest fidelity up.

    The target's last query comes last: what the capital has beside it is spent below the target before, on another
    design each time, as long as one is promising. Beside queries in flight the last ones of a capital wait for
    values (:meth:`waits`).

    By default that model is hedged, as links estimated from few values can be wrong and sure: three models take turns
    at the target by their record of predicting it (:class:`~mfbo_torch.strategies.multi.model_hedge.HedgedMFGPUCB`).
    One of them knows the target's values only and has at least 0.12 of the capital, the initial design included: of
    ``n`` target costs at least ``0.12 n - 4`` are spent by a method that ignores the cheap fidelities, with all that
    it would know and more. The target's last two queries, the last one of a capital below ten target costs, go where
    the model that averages over the links expects the best value. From seven parameters on, the two that know all
    fidelities search only where their predictions have come true
    (:mod:`~mfbo_torch.strategies.common.trust_region`).

    Where every fidelity below the target costs :data:`DEAR` of it or more, the hedge asks the target alone, by expected
    improvement after :data:`FIRST` random designs, or as many as ``initial_capital``; ``beta`` and ``refit_every`` are
    then without effect. Not so once something is known at another fidelity, where the target has failed and has no
    value yet, where the capital does not pay for a query of the target, where costs are measured, and where trainings
    continue.

    ``link="independent"`` is the published method [Kandasamy2016mfgpucb]_ with the settings of its
    Section 5 and Appendix B: separate processes, the bound (3), adaptive ζ and γ, an initial
    design of independent uniform points.

    Once an evaluation has failed, what a bound gains over the best design known is weighed by the probability that
    the design can be evaluated (:class:`~mfbo_torch.acquisition.feasible.Feasible`), and the cheapest fidelity is
    queried first where the target may fail
    (:meth:`~mfbo_torch.strategies.multi.base.MultiFidelityModelBased.probing`).

    Args:
        link: ``"recursive"`` or ``"independent"``.
        beta: A fixed squared width instead of ``0.2 d log(2 t)``, ``t`` counting the queries after the
            initial design; ``"theory"`` for the width of the regret bound
            (:func:`~mfbo_torch.confidence.mf_gp_ucb_beta`, Theorem 10); ``"calibrated"`` for one that follows how
            often bounds were wrong
            (:func:`~mfbo_torch.strategies.multi.mf_gp_ucb_thresholds.calibrated_beta`).
        initial_capital: What the initial design may cost, in units of the target's cost. By default 3 or 0.15 of
            the capital if that is more (recursive), and 10 (independent); at most half of the capital, 0.6 of it but
            at least 2 with the recursive link.
        refit_every: Most observations between two fits of the hyper-parameters. They are also
            fitted after each of the first hundred observations of the target and whenever the data have grown
            by a tenth: with few points at the target, 25 queries of old hyper-parameters can stand still. From
            a thousand observations on, the growth by a tenth alone counts.
        hedge: Whether the recursive link is hedged; without, it is all there is.
        zeta: Known bounds ``ζ`` on how far each fidelity below the target is from it; those of the space, if it has
            any, or adaptive by default. Of the independent link, as are the next three.
        gamma: Known thresholds ``γ``, one a fidelity below the target; adaptive by default.
        prior: The process of every fidelity, where it is known; nothing is fitted then.
        strict: Whether the experiments' protocol is followed to the letter: fits every 25 queries and no more, all of
            the initial capital spent, half of it on the lowest fidelity, and bounds maximised by DIRECT.
        device: Where the models compute, such as ``"cuda"``.
        dtype: Their precision, ``"float64"`` or ``"float32"``.
        **settings: ``seed``, ``space`` and ``capital``.

    Raises:
        SettingError: An unknown link, a negative ``beta``, a ``hedge`` or ``strict`` that is neither true nor false, or
            settings of the other link.
    """

    heeds_limits = True
    most_fidelities = UpperBounds.most_fidelities

    def __init__(
        self,
        *,
        link: str = "recursive",
        beta: float | str | None = None,
        initial_capital: float | None = None,
        refit_every: int = 25,
        hedge: bool = True,
        zeta: Sequence[float] | None = None,
        gamma: Sequence[float] | None = None,
        prior: Prior | None = None,
        strict: bool = False,
        device: str = "cpu",
        dtype: str = "float64",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.link, self.hedge = one_of("link", link, LINKS), one_of("hedge", hedge, (True, False))
        shared: dict[str, Any] = {"beta": beta, "initial_capital": initial_capital, "refit_every": refit_every}
        shared |= {"device": device, "dtype": dtype, **settings}
        strict = one_of("strict", strict, (True, False))
        own: dict[str, Any] = {"zeta": zeta, "gamma": gamma, "prior": prior, "strict": strict}
        if self.link == "recursive":
            for name, given in own.items():
                if given is not None and given is not False:
                    raise SettingError(name, given, "left out, or used with link='independent'")
            self.rule: UpperBounds = (HedgedMFGPUCB if hedge else RecursiveMFGPUCB)(**shared)
        else:
            self.rule = PublishedMFGPUCB(**shared, **own)
        self.alone: ExpectedImprovement | None = None
        if self.rule.link == "recursive" and hedge:
            first = FIRST if self.rule.initial_capital is None else max(1, int(self.rule.initial_capital + 1e-9))
            self.alone = ExpectedImprovement(initial=first, device=device, dtype=dtype, **settings)
        self.patient = self.rule.patient
        self.beta, self.initial_capital = self.rule.beta, self.rule.initial_capital
        self.refit_every, self.device, self.dtype = self.rule.refit_every, device, dtype
        self.zeta, self.gamma, self.prior, self.strict = (getattr(self.rule, name, own[name]) for name in own)

    def bind(self, space: Space, capital: float | None = None) -> Self:
        bound = super().bind(space, capital)
        bound.rule = self.rule.bind(space, capital)
        bound.alone = None if self.alone is None else self.alone.bind(space, capital)
        return bound

    def chosen(self, history: History) -> UpperBounds | ExpectedImprovement:
        """What decides after a history: the rule of the link, or the target alone where nothing else pays."""
        space, target = self.space, self.space.target
        if self.alone is None or not target or space.costs[0] < DEAR * space.costs[-1] * (1 - 1e-12):
            return self.rule
        known = any(record.query.fidelity < target and record.status == Status.DONE for record in history.records)
        failing = history.best(target) is None and bool(history.select(Status.FAILED, target))
        short = self.capital is not None and payable(self.capital) < space.costs[-1]
        return self.rule if known or failing or short or space.measured or space.continues else self.alone

    def snapshot(self, history: History) -> Snapshot:
        return self.chosen(history).snapshot(history)

    def decide(self, history: History) -> Query:
        found, rule = self.chosen(history), self.rule
        query = found.decide(history)
        return query if found is rule else replace(query, meta={**query.meta, "because": "dear"})

    def recommend(self, history: History) -> Record | Recommendation | None:
        """The best observation at the target, or where observations are noisy or have limits what the model makes of
        them: see :func:`~mfbo_torch.strategies.common.recommendation.advised`."""
        return self.chosen(history).recommend(history)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of every fidelity that was observed; NaN at the others."""
        return self.chosen(history).predict(history, X)

    def explained(self, history: History) -> tuple[float, ...] | None:
        return self.chosen(history).explained(history)

    def fidelity_at(self, x: Sequence[float], history: History) -> int:
        """The target before there is a model, and by the published method, whose γ judge maximisers of its bound."""
        return self.chosen(history).fidelity_at(x, history)
