"""BoTorch's functions of several objectives, with cheap fidelities each, and a tuning."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from botorch.test_functions import multi_objective as functions
from botorch.test_functions import multi_objective_multi_fidelity as several
from torch import Tensor

from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.objectives import Objective
from mfbo_torch.space.outcome_constraints import Limit

SHRINK, WAVE = 0.94, 0.15
"""The cheap fidelity sees the box shrunk by this factor, and waves of this share of the spread on top."""


class Fronts(Problem):
    r"""Functions :math:`f_1, ..., f_K` of BoTorch, to be minimised, at costs 1 and 10.

    At the cheap fidelity each function :math:`g` with the deviation :math:`s_g` over 512 Sobol points is, with
    :math:`\bar u` the mean of the point in the unit cube, :math:`m` the middle of the box and :math:`k` its number,

    - ``shift``: :math:`g(m + 0.94 (x - m)) + 0.15 s_g \sin(2 \pi \bar u + k)`;
    - ``noise``: that, and noise of deviation :math:`0.2 s_g`, a function of the point;
    - ``useless``: :math:`s_g \sin(9 x_1 + k) \cos(7 x_2)`, which knows nothing of :math:`g`;
    - ``shrunk``: :math:`g(m + 0.94 (x - m))`; the constraints, where there are any, likewise;
    - ``own``: the function's own, whose last argument is the fidelity, from 0 to 1.

    Three costs: a fidelity between the two has half of the shift.

    ``reference`` is the reference point and ``best`` the largest hypervolume that it bounds, both BoTorch's own unless
    ``best`` is given.
    """

    maximize = False

    def __init__(
        self,
        make: Callable[[], Any],
        cheap: str = "shift",
        best: float | None = None,
        costs: tuple[float, ...] = (1.0, 10.0),
    ) -> None:
        self.function, self.cheap = make(), cheap
        bounds, self.reference = self.function.bounds, self.function.ref_point.double()
        self.best: float = self.function.max_hv if best is None else best
        goals = tuple(Objective(f"f{k}") for k in range(1, len(self.reference) + 1))
        lower, upper = bounds[:, : -1 if cheap == "own" else None].tolist()
        parameters = tuple(Parameter(f"x{i}", lo, hi) for i, (lo, hi) in enumerate(zip(lower, upper, strict=True), 1))
        limits = [Limit(f"g{k}", 0.0) for k in range(1, getattr(self.function, "num_constraints", 0) + 1)]
        self.space = Space(parameters, costs, objectives=goals, limits=tuple(limits))
        sobol = torch.quasirandom.SobolEngine(len(lower), scramble=True, seed=0).draw(512, dtype=torch.double)
        self.spread = self._all(self.space.from_unit(sobol)).std(0)[: len(goals)]

    def _all(self, X: Tensor, level: float = 1.0) -> Tensor:
        """The functions and the constraints' slacks, ``n x (K + c)``."""
        if self.cheap == "own":
            X = torch.cat([X, torch.full_like(X[:, :1], level)], -1)
        parts = [self.function._evaluate_true(X)]
        parts += [self.function._evaluate_slack_true(X)] if self.space.limits else []
        return torch.cat(parts, -1)

    def evaluate(self, x: Sequence[float], fidelity: int) -> dict[str, float]:
        point, number = self.checked(x, fidelity)
        X, level = torch.tensor([point], dtype=torch.double), number / self.space.target
        found = self._all(X) if level == 1 else self._all(X, level) if self.cheap == "own" else self._cheaply(X, level)
        names = [one.name for one in (*self.space.objectives, *self.space.limits)]
        return dict(zip(names, found[0].tolist(), strict=True))

    def _cheaply(self, X: Tensor, level: float) -> Tensor:
        U, number = self.space.to_unit(X), torch.arange(len(self.spread))
        if self.cheap == "useless":
            return self.spread * torch.sin(9 * U[:, :1] + number) * torch.cos(7 * U[:, 1:2])
        middle = self.space.bounds.mean(0)
        found = self._all(middle + (1 - (1 - SHRINK) * (1 - level)) * (X - middle))
        if self.cheap == "shrunk":
            return found
        wave = torch.sin(2 * math.pi * U.mean(-1, keepdim=True) + number)
        found = found + WAVE * (1 - level) * self.spread * wave
        if self.cheap == "noise":
            seed = hash(tuple(X[0].tolist())) % 2**63
            found = found + 0.2 * self.spread * torch.randn(
                1, len(number), generator=torch.Generator().manual_seed(seed), dtype=torch.double
            )
        return found


