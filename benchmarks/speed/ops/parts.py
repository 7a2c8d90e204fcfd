"""Where the time of an acquisition function goes: ``acquisition_parts.json``.

    python -m benchmarks.speed.ops.parts [--rounds 201] [--threads N]

Calls that contain each other take turns: BoTorch's ``UpperConfidenceBound`` of a :class:`~mfbo_torch.CachedGP` at ten
points, the model's posterior within it, the arrays within that, the correlations and the products within these. A part
is the difference of two medians, in microseconds.
"""

from statistics import median
from typing import Any

import numpy as np
import torch
from botorch.acquisition import UpperConfidenceBound

from benchmarks.common import about, parser, quiet, write_json
from benchmarks.speed.ops.cases import BARS, Case
from benchmarks.speed.ops.operations import BETA, draw, model_of
from benchmarks.timing import side_by_side
from mfbo_torch import CachedGP
from mfbo_torch.ops.posterior import fused

POINTS = 10


def parts(n: int, rounds: int) -> dict[str, Any]:
    """The parts of a value and of a gradient, and the whole of each."""
    case = Case("ucb", n, POINTS)
    model = CachedGP(model_of(case))
    acquisition, process = UpperConfidenceBound(model, BETA), getattr(model.cache, "alone", None)
    assert process is not None
    X = draw(case, POINTS, 1, seed=1)
    tracked, rows, ones = X.clone().requires_grad_(), fused.rows(X), np.ones(POINTS)
    value = fused.correlated(process.kernel, (rows - process.center) * process.scale, process.points)[0]
    found = fused.moments(process, rows, gradient=True)

    def products(back: bool) -> None:
        for block in process.blocks:
            product = fused._product(value[:, : block.shape[1]], block.T)
            if back:
                fused._product(product, block)

    def without(call: Any) -> Any:
        return torch.no_grad()(call)

    calls = {
        "value": without(lambda: acquisition(X)),
        "posterior": without(lambda: model.posterior(X)),
        "arrays": lambda: fused.moments(process, rows),
        "correlations": lambda: fused.correlated(process.kernel, rows, process.points),
        "products": lambda: products(back=False),
        "gradient": lambda: torch.autograd.grad(acquisition(tracked).sum(), tracked),
        "tracked posterior": lambda: model.posterior(tracked),
        "tracked arrays": lambda: fused.moments(process, rows, gradient=True),
        "chain": lambda: fused.gradient(process, found, ones, ones),
        "both products": lambda: products(back=True),
    }
    times = dict(zip(calls, (1e6 * median(t) for t in side_by_side([*calls.values()], rounds, 0.0)), strict=True))
    return {
        "n": n,
        "value": {
            "BoTorch's class": times["value"] - times["posterior"],
            "checks and tensors": times["posterior"] - times["arrays"],
            "correlations": times["correlations"],
            "products with the factor": times["products"],
            "other arrays": times["arrays"] - times["correlations"] - times["products"],
            "whole": times["value"],
        },
        "gradient": {
            "BoTorch's class and autograd": times["gradient"] - times["tracked posterior"] - times["chain"],
            "checks and tensors": times["tracked posterior"] - times["tracked arrays"],
            "correlations": times["correlations"],
            "products with the factor": times["both products"],
            "other arrays": times["tracked arrays"] - times["correlations"] - times["both products"] + times["chain"],
            "whole": times["gradient"],
        },
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write."""
    options = parser(__doc__, rounds=201, threads=1).parse_args(arguments)
    quiet(options.threads)
    rows = [parts(n, options.rounds) for n in BARS]
    for kind in ("value", "gradient"):
        print(f"{kind:32s}", *(f"{row['n']:>8}" for row in rows))
        for name in rows[0][kind]:
            print(f"{name:32s}", *(f"{row[kind][name]:8.0f}" for row in rows))
    write_json(options.results / "acquisition_parts.json", {"about": about(), "rows": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
