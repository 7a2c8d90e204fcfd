"""Ours and BoTorch's way of doing each operation, and how far their results are apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from torch import Tensor

from benchmarks.ops.cases import Case
from mfbo_torch import CachedGP, PerFidelityGP
from mfbo_torch.ops.cache import Cache, factorize
from mfbo_torch.ops.greedy import greedy
from mfbo_torch.ops.posterior import mean_variance, reference

BETA = 2.0


@dataclass(frozen=True)
class Pair:
    """Two callables that do the same, and the largest difference of their results.

    Args:
        ours: With this package.
        peer: With BoTorch, or ``None`` where it cannot.
        error: Of ours against BoTorch, or against the plain formula where that cannot.
        limit: Largest error at which a time means anything.
    """

    ours: Callable[[], Any]
    peer: Callable[[], Any] | None
    error: Callable[[], float]
    limit: float


def draw(case: Case, device: str, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, case.d, generator=generator, dtype=torch.double).to(device, case.dtype)


def values(X: Tensor) -> Tensor:
    """A smooth function with its maximum inside the cube."""
    return -((X - 0.45).square() * (4 + (9 * X).sin())).sum(-1, keepdim=True)


def model_of(case: Case, device: str) -> SingleTaskGP:
    """A GP with hyper-parameters such as a fit gives; the lengthscale grows with the dimension."""
    X = draw(case, device, case.n)
    model = SingleTaskGP(X, values(X)).to(X)
    model.covar_module.lengthscale = 0.3 * case.d**0.5
    model.likelihood.noise = 1e-3
    return model.eval()


def limit_of(case: Case) -> float:
    return 1e-8 if case.dtype == torch.double else 5e-3


def _apart(ours: Any, theirs: Any) -> float:
    pairs = zip(ours, theirs, strict=True)
    return max(float((a.reshape(b.shape) - b).abs().max() / b.abs().max().clamp_min(1e-3)) for a, b in pairs)


def posterior(case: Case, device: str) -> Pair:
    """Mean and variance at ``m x 1 x d`` points, without a gradient."""
    X = draw(case, device, case.m, 1, seed=1)
    if case.processes > 1:
        return _processes(case, device, X)
    model = model_of(case, device)
    cache = CachedGP(model).cache

    @torch.no_grad()
    def peer() -> tuple[Tensor, Tensor]:
        found = model.posterior(X)
        return found.mean, found.variance

    def ours() -> tuple[Tensor, Tensor]:
        return mean_variance(cache, X)

    if case.peer:
        return Pair(ours, peer, lambda: _apart(ours(), peer()), limit_of(case))
    return _alone(case, ours, cache, X)


def _alone(case: Case, ours: Callable[[], tuple[Tensor, Tensor]], cache: Cache, X: Tensor) -> Pair:
    """Without a peer, checked at a thousand points against the plain formula."""

    some = X.squeeze(-2)[..., :1000, :]

    def error() -> float:
        return _apart([part.squeeze(-1)[..., :1000] for part in ours()], reference.mean_variance(cache, some))

    return Pair(ours, None, error, limit_of(case))


def _processes(case: Case, device: str, X: Tensor) -> Pair:
    """Several GPs with ``n``, ``n / 2``, ``n / 4`` ... points."""
    sizes = [max(case.n >> i, 1) for i in range(case.processes)]
    inputs = draw(case, device, case.processes, case.n)
    mask = torch.stack([(torch.arange(case.n) < size).to(inputs) for size in sizes])
    one = inputs.new_ones(case.processes)
    cache = factorize(
        "rbf",
        inputs,
        values(inputs).squeeze(-1),
        torch.full_like(mask, 1e-3),
        inputs.new_full((case.processes, case.d), 0.3 * case.d**0.5),
        one,
        0 * one,
        mask,
    )
    points = X.reshape(1, -1, case.d)

    def ours() -> tuple[Tensor, Tensor]:
        return mean_variance(cache, points)

    return _alone(case, ours, cache, points)


def posterior_gradient(case: Case, device: str) -> Pair:
    """The sum of means and variances, and its gradient."""
    X = draw(case, device, case.m, 1, seed=1).requires_grad_()
    model = model_of(case, device)
    cached = CachedGP(model)

    def run(model: Any) -> tuple[Tensor, ...]:
        found = model.posterior(X)
        return torch.autograd.grad((found.mean + found.variance).sum(), X)

    return Pair(lambda: run(cached), lambda: run(model), lambda: _apart(run(cached), run(model)), 10 * limit_of(case))


def _acquisitions(case: Case, device: str) -> tuple[AcquisitionFunction, AcquisitionFunction]:
    model = model_of(case, device)
    return UpperConfidenceBound(CachedGP(model), BETA), UpperConfidenceBound(model, BETA)


def ucb(case: Case, device: str) -> Pair:
    """BoTorch's own upper confidence bound, without a gradient."""
    ours, theirs = _acquisitions(case, device)
    X = draw(case, device, case.m, 1, seed=1)

    @torch.no_grad()
    def run(acquisition: AcquisitionFunction) -> Tensor:
        return acquisition(X)

    return Pair(lambda: run(ours), lambda: run(theirs), lambda: _apart([run(ours)], [run(theirs)]), limit_of(case))


