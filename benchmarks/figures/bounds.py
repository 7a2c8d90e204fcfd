r"""Cumulative regret with the theory's widths, beside what the theorems promise: GP-UCB, GP-BUCB, MF-GP-UCB.

Every seed draws from a Gaussian process that is known, on 100 points of the unit interval. For GP-UCB and GP-BUCB, in
batches of 5: :math:`R_T \le \sqrt{C_1 T \beta_T \gamma_T} + 2` with probability ``1 - delta``,
:math:`C_1 = 8 / \log(1 + \eta^{-2})` (Desautels et al., Theorem 1), where :math:`\beta_T` is the width of the last
decision and :math:`\gamma_T` the most information of ``T`` values, by its bound from submodularity. MF-GP-UCB has a
second fidelity at a tenth of the cost. Theorem 3 of Kandasamy et al. leaves its constants out: drawn are the terms
:math:`\lambda^{(2)} \sqrt{C_1 n \beta_n \Psi_n(\mathcal X_g)} + \lambda^{(1)} \sqrt{C_1 n \beta_n \Psi_n(\mathcal X)}`,
``n`` the queries of the target that the capital pays for. MF-UCB is in ``bandit-bounds.png``.
"""

import math
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.common import tidy
from mfbo_torch.confidence import batch_gain_bound
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import GPBUCB, MFGPUCB, Strategy

POINTS, DELTA, ZETA, CHEAP, CAPITAL = 100, 0.1, 0.2, 0.1, 60.0
PRIOR = Prior("rbf", 0.1, noise=0.01)


X = torch.linspace(0, 1, POINTS, dtype=torch.double).unsqueeze(-1)
C1 = 8 / math.log(1 + 1 / PRIOR.noise)


def promised(queries: int, beta: float, points: Tensor = X) -> float:
    r""":math:`\sqrt{C_1 T \beta_T \gamma_T}` with the information of some points."""
    gain = batch_gain_bound(PRIOR.covariance(points, points), PRIOR.noise, queries + 1)
    return math.sqrt(C1 * queries * beta * gain)


def drawn(seed: int) -> tuple[Tensor, Tensor]:
    """The target at the points, and a cheap fidelity that is off by at most ζ."""
    factor = torch.linalg.cholesky(PRIOR.covariance(X, X) + 1e-10 * torch.eye(POINTS, dtype=torch.double))
    normal = torch.randn(2, POINTS, generator=torch.Generator().manual_seed(seed), dtype=torch.double) @ factor.mT
    return normal[0], normal[0] + ZETA * torch.sin(3 * normal[1])


def played(strategy: Strategy, values: tuple[Tensor, ...], capital: float, batch: int, seed: int) -> History:
    """A run that spends a capital, decided in batches; the values, the cheapest fidelity first, have noise."""
    draws, optimizer = torch.Generator().manual_seed(1000 + seed), Optimizer(strategy)
    while asked := optimizer.ask(batch, capital=capital):
        for record in asked:
            value = values[record.query.fidelity][round(record.query.x[0] * (POINTS - 1))].item()
            noise = math.sqrt(PRIOR.noise) * torch.randn((), generator=draws, dtype=torch.double).item()
            optimizer.tell(record.id, value + noise)
    return optimizer.history


def curves(capital: float, seeds: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By method the regret of every seed at each of some capitals, in queries of the target, and the mean bound."""
    parameters = (Parameter("x", 0.0, 1.0),)
    one = Space(parameters, (1.0,), candidates=X)
    two = Space(parameters, (CHEAP, 1.0), candidates=X, zeta=(ZETA, 0.0))
    theory: dict[str, Any] = {"beta": "theory", "prior": PRIOR}
    makers: dict[str, tuple[Strategy, int]] = {
        "GP-UCB": (GPBUCB(**theory, delta=DELTA, space=one, capital=capital), 1),
        "GP-BUCB, batches of 5": (GPBUCB(**theory, delta=DELTA, space=one, capital=capital), 5),
        "MF-GP-UCB": (MFGPUCB(link="independent", **theory, space=two, capital=capital), 1),
    }
    found, at = {}, range(1, int(capital) + 1)
    for name, (strategy, batch) in makers.items():
        regrets, bounds = [], []
        for seed in range(seeds):
            target, cheap = drawn(seed)
            several = strategy.space.num_fidelities > 1
            history = played(strategy, (cheap, target) if several else (target,), capital, batch, seed)
            best, level = target.max().item(), strategy.space.target
            # without noise: what the regret is of
            exact = [target[round(r.query.x[0] * (POINTS - 1))].item() for r in history]
            costs, rows, own = [r.cost for r in history], [], []
            first = next((r.query.meta["beta"] for r in history if "beta" in r.query.meta), 0.0)
            for amount in at:
                within = [i for i, spent in enumerate(accumulate(costs)) if spent <= amount + 1e-9]
                rewards = sum(exact[i] for i in within if history.records[i].query.fidelity == level)
                targets = sum(history.records[i].query.fidelity == level for i in within)
                rows.append(amount * best - rewards - (amount - targets) * target.min().item())
                beta = max(first, *(history.records[i].query.meta.get("beta", 0.0) for i in within), 0.0)
                if several:
                    good = X[cheap >= best - ZETA]
                    own.append(promised(amount, beta, good if len(good) else X[:1]) + CHEAP * promised(amount, beta))
                else:
                    own.append(promised(amount, beta) + 2)
            regrets.append(rows)
            bounds.append(own)
        found[name] = np.array(regrets), np.mean(bounds, axis=0)
    return found


def bounds_picture(share: float, seeds: int = 8) -> Figure:
    """A panel for each method: its regret by seed, and the bound."""
    found = curves(max(6.0, CAPITAL * share), seeds)
    figure = Figure(figsize=(12, 4), layout="constrained")
    for axes, (name, (regrets, bound)) in zip(figure.subplots(1, len(found)), found.items(), strict=True):
        at = np.arange(1, regrets.shape[1] + 1)
        axes.plot(at, regrets.T, color="#0072b2", linewidth=0.8, alpha=0.6)
        axes.plot(at, bound, color="#d55e00", linewidth=2)
        axes.set(title=name, yscale="log", xlabel="capital, in queries at the target")
        axes.text(at[-1], bound[-1], "bound" if name.startswith("GP") else "leading terms", ha="right", va="bottom")
        tidy(axes)
    figure.supylabel("cumulative regret")
    return figure
