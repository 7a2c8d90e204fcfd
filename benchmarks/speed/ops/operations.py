"""Ours and BoTorch's way of doing each operation, and how far their results are apart."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import botorch.optim
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from torch import Tensor

from benchmarks.speed.ops.cases import Case
from mfbo_torch import CachedGP, HallucinatedUpperConfidenceBound, PerFidelityGP
from mfbo_torch.acquisition.fused import fused
from mfbo_torch.acquisition.optimize import optimize_acqf
from mfbo_torch.ops.cache import Cache, factorize
from mfbo_torch.ops.greedy import greedy
from mfbo_torch.ops.posterior import mean_variance

BETA = 2.0


@dataclass(frozen=True)
class Pair:
    """This package's callable and BoTorch's; where their ``error`` is above the ``limit`` no time means anything."""

    ours: Callable[[], Any]
    peer: Callable[[], Any]
    error: Callable[[], float]
    limit: float


def draw(case: Case, *shape: int, seed: int = 0, device: str = "cpu") -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, case.d, generator=generator, dtype=torch.double).to(device, case.dtype)


def values(X: Tensor) -> Tensor:
    """A smooth function with its maximum inside the cube."""
    return -((X - 0.45).square() * (4 + (9 * X).sin())).sum(-1, keepdim=True)


def model_of(case: Case, device: str = "cpu") -> SingleTaskGP:
    """A GP with hyper-parameters such as a fit gives; the lengthscale grows with the dimension."""
    X = draw(case, case.n, device=device)
    model = SingleTaskGP(X, values(X)).to(X)
    model.covar_module.lengthscale = 0.3 * case.d**0.5
    model.likelihood.noise = 1e-3
    return model.eval()


def limit_of(case: Case) -> float:
    return 1e-8 if case.dtype == torch.double else 5e-3


def _apart(ours: Any, theirs: Any) -> float:
    pairs = zip(ours, theirs, strict=True)
    return max(float((a.reshape(b.shape) - b).abs().max() / b.abs().max().clamp_min(1e-3)) for a, b in pairs)


def posterior(case: Case) -> Pair:
    """Mean and variance at ``m x 1 x d`` points, without a gradient."""
    X = draw(case, case.m, 1, seed=1)
    model = model_of(case)
    cache = CachedGP(model).cache

    def ours() -> tuple[Tensor, Tensor]:
        return mean_variance(cache, X)

    @torch.no_grad()
    def peer() -> tuple[Tensor, Tensor]:
        found = model.posterior(X)
        return found.mean, found.variance

    return Pair(ours, peer, lambda: _apart(ours(), peer()), limit_of(case))


def several(case: Case, device: str) -> Cache:
    """Several GPs with ``n``, ``n / 2``, ``n / 4`` ... points."""
    sizes = [max(case.n >> i, 1) for i in range(case.processes)]
    inputs = draw(case, case.processes, case.n, device=device)
    mask = torch.stack([(torch.arange(case.n) < size).to(inputs) for size in sizes])
    one, lengths = inputs.new_ones(case.processes), inputs.new_full((case.processes, case.d), 0.3 * case.d**0.5)
    noise = torch.full_like(mask, 1e-3)
    return factorize("rbf", inputs, values(inputs).squeeze(-1), noise, lengths, one, 0 * one, mask)


def posterior_gradient(case: Case) -> Pair:
    """The sum of means and variances, and its gradient."""
    X = draw(case, case.m, 1, seed=1).requires_grad_()
    model = model_of(case)
    cached = CachedGP(model)

    def run(model: Any) -> tuple[Tensor, ...]:
        found = model.posterior(X)
        return torch.autograd.grad((found.mean + found.variance).sum(), X)

    return Pair(lambda: run(cached), lambda: run(model), lambda: _apart(run(cached), run(model)), 10 * limit_of(case))


def _botorchs(model: Model) -> AcquisitionFunction:
    return UpperConfidenceBound(model, BETA)


def _bound(model: Model) -> AcquisitionFunction:
    return HallucinatedUpperConfidenceBound(CachedGP(model), BETA)


def _improvement(model: Model) -> AcquisitionFunction:
    return LogExpectedImprovement(model, -0.1)


PENDING = 5
"""Points pending; BoTorch's way is to condition on the means there."""


def _of_class(case: Case, make: Callable[[Model], AcquisitionFunction], gradient: bool) -> Pair:
    """A class of BoTorch with the cached model, against the same with the plain one."""
    model = model_of(case)
    return _through_torch(case, make(CachedGP(model)), make(model), gradient)


def _of_bound(case: Case, pending: int, gradient: bool) -> Pair:
    """The bound of this package with points pending, against BoTorch's own, of a model conditioned on them."""
    model = model_of(case)
    given, ours = model, _bound(model)
    if pending:
        X = draw(case, pending, seed=2)
        with torch.no_grad():
            mean = model.posterior(X).mean
            given = model.condition_on_observations(X, mean)
        ours.set_X_pending(X)
    return _through_torch(case, ours, _botorchs(given), gradient)


