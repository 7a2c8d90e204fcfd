"""What the strategies with a model share: the schedule of fits, what is kept between decisions, scaled targets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

import gpytorch
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from mfbo_torch.history import Record
from mfbo_torch.models.gp.closed_form import ClosedForm
from mfbo_torch.models.gp.likelihood import maximize_twice
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.rng import PrivateDraws, private_retries
from mfbo_torch.utils.standardize import shift_scale, varies

EXACT_SIZE = 4096
"""Number of observations up to which GPyTorch solves by Cholesky; its iterative solves are approximate."""

LARGE, FITTED = 1000, 256
"""Number of observations from which hyper-parameters are fitted to 256 of them, and anew only when the data have grown
by a tenth: with new ones a factor is made from scratch, in ``O(n^3)``; with the former ones it is extended, in
``O(n^2)``."""

T = TypeVar("T")
Build = Callable[..., Model]
"""From ``n x d`` inputs, ``n x 1`` standardized targets and, where known, their noise to an untrained model."""


@contextmanager
def quiet() -> Iterator[None]:
    """Exact solves, whose warnings a decision has no use for."""
    with warnings.catch_warnings(), gpytorch.settings.max_cholesky_size(EXACT_SIZE):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """:func:`quiet`, with reproducible random numbers of this thread's own."""
    with quiet(), PrivateDraws(seed):
        yield


@contextmanager
def fitting() -> Iterator[None]:
    """:func:`quiet`, for fits, with reproducible random numbers where they start again."""
    with quiet(), private_retries(0):
        yield


def draw_seed(generator: torch.Generator) -> int:
    """A seed for another source of random numbers."""
    return int(torch.randint(2**31, (1,), generator=generator))


def refit_size(n: int, every: int) -> int:
    """On how many of ``n`` observations the hyper-parameters are fitted.

    The largest number ``<= n`` of the schedule ``1, 2, ...`` that goes by :func:`refit_step`; 0 of none.
    """
    size = min(n, 1)
    while size and (following := size + refit_step(size, every)) <= n:
        size = following
    return size