def ucb_gradient(case: Case, device: str) -> Pair:
    """BoTorch's own upper confidence bound and its gradient."""
    ours, theirs = _acquisitions(case, device)
    X = draw(case, device, case.m, 1, seed=1).requires_grad_()

    def run(acquisition: AcquisitionFunction) -> tuple[Tensor, ...]:
        return torch.autograd.grad(acquisition(X).sum(), X)

    return Pair(lambda: run(ours), lambda: run(theirs), lambda: _apart(run(ours), run(theirs)), 10 * limit_of(case))


def optimized(case: Case, device: str) -> Pair:
    """``optimize_acqf`` as a whole: ``m`` raw samples, 10 restarts."""
    ours, theirs = _acquisitions(case, device)
    bounds = torch.tensor([[0.0] * case.d, [1.0] * case.d], device=device, dtype=case.dtype)

    torch.manual_seed(0)
    state = torch.get_rng_state()

    def run(acquisition: AcquisitionFunction) -> Tensor:
        torch.set_rng_state(state)  # the starting points are drawn from the raw samples; seeding anew takes 0.4 ms
        return optimize_acqf(acquisition, bounds, 1, min(10, case.m), case.m, options={"seed": 0})[1]

    return Pair(lambda: run(ours), lambda: run(theirs), lambda: _apart([run(ours)], [run(theirs)]), 1e-6)


def greedy_selection(case: Case, device: str) -> Pair:
    """``q`` of ``m`` points, against a loop of ``posterior`` and ``condition_on_observations``."""
    X = draw(case, device, case.m, seed=1)
    model = model_of(case, device)
    cache = CachedGP(model).cache

    def ours() -> list[int]:
        return greedy(cache, X, BETA, case.q).indices.tolist()

    @torch.no_grad()
    def peer() -> list[int]:
        current, picks = model, []
        mean = model.posterior(X.unsqueeze(1)).mean
        for t in range(case.q):
            variance = current.posterior(X.unsqueeze(1)).variance
            picks.append(int((mean + BETA * variance.sqrt()).reshape(-1).argmax()))
            if t < case.q - 1:
                best = slice(picks[-1], picks[-1] + 1)
                current = current.condition_on_observations(X[best], mean[best].reshape(1, 1))
        return picks

    if case.peer:
        return Pair(ours, peer, lambda: float(ours() != peer()), 0.0)
    return Pair(ours, None, lambda: float(ours() != _direct(cache, X, case.q)), 0.0)


def _direct(cache: Cache, X: Tensor, q: int) -> list[int]:
    """The same picks from the reference."""
    from mfbo_torch.ops.greedy import reference as greedy_reference

    return greedy_reference.select(cache, X, BETA, q).tolist()


def fidelities(case: Case, device: str) -> Pair:
    """All fidelities of a :class:`PerFidelityGP` against one of them: here the peer is this package itself."""
    X = draw(case, device, case.processes * case.n)
    level = torch.arange(case.processes, device=device).repeat_interleave(case.n).to(X).unsqueeze(-1)
    train_X, Y = torch.cat([X, level], -1), values(X) + 0.1 * level
    several = PerFidelityGP(train_X, Y, case.processes, link="independent").eval()
    one = PerFidelityGP(train_X[: case.n], Y[: case.n], 1).eval()
    points = draw(case, device, case.m, seed=1)

    @torch.no_grad()
    def run(model: PerFidelityGP) -> tuple[Tensor, Tensor]:
        return model.mean_variance(points)

    def error() -> float:
        return _apart([part[:, :1] for part in run(several)], run(one))

    return Pair(lambda: run(several), lambda: run(one), error, limit_of(case))


OPERATIONS: dict[str, Callable[[Case, str], Pair]] = {
    "posterior": posterior,
    "posterior gradient": posterior_gradient,
    "ucb": ucb,
    "ucb gradient": ucb_gradient,
    "optimize_acqf": optimized,
    "greedy": greedy_selection,
    "fidelities": fidelities,
}


def build(case: Case, device: str) -> Pair:
    """The callables of a case on a device."""
    pair = OPERATIONS[case.operation](case, device)
    return pair if case.peer else replace(pair, peer=None)
