"""The front of a search by several metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from botorch.utils.multi_objective.pareto import is_non_dominated

from mfbo_torch.metrics import front

METRIC = "mean_test_"


def front_of(results: Mapping[str, Any]) -> list[int]:
    """Rows of ``cv_results_``: candidates with all of the resource that no other one beats in every metric, the best of
    the first metric first; of equal ones the first. Candidates without a score are left out."""
    rows, Y = _scored(results)
    kept = is_non_dominated(Y, deduplicate=True).nonzero().flatten().tolist() if len(rows) else []
    return [int(rows[i]) for i in sorted(kept, key=lambda i: (-Y[i, 0].item(), i))]


def knee(results: Mapping[str, Any]) -> int:
    """The row of ``cv_results_`` that is nearest to the best of each metric, in units of the front's ranges, 0 where no
    candidate has scores: a ``refit`` of :class:`~mfbo_torch.sklearn.MultiFidelitySearchCV` for several metrics."""
    best, (rows, Y) = front_of(results), _scored(results)
    return best[front.knee(Y[np.searchsorted(rows, best)])] if best else 0


def _scored(results: Mapping[str, Any]) -> tuple[np.ndarray[Any, Any], torch.Tensor]:
    """Rows with all of the resource and a score by each metric, and these scores."""
    scores = np.array([found for name, found in results.items() if name.startswith(METRIC)], dtype=float).T
    resources = np.asarray(results["n_resources"])
    rows = np.flatnonzero((resources == resources.max()) & np.isfinite(scores).all(-1))
    return rows, torch.from_numpy(scores[rows])
