"""Selecting batches from a finite set: ours, BoTorch's way, the paper's, checked and timed in turn in one process.

    python -m benchmarks.speed.greedy [--rounds 9] [--threads N]

``batch``: one batch from 10,000 points. ``large``: 64 picks from a million points beside one pass over all of
their variances. ``rounds``: GP-BUCB for 400 queries on 10,000 points, and which share of the variances is
never computed. Writes ``greedy.json``.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.linalg.blas import dtrsv
from torch import Tensor

from benchmarks.common import parser, quiet, write_json
from benchmarks.speed.ops.cases import Case
from benchmarks.speed.ops.operations import BETA, draw, greedy_selection, model_of
from benchmarks.timing import peak_bytes, seconds, side_by_side, spread
from mfbo_torch import CachedGP
from mfbo_torch.acquisition import greedy_hallucinated_ucb
from mfbo_torch.confidence import practical_beta
from mfbo_torch.ops.cache import Cache, factorize
from mfbo_torch.ops.greedy import Selection, greedy
from mfbo_torch.ops.kernels import cross_correlation
from mfbo_torch.ops.posterior import mean_variance

LABELS = {
    "lazy": "ours",
    "whole": "ours, all variances",
    "botorch": "BoTorch, condition_on_observations",
    "paper": "the paper's, from infinite bounds",
    "paper_bounded": "the paper's, first bounds given",
}
CHUNK = 512
"""Candidates whose covariances with the data are computed together, in the paper's algorithm."""


class PaperLazy:
    """Upper bounds of the deviation, refreshed one at a time [Desautels2012gpbucb]_ (Eq. 5).

    They start at infinity and hold for all rounds, as long as the hyper-parameters stay and every pick is observed.
    Means and covariances come for all ``m x d`` candidates at once; a refresh is one back-substitution, by LAPACK.
    """

    def __init__(self, X: Tensor) -> None:
        self.X, self.bounds, self.refreshes = X, np.full(len(X), np.inf), 0

    def select(self, cache: Cache, width: float, q: int) -> list[int]:
        """The ``q`` picks of one batch by the factor of all points with values; ``width`` weighs the deviation."""
        n, m, scale, noise = cache.num_points, len(self.X), cache.outputscale.item(), cache.noise.item()
        scaled, picks = cache.scaled(self.X), []
        cross, mean = np.zeros((m, n + q)), np.empty(m)
        for start in range(0, m, CHUNK):
            some = slice(start, start + CHUNK)
            known = scale * cross_correlation(cache.kernel, scaled[some], cache.inputs)
            cross[some, :n], mean[some] = known.numpy(), (cache.constant + known @ cache.alpha).numpy()
        gram = scale * cross_correlation(cache.kernel, cache.inputs, cache.inputs)
        upper = np.eye(n + q, order="F")  # rows of picks to come solve to zero
        upper[:n, :n] = np.linalg.cholesky((gram + noise * torch.eye(n).to(gram)).numpy()).T
        scores = mean + width * self.bounds
        for t in range(q):
            fresh = None
            while (best := int(scores.argmax())) != fresh:
                v = dtrsv(upper, cross[best], trans=1)
                self.bounds[best] = np.sqrt(max(scale - v @ v, 0.0))
                scores[best] = mean[best] + width * self.bounds[best]
                self.refreshes += 1
                fresh = best
            picks.append(best)
            upper[:, n + t] = v
            upper[n + t, n + t] = np.sqrt(scale + noise - v @ v)
            column = scale * cross_correlation(cache.kernel, scaled, scaled[best : best + 1])
            cross[:, n + t] = column.squeeze(1).numpy()
        return picks


def batch(case: Case, rounds: int) -> dict[str, Any]:
    """One batch, by everyone."""
    model, X = model_of(case), draw(case, case.m, seed=1)
    cached = CachedGP(model)
    cache = cached.cache

    def paper(first: bool) -> list[int]:
        peer = PaperLazy(X)
        if first:
            peer.bounds = mean_variance(cache, X)[1].sqrt().numpy()
        return peer.select(cache, BETA, case.q)

    calls: dict[str, Callable[[], list[int]]] = {
        "lazy": lambda: greedy_hallucinated_ucb(cached, X, BETA**2, case.q).indices.tolist(),
        "whole": lambda: greedy_hallucinated_ucb(cached, X, BETA**2, case.q, lazy=False).indices.tolist(),
        "botorch": greedy_selection(case).peer,
        "paper": lambda: paper(False),
        "paper_bounded": lambda: paper(True),
    }
    row = _sizes(case) | {"same_picks": len({tuple(call()) for call in calls.values()}) == 1}
    times = side_by_side(list(calls.values()), rounds, 0.01)
    row["seconds"] = {name: spread(found) for name, found in zip(calls, times, strict=True)}
    others = zip(list(calls)[1:], times[1:], strict=True)
    row["ratio"] = {name: median(b / a for a, b in zip(times[0], found, strict=True)) for name, found in others}
    row["num_variances"] = greedy_hallucinated_ucb(cached, X, BETA**2, case.q).num_variances
    return row


