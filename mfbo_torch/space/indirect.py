r"""Queries that are averages: the queries, what they average over, and the inputs among which to find the maximiser.

A query ``a`` is answered by :math:`z = g(a) + \epsilon`, :math:`g(a) = E[f(X) \mid a]`, and the maximiser of ``f`` is
wanted. Resolutions are fidelities: the finest, the target, is the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mfbo_torch.space.space import Space
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, one_of, several


@dataclass(frozen=True, eq=False)
class Samples:
    """``D1``: inputs and the queries they came from, which teach what a query averages over.

    Args:
        X: ``N x d`` inputs; a ``SettingError`` unless they are finite and as many as queries.
        A: ``N x p`` queries in the user's units; where there are several resolutions, ``p`` parameters and the
            fidelity.
    """

    X: Tensor
    A: Tensor

    def __post_init__(self) -> None:
        for name in ("X", "A"):
            object.__setattr__(self, name, _table(f"samples.{name}", getattr(self, name)))
        if len(self.X) != len(self.A):
            raise SettingError("samples", f"{len(self.X)} inputs and {len(self.A)} queries", "as many of both")


@dataclass(frozen=True, eq=False)
class Window:
    """A query averages over a window of known width around a known location.

    Args:
        widths: One width a fidelity: a number, or one a dimension of the inputs. A standard deviation (``"gaussian"``)
            or half of a side (``"uniform"``); a ``SettingError`` unless all are positive.
        location: From ``... x m x p`` queries (the parameters alone, user's units) to ``... x m x d`` inputs; the query
            itself if omitted.
        shape: ``"gaussian"`` or ``"uniform"``.
    """

    widths: Sequence[float | Sequence[float]]
    location: Callable[[Tensor], Tensor] | None = None
    shape: str = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", several("widths", self.widths, _width, "one positive width a fidelity"))
        one_of("shape", self.shape, ("gaussian", "uniform"))


@dataclass(frozen=True, eq=False)
class Policy:
    """A query has a known probability for each input, as an agent has who chooses among arms.

    Args:
        probabilities: From ``... x m x p`` queries (with the fidelity last, where there are several) in the user's
            units to ``... x m x n`` probabilities of the ``n`` inputs; or a fitted scikit-learn classifier whose
            classes are the inputs' numbers; anything else is a ``SettingError``.
    """

    probabilities: Any

    def __post_init__(self) -> None:
        if not callable(self.probabilities) and not hasattr(self.probabilities, "predict_proba"):
            given = type(self.probabilities).__name__
            raise SettingError("probabilities", given, "a function, or a classifier with predict_proba")


@dataclass(frozen=True)
class IndirectSpace(Space):
    """A space whose queries are averages of ``f`` over inputs [Zhang2024indirect]_ (Section 2).

    Args:
        parameters: Those of a query.
        costs: One a resolution, the finest last.
        measured: As in :class:`~mfbo_torch.space.Space`.
        inputs: ``n x d`` inputs among which the maximiser of ``f`` is looked for.
        feedback: What a query averages over: :class:`Samples`, a :class:`Window`, a :class:`Policy`, or a conditional
            of :mod:`mfbo_torch.models` in the user's units.
        choices: The candidates, as a table: the only ``c x p`` queries that are allowed. They may be repeated.
        noise_std: The standard deviation of the noise at each fidelity, where it is known.

    Raises:
        SettingError: Inputs, choices, samples or noise of a wrong shape, or not finite.
    """

    inputs: Tensor = field(kw_only=True, compare=False)
    feedback: Any = field(kw_only=True, compare=False)
    choices: Tensor | None = field(default=None, kw_only=True, compare=False)
    noise_std: tuple[float, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.choices is not None:
            choices = _table("choices", self.choices)
            if choices.shape[-1] != self.dim:
                raise SettingError("choices", f"queries of {choices.shape[-1]} parameters", f"of {self.dim}")
            object.__setattr__(self, "candidates", choices)
        super().__post_init__()
        object.__setattr__(self, "choices", self._allowed_designs if self.candidates else None)
        object.__setattr__(self, "inputs", _table("inputs", self.inputs))
        if self.noise_std is not None:
            wanted, check = f"{len(self.costs)} numbers from 0 on, one a fidelity", partial(number, least=0)
            noise = several("noise_std", self.noise_std, check, wanted, size=len(self.costs))
            object.__setattr__(self, "noise_std", noise)
        self._check_feedback()

    def _check_feedback(self) -> None:
        given = self.feedback
        if isinstance(given, Samples):
            if given.A.shape[-1] != self.width:
                parts = f"the {self.dim} parameters" + (" and the fidelity" if len(self.costs) > 1 else "")
                raise SettingError("samples.A", f"queries of {given.A.shape[-1]} numbers", f"of {self.width}: {parts}")
            if given.X.shape[-1] != self.inputs.shape[-1]:
                raise SettingError("samples.X", f"inputs of width {given.X.shape[-1]}", f"of {self.inputs.shape[-1]}")
        elif isinstance(given, Window):
            if len(given.widths) != len(self.costs):
                raise SettingError("widths", list(given.widths), f"{len(self.costs)}, one a fidelity")
        elif not isinstance(given, Policy) and not hasattr(given, "embed"):
            raise SettingError("feedback", type(given).__name__, "Samples, a Window, a Policy or a conditional")

    @property
    def width(self) -> int:
        """Number of columns of a query of a conditional: its parameters, and the fidelity where there are several."""
        return self.dim + (len(self.costs) > 1)


def _width(setting: str, width: Any) -> float | tuple[float, ...]:
    check = partial(number, above=0)
    return several(setting, width, check, "positive") if isinstance(width, Sequence) else check(setting, width)


def _table(name: str, rows: Any) -> Tensor:
    """Rows of finite numbers, double, on the CPU."""
    table = torch.as_tensor(rows, dtype=torch.double).detach().cpu()
    if table.dim() != 2 or not table.numel():
        raise SettingError(name, f"a table of shape {tuple(table.shape)}", "rows of numbers, at least one")
    if not table.isfinite().all():
        raise SettingError(name, "NaN or infinity", "finite numbers")
    return table
