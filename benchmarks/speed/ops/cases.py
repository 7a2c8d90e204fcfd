"""The registry: what is measured, at which sizes, and the bytes and flops that it needs at least."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Case:
    """One of :data:`benchmarks.speed.ops.operations.OPERATIONS` at one size.

    ``n`` points of each GP, ``m`` points queried at once, ``d`` inputs, ``q`` picks of a greedy selection. ``bar`` is
    the least ratio to the peer that the project holds itself to.
    """

    operation: str
    n: int
    m: int
    d: int = 6
    q: int = 1
    processes: int = 1
    dtype: torch.dtype = torch.double
    bar: float | None = None

    @property
    def name(self) -> str:
        extra = "".join(f" {k}={v}" for k, v in (("q", self.q), ("B", self.processes)) if v > 1)
        kind = "" if self.dtype == torch.double else " float32"
        return f"{self.operation} n={self.n} m={self.m} d={self.d}{extra}{kind}"

    @property
    def flops(self) -> float:
        """Multiplications and additions of the products with a triangular factor: ``n² m``, twice with a gradient,
        and of a greedy selection ``2 (n + t) m`` more for pick ``t``."""
        forward = float(self.n) ** 2 * self.m * self.processes
        if self.operation == "greedy":
            return forward + sum(2.0 * (self.n + t) * self.m for t in range(self.q - 1))
        return forward * (2 if "gradient" in self.operation else 1)

    @property
    def bytes(self) -> float:
        """What must be read and written at least: the points, half of the factor, the results."""
        size = torch.finfo(self.dtype).bits // 8
        results = self.d if "gradient" in self.operation else 0
        numbers = self.processes * (self.n * (self.n + 1) / 2 + self.n * self.d) + self.m * (self.d + results + 2)
        if self.operation == "greedy":
            numbers += sum((self.n + t + 4) * self.m for t in range(self.q))
        return size * numbers


BARS = {  # n: bare, values and gradients of an acquisition function, logei
    20: (15, 12, 10, 8),
    100: (15, 12, 10, 8),
    400: (7, 7, 7, 5),
    1000: (4, 4, 4, 3),
}
CLASSES = ("bound", "ucb", "logei")
"""Through torch: this package's bound with points pending, and BoTorch's own with the cached model."""
SMALL = [
    Case(operation, n, b, bar=bar if b == 10 else None)
    for n, (bare, value, slope, improvement) in BARS.items()
    for operation, bar, of in (
        ("posterior", bare, (1, 10, 20)),
        ("fused", value, (1, 10, 20)),
        ("fused gradient", slope, (1, 10, 20)),
        *((kind, improvement if kind == "logei" else value, (10, 64, 512)) for kind in CLASSES),
        *((f"{kind} gradient", improvement if kind == "logei" else slope, (10, 64, 512)) for kind in CLASSES),
    )
    for b in of
]
SIZES = ((30, 2), (100, 6), (400, 8))
WHOLE = [
    *(Case("optimize_acqf", n, 256, d, bar=8) for n, d in SIZES),
    *(Case("botorch optimize_acqf", n, 256, d, bar=5) for n, d in SIZES),
    Case("greedy", 200, 10_000, q=10, bar=50),
    Case("fidelities", 20, 5, processes=3, bar=1 / 1.5),
    Case("fidelities", 100, 5, processes=3, bar=1 / 1.5),
    Case("fidelities", 400, 5, processes=3),
    Case("posterior", 1000, 10_000),
    Case("posterior gradient", 1000, 10_000),
    Case("posterior", 1000, 10_000, dtype=torch.float),
]
CASES = SMALL + WHOLE
TINY = [
    Case("posterior", 7, 3, 2),
    Case("posterior gradient", 7, 3, 2),
    Case("posterior gradient", 7, 3, 2, dtype=torch.float),
    *(Case(f"{function}{extra}", 7, 3, 2) for function in ("fused", *CLASSES) for extra in ("", " gradient")),
    Case("optimize_acqf", 7, 8, 2),
    Case("botorch optimize_acqf", 7, 8, 2),
    Case("greedy", 7, 20, 2, q=3),
    Case("fidelities", 6, 3, 2, processes=3),
]
"""Every operation in a second, for the tests."""
SWEEPS = {
    "m": [Case("posterior", 200, m) for m in (30, 100, 300, 1_000, 3_000, 10_000)],
    "n": [Case("posterior", n, 1_000) for n in (25, 50, 100, 200, 400, 800, 1_600)],
}
"""How the time grows: with the points queried and with those of the GP."""