def refit_step(size: int, every: int) -> int:
    """How many observations after ``size`` the hyper-parameters are fitted again.

    A tenth of them, at least 1, and up to :data:`LARGE` of them at most ``every``: each observation counts at
    first, each ``every`` later.
    """
    tenth = max(1, size // 10)
    return min(every, tenth) if size < LARGE else tenth


def standardized(Y: Tensor) -> Tensor:
    """Targets with mean 0 and deviation 1; zeros where they are equal up to rounding.

    BoTorch's ``Standardize`` leaves deviations below 1e-8 alone, which loses targets around 1e-9.
    """
    if not varies(Y):
        return torch.zeros_like(Y)
    centred = Y / Y.abs().max()
    centred = centred - centred.mean()
    centred = centred / centred.abs().max()
    return centred / centred.std()


class _Grown(NamedTuple, Generic[T]):
    """A model, what it was fitted for, on how many observations, and all that it has."""

    owner: object
    size: int
    key: tuple[Any, ...]
    model: T


class Growing(Generic[T]):
    """A model with hyper-parameters fitted to the first observations, which later ones are added to.

    They are added in blocks, so that the factor, to its last bit, depends on the history alone and not on when
    it was computed. As with :class:`Memo`, forgetting it changes no result.

    Args:
        block: How many observations are added at a time.
    """

    def __init__(self, block: int) -> None:
        self.block = block
        self._grown: _Grown[T] | None = None
        self._whole: _Grown[T] | None = None

    def __call__(
        self, owner: object, records: Sequence[Record], size: int, fit: Callable[[], T], add: Callable[[T, slice], T]
    ) -> T:
        """The model of all observations.

        Args:
            owner: Where the observations are from, and how they are seen: what was made for another is not used.
            records: The observations.
            size: How many the hyper-parameters are fitted to.
            fit: Makes the model of these.
            add: Makes a model of a model and some further observations.
        """
        known = all(r.standard_error is not None for r in records)
        key = tuple((r.query.x, r.query.fidelity, r.value, r.standard_error if known else None) for r in records)
        whole = self._whole
        if whole is not None and whole.owner == owner and (whole.size, whole.key) == (size, key):
            return whole.model
        blocks = size + (len(key) - size) // self.block * self.block
        last = self._grown
        usable = last is not None and last.owner == owner and last.size == size and len(last.key) <= blocks
        if last is None or not usable or last.key != key[: len(last.key)]:
            last = _Grown(owner, size, key[:size], fit())
        model = last.model
        for start in range(len(last.key), blocks, self.block):
            model = add(model, slice(start, start + self.block))
        self._grown = _Grown(owner, size, key[:blocks], model)
        model = add(model, slice(blocks, len(key))) if blocks < len(key) else model
        self._whole = _Grown(owner, size, key, model) if len(key) <= LARGE else None  # a large factor is not kept twice
        return model


class Surrogate:
    """Builds GPs whose hyper-parameters follow a sparse schedule.

    Args:
        refit_every: Most observations between two fits, see :func:`refit_size`.
        device: Where the models live.
        dtype: Their precision.
    """

    def __init__(self, refit_every: int, device: torch.device, dtype: torch.dtype) -> None:
        self.refit_every, self.device, self.dtype = refit_every, device, dtype
        self._state: Memo[dict[str, Tensor]] = Memo()

    def to(self, X: Tensor) -> Tensor:
        """A tensor on the models' device in their precision."""
        return X.to(self.device, self.dtype)

    def model(self, build: Build, X: Tensor, Y: Tensor, Yvar: Tensor | None = None) -> Model:
        """A model of all the data, with hyper-parameters fitted to the first part of it.

        The targets are standardized over the part that is used in each case, so the
        hyper-parameters are relative to the spread of the data.

        Args:
            build: Makes a model.
            X: ``n x d`` inputs.
            Y: ``n x 1`` targets.
            Yvar: ``n x 1`` variances of their noise, where it is known.

        Returns:
            The model, in evaluation mode, with standardized targets.
        """
        X, size = self.to(X), refit_size(len(Y), self.refit_every)
        some = torch.linspace(0, size - 1, size if size < LARGE else FITTED).round().long()
        key = (build, *(part[:size].cpu().numpy().tobytes() for part in (X, Y, Yvar) if part is not None))

        def data(Y: Tensor, Yvar: Tensor | None) -> list[Tensor]:
            noise = [] if Yvar is None else [self.to(Yvar / shift_scale(Y)[1] ** 2)]
            return [self.to(standardized(Y)), *noise]

        known = None if Yvar is None else Yvar[some]
        state = self._state(key, lambda: _fitted(build, X[some], *data(Y[some], known)))
        with quiet():
            model = build(X, *data(Y, Yvar))
        model.load_state_dict(state)
        return model.eval()

    def predict(self, model: Model, Y: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the noise-free value at ``n x d`` inputs, ``n`` each, in the units of ``Y``.

        Args:
            model: A model of standardized targets.
            Y: ``n x 1`` targets before that.
            at: Inputs.
        """
        shift, scale = shift_scale(Y)  # of constants the size says most
        return predicted(model, self.to(at), shift, scale)


def predicted(model: Model, at: Tensor, shift: float, scale: float, observed: bool = False) -> tuple[Tensor, Tensor]:
    """Mean and deviation at single ``n x d`` inputs, ``n`` each, of a model whose targets were shifted and scaled.

    Args:
        model: The model.
        at: The inputs.
        shift: What was subtracted from the targets.
        scale: What they were divided by.
        observed: Of what would be observed there, with its noise.
    """
    with torch.no_grad(), quiet():
        posterior = model.posterior(at.unsqueeze(-2), observation_noise=observed)
        mean, variance = (part.reshape(-1).to("cpu", torch.double) for part in (posterior.mean, posterior.variance))
    return shift + scale * mean, scale * variance.sqrt()


def _fitted(build: Build, *data: Tensor) -> dict[str, Tensor]:
    """The state of a model after its fit; where that fails, the priors' modes are better than no decision."""
    with fitting():
        model = build(*data)
        mll = ExactMarginalLogLikelihood(model.likelihood, model)
        maximize_twice(mll, _quick(mll), optimizer_kwargs={"options": {"maxiter": 100}})
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _quick(mll: ExactMarginalLogLikelihood) -> ClosedForm | None:
    """The loss of a GP at one fidelity in closed form; ``None``, GPyTorch's own, of any other model."""
    model, likelihood = mll.model, mll.likelihood
    if type(model) is not SingleTaskGP or type(model.mean_module) is not ConstantMean:
        return None
    X, Y = model.train_inputs[0], model.train_targets
    known = None if isinstance(likelihood, GaussianLikelihood) else likelihood.noise
    try:
        return ClosedForm(mll, X, Y, model.covar_module, [(model.mean_module.raw_constant, torch.ones_like(Y))], known)
    except UnsupportedError:
        return None
