r"""The front that models predict, found without gradients: where it ends says what is worth improving on.

References:

.. [Ikeda2001alpha]
    K. Ikeda, H. Kita, S. Kobayashi. Failure of Pareto-based MOEAs: Does Non-dominated Really Mean Near to Optimal?
    Congress on Evolutionary Computation 2001.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from botorch.utils.multi_objective.pareto import is_non_dominated
from torch import Tensor

from mfbo_torch.space import Space
from mfbo_torch.strategies.common.initial_design import allowed, sobol

SPREAD, MOST, STEPS = 256, 16, 9
"""Number of Sobol designs; of designs on the front, at most, from which each parameter is varied by itself; of values
that it takes."""
TRADE = 0.05
"""How much of one objective has to be gained for a unit of another one, in units of the front's ranges."""
ORDINARY = 0.75
"""The part of all designs that an ordinary value is better than."""


def predicted_front(
    space: Space,
    observed: Tensor,
    values: Callable[[Tensor], Tensor],
    likely: Callable[[Tensor], Tensor],
    seed: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Designs of the unit cube, ``f x D``, none of which another one dominates by a model, their values ``f x K``, and
    the ordinary values ``K`` of the space: a quarter of the designs drawn is better.

    Designs that gain less than a twentieth of what they lose, in units of the front's ranges, count as dominated
    [Ikeda2001alpha]_: where an objective is nearly the same for many designs, a model's last digits would put all of
    them on the front. Looked for among the observed designs and those of a Sobol sequence, and along each parameter
    from the best of these: fronts are often reached by a few parameters while the others rest.

    Args:
        space: Where to look.
        observed: ``n x D`` designs.
        values: From ``n x D`` designs to ``n x K`` values, to be maximised.
        likely: Whether ``n`` designs count; where none of the first ones does, all do.
        seed: Of the sequence.
    """
    if space.candidates:
        drawn = U = space.unit_candidates[:4096]
    else:
        drawn = allowed(lambda n: sobol(space.dim, n, seed), SPREAD, space)
        U = torch.cat([observed, drawn])
    kept = likely(U)
    anything = not kept.any()
    kept |= anything
    Y, among = values(U), kept[-len(drawn) :]
    ordinary = Y[-len(drawn) :][among if among.any() else ~among].quantile(ORDINARY, 0)
    U, Y = _front(U[kept], Y[kept])
    if space.candidates:
        return U, Y, ordinary
    some = U[torch.linspace(0, len(U) - 1, min(len(U), MOST)).round().long()]
    lines = space.snap(_varied(some))
    lines = lines[space.allows(lines)]
    lines = lines[likely(lines) | anything]
    V, Z = _front(lines, values(lines))
    return *_front(torch.cat([U, V]), torch.cat([Y, Z])), ordinary


def _varied(U: Tensor) -> Tensor:
    """``n x d x STEPS`` designs, as rows: each column of ``n x d`` designs takes :data:`STEPS` values."""
    n, d = U.shape
    V = U[:, None, None].repeat(1, d, STEPS, 1)
    for j in range(d):
        V[:, j, :, j] = torch.linspace(0.0, 1.0, STEPS, dtype=U.dtype)
    return V.reshape(n * d * STEPS, d)


def _front(U: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """The designs and values that count as not dominated, in units that are those of the front itself in the end."""
    for weight in (0.0, TRADE, TRADE):
        if len(Y):
            extent = Y.amax(0) - Y.amin(0)
            Z = Y / torch.where(extent > 0, extent, torch.ones_like(extent))
            kept = is_non_dominated(Z + weight * (Z.sum(-1, keepdim=True) - Z))
            U, Y = U[kept], Y[kept]
    return U, Y
