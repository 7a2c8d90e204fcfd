r"""Queries that are policies: a probability for each of ``K`` arms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from mfbo_torch.models.indirect.conditionals.base import check_queries, frozen
from mfbo_torch.models.indirect.conditionals.weighted import WeightedConditional
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import whole

SUM_TOLERANCE = 1e-5
"""Largest difference of the sum of the probabilities from one."""


class PolicyConditional(WeightedConditional):
    r"""A query is an agent who plays arm ``i`` with probability :math:`p_i(a)` [Zhang2024indirect]_ (Section 3.1).

    With the arms' rewards :math:`f \sim N(\mu, \Sigma)`, :math:`\nu(a) = \mu^\top p(a)` and
    :math:`q(a, a') = p(a)^\top \Sigma p(a')`, where :math:`\mu` and :math:`\Sigma` are mean and kernel at the arms.

    Args:
        policy: From ``... x m x p`` queries to ``... x m x K`` probabilities; or a fitted scikit-learn classifier with
            ``predict_proba``, whose classes are the arms' numbers from 0 on, or the arms in their order. A classifier
            has no gradient in the queries.
        arms: ``K x d`` inputs of the arms; or ``K``, for arms that are all alike before they are played (the rows of
            the identity).

    Raises:
        SettingError: A policy that is no function or classifier, or an impossible number of arms.
        BotorchTensorDimensionError: Another number of probabilities than arms.
        InputDataError: Probabilities that are negative or do not sum to one.
    """

    points: Tensor

    def __init__(self, policy: Callable[[Tensor], Tensor] | Any, arms: Tensor | int) -> None:
        super().__init__()
        if not isinstance(arms, Tensor):
            count = whole("arms", arms, wanted="K x d inputs, or a whole number from 1 on")
            arms = torch.eye(count, dtype=torch.double)
        elif arms.dim() != 2 or len(arms) == 0:
            raise SettingError("arms", f"a tensor of shape {tuple(arms.shape)}", "K x d, K from 1 on")
        self.register_buffer("points", arms)
        self.classes = _classes(policy, len(arms)) if hasattr(policy, "predict_proba") else None
        if self.classes is None and not callable(policy):
            raise SettingError("policy", type(policy).__name__, "a function, or a classifier with predict_proba")
        self.policy: Any = policy if self.classes is not None else frozen(policy)

    def rows(self, A: Tensor) -> Tensor:
        check_queries(A)
        p = self.policy(A) if self.classes is None else self._predicted(A)
        if p.shape != (*A.shape[:-1], len(self.points)):
            wanted = (*A.shape[:-1], len(self.points))
            raise BotorchTensorDimensionError(f"probabilities of shape {tuple(p.shape)}: must be {wanted}, one an arm")
        with torch.no_grad():
            if not (p >= 0).all():
                raise InputDataError(f"probability = {p.min().item():g}: must not be negative")
            worst = (p.sum(-1) - 1).abs().max().item() if p.numel() else 0.0
            if not worst <= SUM_TOLERANCE:
                raise InputDataError(f"sum of the probabilities: must be one, is {worst:g} off")
        return p.double()

    def _predicted(self, A: Tensor) -> Tensor:
        flat = A.detach().cpu().reshape(-1, A.shape[-1]).numpy()
        predicted = torch.from_numpy(np.asarray(self.policy.predict_proba(flat), dtype=np.float64))
        whole = predicted.new_zeros(len(flat), len(self.points))
        whole[:, self.classes] = predicted
        return whole.reshape(*A.shape[:-1], -1).to(A.device)


def _classes(classifier: Any, num_arms: int) -> list[int]:
    """Which arm each column of ``predict_proba`` is."""
    labels = np.asarray(classifier.classes_)
    if np.issubdtype(labels.dtype, np.integer) and labels.min() >= 0 and labels.max() < num_arms:
        return [int(label) for label in labels]
    if len(labels) != num_arms:
        raise SettingError("policy", f"a classifier of {len(labels)} classes", f"one of the {num_arms} arms 0..")
    return list(range(num_arms))
