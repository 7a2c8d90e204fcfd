"""What is measured of a CUDA device, section by section."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import botorch.optim
import torch
from botorch.acquisition import UpperConfidenceBound
from torch import Tensor

from benchmarks.gpu.sizes import CANDIDATES, Sizes, fit_together
from benchmarks.speed.ops.cases import Case
from benchmarks.speed.ops.operations import BETA, draw, model_of, several
from benchmarks.timing import ceilings
from mfbo_torch import MFGPUCB, CachedGP, run
from mfbo_torch.acquisition.optimize import optimize_acqf
from mfbo_torch.ops import _dispatch
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.greedy import greedy
from mfbo_torch.ops.posterior import graphs, mean_variance, reference
from mfbo_torch.ops.posterior.tiles import Tiles
from mfbo_torch.problems import Hartmann3

CHECKED, LIMIT = 1000, 1e-8
"""Points at which a result is compared with the reference, and by how much it may differ, in parts of the largest."""
PEER_CHUNK = 2**16
"""BoTorch's posterior takes so many points at a time: it has more numbers a point."""


@dataclass
class Bench:
    """What the sections need; ``dry``: nothing is measured.

    ``done`` has the results of the sections so far; ``until`` is when to stop, by the clock of ``time.monotonic``.
    """

    device: str
    sizes: Sizes
    dry: bool
    done: dict[str, Any]
    until: float

    def model(self, n: int, d: int = 6) -> Any:
        return model_of(Case("posterior", n, 1, d), self.device)

    def points(self, m: int, d: int = 6) -> Tensor:
        return draw(Case("posterior", 1, m, d), m, seed=1, device=self.device)

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def seconds(self, call: Callable[[], Any], least: int = 3) -> float:
        """The median of a call, launches included, until the device is done; the first two do not count."""
        for _ in range(0 if self.dry else 2):
            call()
        self.wait()
        found: list[float] = []
        while len(found) < (1 if self.dry else least) or (sum(found) < self.sizes.seconds and len(found) < 1000):
            started = time.perf_counter()
            call()
            self.wait()
            found.append(time.perf_counter() - started)
        return median(found)

    @property
    def ceiling(self) -> dict[str, float] | None:
        """Flops and bytes a second, once they are measured."""
        return self.done.get("ceilings", {}).get("float64")

    def row(self, flops: float, seconds: float, **names: Any) -> dict[str, Any]:
        share = self.ceiling and flops / seconds / self.ceiling["flops"]
        return {**names, "seconds": seconds, "of_product": share}


def checked(cache: Cache, X: Tensor, found: Sequence[Tensor]) -> float:
    """The largest difference from the reference at some points, in parts of the largest value."""
    some = X[..., :CHECKED, :]
    wanted = reference.mean_variance(cache, some)
    pairs = zip(found, wanted, strict=True)
    return max(((a[..., :CHECKED] - b).abs().max() / b.abs().max()).item() for a, b in pairs)


def versions(bench: Bench) -> dict[str, Any]:
    """With what, and which way the dispatcher goes."""
    backend, why = _dispatch.route("auto", bench.points(1))
    triton = ".".join(map(str, _dispatch.triton_version())) if _dispatch.triton_installed() else None
    return {"triton": triton, "route": backend, "why": why, "dry": bench.dry}