def _through_torch(case: Case, ours: AcquisitionFunction, theirs: AcquisitionFunction, gradient: bool) -> Pair:
    """Two acquisition functions through torch, with gradients or without."""
    X = draw(case, case.m, 1, seed=1).requires_grad_(gradient)

    def run(acquisition: AcquisitionFunction) -> tuple[Tensor, ...]:
        if gradient:
            return torch.autograd.grad(acquisition(X).sum(), X)
        with torch.no_grad():
            return (acquisition(X),)

    limit = limit_of(case) * (10 if gradient else 1)
    return Pair(lambda: run(ours), lambda: run(theirs), lambda: _apart(run(ours), run(theirs)), limit)


def _on_arrays(case: Case, gradient: bool) -> Pair:
    """What an optimiser's step asks for, from the fused form of the bound, against BoTorch's own through torch."""
    through = _of_bound(case, 0, gradient)
    form, x = fused(_bound(model_of(case))), draw(case, case.m, seed=1).numpy()
    call = partial(form.with_gradient if gradient else form, x)

    def error() -> float:
        found = torch.from_numpy(call()[1] if gradient else call())
        return _apart([found], through.peer())

    return Pair(call, through.peer, error, through.limit)


MODELS = 20
"""Random models on which what ``optimize_acqf`` finds is compared."""


def optimized(case: Case, maximise: Callable[..., Any] = optimize_acqf) -> Pair:
    """``optimize_acqf`` as a whole, ``m`` raw samples and 10 restarts: ours or BoTorch's with the cached model, and
    BoTorch's with the plain one.

    The error is the share of random models on which ours finds less.
    """
    model = model_of(case)
    ours, theirs = _botorchs(CachedGP(model)), _botorchs(model)
    bounds = torch.tensor([[0.0] * case.d, [1.0] * case.d], dtype=case.dtype)
    torch.manual_seed(0)
    state = torch.get_rng_state()

    def run(maximise: Callable[..., Any], acquisition: AcquisitionFunction, seed: int = 0) -> float:
        torch.set_rng_state(state)  # the starting points are drawn from the raw samples; seeding anew takes 0.4 ms
        return maximise(acquisition, bounds, 1, min(10, case.m), case.m, options={"seed": seed})[1].item()

    def error() -> float:
        worse = 0
        for seed in range(MODELS):
            X = draw(case, case.n, seed=seed)
            random = SingleTaskGP(X, torch.randn(case.n, 1, generator=torch.Generator().manual_seed(seed)).to(X))
            random.covar_module.lengthscale = 0.3 * case.d**0.5
            random.likelihood.noise = 1e-2
            found = run(maximise, _botorchs(CachedGP(random.eval())), seed)
            worse += found < run(botorch.optim.optimize_acqf, _botorchs(random), seed) - 1e-8
        return worse / MODELS

    return Pair(lambda: run(maximise, ours), lambda: run(botorch.optim.optimize_acqf, theirs), error, 1 / MODELS)


def greedy_selection(case: Case) -> Pair:
    """``q`` of ``m`` points, against a loop of ``posterior`` and ``condition_on_observations``."""
    X = draw(case, case.m, seed=1)
    model = model_of(case)
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

    return Pair(ours, peer, lambda: float(ours() != peer()), 0.0)


def fidelities(case: Case) -> Pair:
    """All fidelities of a :class:`PerFidelityGP` against one of them: here the peer is this package itself."""
    X = draw(case, case.processes * case.n)
    level = torch.arange(case.processes).repeat_interleave(case.n).to(X).unsqueeze(-1)
    train_X, Y = torch.cat([X, level], -1), values(X) + 0.1 * level
    several = PerFidelityGP(train_X, Y, case.processes, link="independent").eval()
    one = PerFidelityGP(train_X[: case.n], Y[: case.n], 1).eval()
    points = draw(case, case.m, seed=1)

    @torch.no_grad()
    def run(model: PerFidelityGP) -> tuple[Tensor, Tensor]:
        return model.mean_variance(points)

    def error() -> float:
        return _apart([part[:, :1] for part in run(several)], run(one))

    return Pair(lambda: run(several), lambda: run(one), error, limit_of(case))


OPERATIONS: dict[str, Callable[[Case], Pair]] = {
    "posterior": posterior,
    "posterior gradient": posterior_gradient,
    "fused": partial(_on_arrays, gradient=False),
    "fused gradient": partial(_on_arrays, gradient=True),
    "bound": partial(_of_bound, pending=PENDING, gradient=False),
    "bound gradient": partial(_of_bound, pending=PENDING, gradient=True),
    "ucb": partial(_of_class, make=_botorchs, gradient=False),
    "ucb gradient": partial(_of_class, make=_botorchs, gradient=True),
    "logei": partial(_of_class, make=_improvement, gradient=False),
    "logei gradient": partial(_of_class, make=_improvement, gradient=True),
    "optimize_acqf": optimized,
    "botorch optimize_acqf": partial(optimized, maximise=botorch.optim.optimize_acqf),
    "greedy": greedy_selection,
    "fidelities": fidelities,
}
