"""BoTorch's functions of several objectives, with a cheap fidelity each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from botorch.test_functions import multi_objective as functions
from torch import Tensor

from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.objectives import Objective

SHRINK, WAVE = 0.94, 0.15
"""The cheap fidelity sees the box shrunk by this factor, and waves of this share of the spread on top."""


class Fronts(Problem):
    r"""Functions :math:`f_1, ..., f_K` of BoTorch, to be minimised, at costs 1 and 10.

    At the cheap fidelity each function :math:`g` with the deviation :math:`s_g` over 512 Sobol points is, with
    :math:`\bar u` the mean of the point in the unit cube, :math:`m` the middle of the box and :math:`k` its number,

    - ``shift``: :math:`g(m + 0.94 (x - m)) + 0.15 s_g \sin(2 \pi \bar u + k)`;
    - ``noise``: that, and noise of deviation :math:`0.2 s_g`, a function of the point;
    - ``useless``: :math:`s_g \sin(9 x_1 + k) \cos(7 x_2)`, which knows nothing of :math:`g`.

    ``reference`` is the reference point and ``best`` the largest hypervolume that it bounds, both BoTorch's own.
    """

    maximize = False

    def __init__(self, make: Callable[[], Any], cheap: str = "shift") -> None:
        self.function, self.cheap = make(), cheap
        bounds, self.reference = self.function.bounds, self.function.ref_point.double()
        self.best: float = self.function.max_hv
        goals = tuple(Objective(f"f{k}") for k in range(1, len(self.reference) + 1))
        lower, upper = bounds.tolist()
        parameters = tuple(Parameter(f"x{i}", lo, hi) for i, (lo, hi) in enumerate(zip(lower, upper, strict=True), 1))
        self.space = Space(parameters, (1.0, 10.0), objectives=goals)
        sobol = torch.quasirandom.SobolEngine(len(lower), scramble=True, seed=0).draw(512, dtype=torch.double)
        self.spread = self._all(self.space.from_unit(sobol)).std(0)

    def _all(self, X: Tensor) -> Tensor:
        """The functions, ``n x K``, to be minimised."""
        found: Tensor = self.function._evaluate_true(X)
        return found

    def evaluate(self, x: Sequence[float], fidelity: int) -> dict[str, float]:
        point, level = self.checked(x, fidelity)
        X = torch.tensor([point], dtype=torch.double)
        found = (self._all(X) if level else self._cheaply(X))[0]
        return dict(zip((one.name for one in self.space.objectives), found.tolist(), strict=True))

    def _cheaply(self, X: Tensor) -> Tensor:
        U, number = self.space.to_unit(X), torch.arange(len(self.spread))
        if self.cheap == "useless":
            return self.spread * torch.sin(9 * U[:, :1] + number) * torch.cos(7 * U[:, 1:2])
        middle = self.space.bounds.mean(0)
        wave = torch.sin(2 * math.pi * U.mean(-1, keepdim=True) + number)
        found = self._all(middle + SHRINK * (X - middle)) + WAVE * self.spread * wave
        if self.cheap == "noise":
            seed = hash(tuple(X[0].tolist())) % 2**63
            found = found + 0.2 * self.spread * torch.randn(
                1, len(number), generator=torch.Generator().manual_seed(seed), dtype=torch.double
            )
        return found


HELD_OUT = ("DTLZ2-3", "VehicleSafety")
"""Problems on which nothing was chosen; named before any run."""
PROBLEMS: dict[str, Callable[[], Fronts]] = {
    "BraninCurrin": partial(Fronts, functions.BraninCurrin),
    "BraninCurrin-noise": partial(Fronts, functions.BraninCurrin, "noise"),
    "BraninCurrin-useless": partial(Fronts, functions.BraninCurrin, "useless"),
    "ZDT1": partial(Fronts, partial(functions.ZDT1, 4)),
    "ZDT2": partial(Fronts, partial(functions.ZDT2, 4)),
    "DTLZ2": partial(Fronts, partial(functions.DTLZ2, 4, 2)),
    "DTLZ2-3": partial(Fronts, partial(functions.DTLZ2, 5, 3)),
    "VehicleSafety": partial(Fronts, functions.VehicleSafety),
}
