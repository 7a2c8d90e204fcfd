"""The scalarisation of ParEGO against its formula."""

import pytest
import torch

from mfbo_torch.history import History, Query
from mfbo_torch.strategies.multi_objective.views import chebyshev


def history_of(values):
    history = History()
    for value in values:
        history = history.asked(Query((0.5,), 0), 1.0)
        record = history.records[-1]
        history = history.updated(record.failed("no") if value is None else record.done(value))
    return history


def test_scalarised_values_are_those_of_the_formula():
    rows = [(0.3, -2.0, 5.0), (None,) * 3, (0.9, -1.0, 1.0)]
    weights, worst, best = ([0.2, 0.5, 0.3], [0.0, -4.0, 1.0], [1.0, -1.0, 5.0])
    views = [history_of(column) for column in zip(*rows, strict=True)]
    found = chebyshev(views, *(torch.tensor(part, dtype=torch.double) for part in (weights, worst, best)))
    assert found.records[1].status == "failed"
    for row, record in zip(rows, found, strict=True):
        if row[0] is not None:
            lost = [w * (i - y) / (i - r) for w, y, r, i in zip(weights, row, worst, best, strict=True)]
            assert record.value == pytest.approx(-(max(lost) + 0.05 * sum(lost)))  # Eq. 2, of losses