def tests(bench: Bench) -> dict[str, Any]:
    """``pytest -m gpu``."""
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-n", "8", "-m", "gpu", "tests/ops/test_gpu.py"]
    if bench.dry:
        return {"command": command[1:], "last": "not run"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    failed = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    return {"command": command[1:], "rc": ran.returncode, "last": ran.stdout.splitlines()[-1:], "failed": failed}


def limits(bench: Bench) -> dict[str, Any]:
    """The ceilings."""
    size = bench.sizes.ceiling
    return {name: ceilings(bench.device, getattr(torch, name), size) for name in ("float64", "float32")}


def posteriors(bench: Bench, sizes: Sequence[tuple[int, int]], gradient: bool) -> Iterator[dict[str, Any]]:
    """Values, or gradients too, by both routes, and BoTorch's in pieces."""
    for n, m in sizes:
        model, X = bench.model(n), bench.points(m)
        cache, flops = CachedGP(model).cache, float(n) ** 2 * m * (2 if gradient else 1)
        for backend in ("triton", "torch"):

            def call(backend: str = backend, X: Tensor = X, cache: Cache = cache) -> Sequence[Tensor]:
                return mean_variance(cache, X.requires_grad_(gradient), backend)

            def slope(call: Callable[[], Sequence[Tensor]] = call, X: Tensor = X) -> Any:
                mean, variance = call()
                return torch.autograd.grad(mean.sum() + variance.sum(), X)

            with torch.set_grad_enabled(gradient):
                error = checked(cache, X.detach(), [part.detach() for part in call()])
                seconds = bench.seconds(slope if gradient else call)
            yield bench.row(flops, seconds, n=n, m=m, backend=backend, error=error, right=error <= LIMIT)
        if n <= 1024 and m <= bench.sizes.peer and not gradient:
            pieces = X.detach().unsqueeze(-2).split(PEER_CHUNK)

            @torch.no_grad()
            def peer(pieces: Sequence[Tensor] = pieces, model: Any = model) -> None:
                for piece in pieces:
                    posterior = model.posterior(piece)
                    _ = posterior.mean, posterior.variance

            yield bench.row(flops, bench.seconds(peer, 1), n=n, m=m, backend="BoTorch, in pieces")


def small(bench: Bench) -> list[dict[str, Any]]:
    """Value and gradient at few points: by a graph, without, by Triton, by BoTorch."""
    rows = []
    for n in bench.sizes.small:
        model = bench.model(n)
        cached = CachedGP(model)
        for b in bench.sizes.few:
            X = bench.points(b).unsqueeze(-2).requires_grad_()

            def call(model: Any, X: Tensor = X) -> Any:
                found = model.posterior(X)
                return torch.autograd.grad((found.mean + found.variance).sum(), X)

            def kernels(X: Tensor = X, cache: Cache = cached.cache) -> Any:
                mean, variance = mean_variance(cache, X.squeeze(-2), "triton")
                return torch.autograd.grad((mean + variance).sum(), X)

            (ours,), (theirs,) = call(cached), call(model)
            row = {"n": n, "b": b, "error": ((ours - theirs).abs().max() / theirs.abs().max()).item()}
            row["graph"] = bench.seconds(partial(call, cached))
            with patch.object(graphs, "takes", lambda cache, X: False):
                row["launches"] = bench.seconds(partial(call, cached))
            row |= {"triton": bench.seconds(kernels), "botorch": bench.seconds(partial(call, model))}
            rows.append(row | {"ratio": row["botorch"] / row["graph"], "bar": 15})
    return rows


def processes(bench: Bench) -> list[dict[str, Any]]:
    """Four processes at once."""
    n, m = bench.sizes.processes
    cache, X = several(Case("posterior", n, m, processes=4), bench.device), bench.points(m).unsqueeze(0)
    rows = []
    for backend in ("triton", "torch"):
        found = mean_variance(cache, X, backend)
        seconds = bench.seconds(partial(mean_variance, cache, X, backend))
        flops = sum(float(max(n >> i, 1)) ** 2 * m for i in range(4))
        rows.append(bench.row(flops, seconds, n=n, m=m, B=4, backend=backend, error=checked(cache, X, found)))
    return rows


def picks(bench: Bench) -> list[dict[str, Any]]:
    """Greedy selection, a pick for itself: of what a pick must read, ``n + t`` numbers a candidate, against a copy."""
    n, m, q = bench.sizes.greedy
    cache, X = CachedGP(bench.model(n)).cache, bench.points(m)
    rows = []
    for backend in ("triton", "torch"):
        if backend == "torch" and bench.device != "cuda":
            continue
        one, all_of_them = (bench.seconds(partial(greedy, cache, X, BETA, count, backend)) for count in (1, q))
        pick = (all_of_them - one) / (q - 1)
        size = 8.0 * (n + q / 2) * m
        row = {"n": n, "m": m, "q": q, "backend": backend, "first": one, "seconds": all_of_them, "pick": pick}
        rows.append(row | {"of_copy": bench.ceiling and size / max(pick, 1e-9) / bench.ceiling["bytes"]})
    return rows


def acquisitions(bench: Bench) -> list[dict[str, Any]]:
    """``optimize_acqf`` on the device, on its CPU, and BoTorch's on the device."""
    rows = []
    for n, d in bench.sizes.acquisition:
        row: dict[str, Any] = {"n": n, "d": d}
        for name, device in (("ours", bench.device), ("cpu", "cpu"), ("botorch", bench.device)):
            cached = name != "botorch"
            model = model_of(Case("posterior", n, 1, d), device)
            acquisition = UpperConfidenceBound(CachedGP(model) if cached else model, BETA)
            bounds = torch.tensor([[0.0] * d, [1.0] * d], device=device, dtype=torch.double)
            maximise = optimize_acqf if cached else botorch.optim.optimize_acqf

            def call(maximise: Any = maximise, acquisition: Any = acquisition, bounds: Tensor = bounds) -> Any:
                torch.manual_seed(0)
                return maximise(acquisition, bounds, 1, 10, 256)

            row |= {f"{name} value": call()[1].item(), name: bench.seconds(call)}
        rows.append(row)
    return rows


def whole(bench: Bench) -> dict[str, Any]:
    """One run on the device and on its CPU."""
    found: dict[str, Any] = {}
    for device in {bench.device: None, "cpu": None}:
        started = time.perf_counter()
        history = run(Hartmann3(), MFGPUCB(device=device), bench.sizes.capital, progress=False)
        found[device] = {"seconds": time.perf_counter() - started, "queries": len(history)}
    return found


def sweep(bench: Bench) -> dict[str, Any]:
    """The best block sizes of each launch, one after another, each with the best of those before."""
    kernels, found = _dispatch.kernels("posterior"), {"float64": {}, "float32": {}}
    for way, n, m in bench.sizes.sweep:
        for name, row in found.items():
            kind = getattr(torch, name)
            cache, X = CachedGP(bench.model(n)).cache.to(kind), bench.points(m).to(kind)
            by, trials = X[:, 0].contiguous(), {}
            gradient = partial(kernels.backward, cache, X, by, by)
            call = gradient if way == "gradient" else partial(kernels.forward, cache, X)
            first = kernels.TILES[way, kind]
            tried = dict.fromkeys([astuple(first), *(astuple(Tiles(*sizes)) for sizes in CANDIDATES[way])])
            for sizes in list(tried)[: 2 if bench.dry else None]:
                if time.monotonic() > bench.until:
                    break
                kernels.TILES[way, kind] = Tiles(*sizes)
                if not fit_together(kernels.TILES):
                    continue
                try:
                    trials[sizes] = bench.seconds(call)
                except Exception as error:  # what does not compile, or fit, is not the best
                    trials[sizes] = None
                    print(f"{way} {sizes}: {type(error).__name__}: {error}", flush=True)
            timed = {sizes: seconds for sizes, seconds in trials.items() if seconds is not None}
            best = min(timed, key=timed.__getitem__, default=astuple(first))
            kernels.TILES[way, kind] = Tiles(*best)
            row[way] = {"n": n, "m": m, "best": best, "seconds": {" ".join(map(str, s)): t for s, t in trials.items()}}
    return found


SECTIONS: dict[str, Callable[[Bench], Any]] = {
    "versions": versions,
    "ceilings": limits,
    "tests": tests,
    "tiles": sweep,
    "forward": lambda bench: list(posteriors(bench, bench.sizes.forward, False)),
    "backward": lambda bench: list(posteriors(bench, bench.sizes.backward, True)),
    "small": small,
    "processes": processes,
    "greedy": picks,
    "optimize_acqf": acquisitions,
    "run": whole,
}
"""In this order: what comes first says most of what comes later."""