class SupportVectors(Problem):
    """A support vector machine on the handwritten digits: its error on a third of them, and the share of the others
    that are support vectors, both to be minimised; the cheap fidelity sees 120 images, the target 1200.

    ``best`` is the hypervolume of a grid of 36 x 36 designs; a run that finds more has a regret below 0.
    """

    maximize = False
    best = 0.0555
    reference = torch.tensor([0.2, 0.6]).double()

    def __init__(self) -> None:
        from sklearn.datasets import load_digits

        X, labels = load_digits(return_X_y=True)
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0)).numpy()
        self.X, self.labels = X[order] / 16, labels[order]
        parameters = Parameter("C", 1e-2, 1e3, log=True), Parameter("gamma", 1e-4, 1.0, log=True)
        self.space = Space(parameters, (1.0, 10.0), objectives=(Objective("error"), Objective("vectors")))

    def evaluate(self, x: Sequence[float], fidelity: int) -> dict[str, float]:
        from sklearn.svm import SVC

        (C, gamma), level = self.checked(x, fidelity)
        n = 1200 if level else 120
        model = SVC(C=C, gamma=gamma).fit(self.X[:n], self.labels[:n])
        error = 1 - model.score(self.X[1200:], self.labels[1200:])
        return {"error": float(error), "vectors": len(model.support_) / n}


class Network(Problem):
    """A network of two hidden layers on the handwritten digits: its error on 1197 of them, and the logarithm of
    the multiplications for one image, both to be minimised; trained on the other 600 for 3 epochs or 30.

    ``best`` is the hypervolume of 300 Sobol designs and of 700 steps from their front; a run that finds more has a
    regret below 0.
    """

    maximize = False
    best = 0.9045
    reference = torch.tensor([0.5, 4.5]).double()

    def __init__(self) -> None:
        images = SupportVectors()
        self.X, self.labels = images.X, images.labels
        widths = [Parameter(f"width{i}", 4, 128, log=True, integer=True) for i in (1, 2)]
        parameters = (*widths, Parameter("rate", 1e-4, 1e-1, log=True))
        self.space = Space(parameters, (1.0, 10.0), objectives=(Objective("error"), Objective("multiplications")))

    def evaluate(self, x: Sequence[float], fidelity: int) -> dict[str, float]:
        from sklearn.neural_network import MLPClassifier

        (first, second, rate), level = self.checked(x, fidelity)
        epochs, layers = 30 if level else 3, (int(first), int(second))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it may go on
            model = MLPClassifier(
                layers, learning_rate_init=rate, batch_size=50, max_iter=epochs, n_iter_no_change=epochs, random_state=0
            ).fit(self.X[:600], self.labels[:600])
        error = 1 - model.score(self.X[600:], self.labels[600:])
        return {"error": float(error), "multiplications": math.log10(64 * first + first * second + 10 * second)}


HELD_OUT = ("DTLZ2-3", "VehicleSafety", "WeldedBeam", "SupportVectors", "Network")
"""Problems on which nothing was chosen; named before any run."""
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "BraninCurrin": partial(Fronts, functions.BraninCurrin),
    "BraninCurrin-noise": partial(Fronts, functions.BraninCurrin, "noise"),
    "BraninCurrin-useless": partial(Fronts, functions.BraninCurrin, "useless"),
    "ZDT1": partial(Fronts, partial(functions.ZDT1, 4)),
    "ZDT2": partial(Fronts, partial(functions.ZDT2, 4)),
    "ZDT2-three": partial(Fronts, partial(functions.ZDT2, 4), costs=(1.0, 3.0, 10.0)),
    "DTLZ2": partial(Fronts, partial(functions.DTLZ2, 4, 2)),
    "Park": partial(Fronts, several.MOMFPark, "own"),
    "DTLZ2-3": partial(Fronts, partial(functions.DTLZ2, 5, 3)),
    "VehicleSafety": partial(Fronts, functions.VehicleSafety),
    "WeldedBeam": partial(Fronts, functions.WeldedBeam, "shrunk", 0.5111),
    "SupportVectors": SupportVectors,
    "Network": Network,
}