def large(case: Case, rounds: int) -> dict[str, Any]:
    """All picks beside one pass over all variances, and the memory they take."""
    cached, X = CachedGP(model_of(case)), draw(case, case.m, seed=1)
    cache = cached.cache

    def select(X: Tensor = X) -> Selection:
        return greedy_hallucinated_ucb(cached, X, BETA**2, case.q)

    select(X[: case.q])  # the first call loads and lays out
    turns = [(seconds(select), seconds(lambda: mean_variance(cache, X))) for _ in range(rounds)]
    times = list(zip(*turns, strict=True))
    return _sizes(case) | {
        "seconds": {name: spread(list(row)) for name, row in zip(("lazy", "one_pass"), times, strict=True)},
        "ratio": median(ours / one for ours, one in turns),
        "num_variances": select().num_variances,
        "peak_bytes": peak_bytes(select),
    }


def objective(X: Tensor) -> Tensor:
    """A function with several maxima."""
    return (7 * X + torch.arange(X.shape[-1])).sin().sum(-1) / X.shape[-1] ** 0.5


def known(X: Tensor, Y: Tensor, noise: float = 0.01) -> Cache:
    """The factor of a process whose hyper-parameters are known."""
    one, lengths = Y.new_ones(()), 0.4 * X.new_ones(X.shape[-1])
    return factorize("matern52", X, Y, torch.full_like(Y, noise), lengths, one, 0 * one, 0 * Y + 1)


def over_rounds(m: int, d: int, q: int, total: int) -> dict[str, Any]:
    """GP-BUCB in batches of ``q``: seconds, and variances that were not computed, a batch."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(m, d, generator=generator, dtype=torch.double)
    peer, asked = PaperLazy(X), torch.randint(m, (q,), generator=generator)
    Y = objective(X[asked]) + 0.1 * torch.randn(q, generator=generator).double()
    found: dict[str, Any] = {"m": m, "d": d, "q": q, "t": [], "same_picks": True}
    found |= {name: {"seconds": [], "saved": []} for name in ("lazy", "whole", "paper")}
    while len(asked) < total:
        cache, width = known(X[asked], Y), practical_beta(len(asked) // q + 1, d) ** 0.5
        cache.prepared  # noqa: B018  belongs to the model
        picks = []
        for name in ("lazy", "whole", "paper"):
            before, started = peer.refreshes, time.perf_counter()
            if name == "paper":
                picks.append(peer.select(cache, width, q))
                computed = peer.refreshes - before
            else:
                indices, computed = greedy(cache, X, width, q, lazy=name == "lazy")
                picks.append(indices.tolist())
            found[name]["seconds"].append(time.perf_counter() - started)
            found[name]["saved"].append(1 - computed / (q * m))
        found["same_picks"] &= all(one == picks[0] for one in picks)
        found["t"].append(len(asked) + q)
        new = torch.tensor(picks[0])
        asked = torch.cat([asked, new])
        Y = torch.cat([Y, objective(X[new]) + 0.1 * torch.randn(q, generator=generator).double()])
    return found


def _sizes(case: Case) -> dict[str, Any]:
    return {"n": case.n, "m": case.m, "d": case.d, "q": case.q}


BATCH = Case("greedy", 200, 10_000, q=10)
LARGE = Case("greedy", 500, 10**6, q=64)
ROUNDS = (10_000, 3, 10, 400)


def main(
    arguments: list[str] | None = None, small: Case = BATCH, big: Case = LARGE, course: tuple[int, ...] = ROUNDS
) -> int:
    """Check, measure, print, write; 1 if picks differ."""
    options = parser(__doc__, rounds=9, threads=torch.get_num_threads()).parse_args(arguments)
    quiet(options.threads)
    report: dict[str, Any] = {}
    report["batch"] = row = batch(small, options.rounds)
    for name, taken in row["seconds"].items():
        ratio = f"{row['ratio'][name]:8.1f} times ours" if name in row["ratio"] else ""
        print(f"{LABELS[name]:36s} {1e3 * taken['median']:10.1f} ms {ratio}", flush=True)
    report["large"] = row = large(big, min(options.rounds, 3))
    print(
        f"{row['q']} of {row['m']:,}: {row['seconds']['lazy']['median']:.2f} s, one pass "
        f"{row['seconds']['one_pass']['median']:.2f} s, {row['ratio']:.2f} passes, {row['peak_bytes'] / 2**30:.2f} GiB",
        flush=True,
    )
    report["rounds"] = found = over_rounds(*course)
    for name in ("lazy", "paper"):
        print(f"{LABELS[name]:36s} saves {100 * min(found[name]['saved']):.2f} % of the variances or more")
    write_json(options.results / "greedy.json", report)
    return int(not (report["batch"]["same_picks"] and found["same_picks"]))


if __name__ == "__main__":
    raise SystemExit(main())
