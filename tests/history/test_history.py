"""The history: immutable, complete, and honest about what has no value."""

import dataclasses
import math

import pytest
import torch

from mfbo_torch.history import History, Query, Record, Status, points, values

MIXED = [(0, 1.0, 2.0), (1, 10.0, None), (1, 10.0, 5.0), (0, 1.5, 7.0), (1, 9.0, 5.0), (1, 10.0, math.nan)]
"""Fidelity, cost and value; ``None`` is pending, NaN a failure."""


def history() -> History:
    found = History()
    for fidelity, cost, value in MIXED:
        found = found.asked(Query((0.5 * len(found), 2.0), fidelity), cost)
        if value is not None:
            found = found.updated(found.records[-1].done(value))
    return found


def test_asking():
    query = Query((1.0, 2.0), 1, {"stage": "model"})
    empty = History()
    once = empty.asked(query, 10, decision_seconds=0.25)
    assert (len(empty), len(once)) == (0, 1)
    assert once.records == (Record(0, query, 10.0, None, Status.PENDING, decision_seconds=0.25),)
    assert once.asked(query, 1.0).records[1].id == 1
    assert isinstance(once.records[0].cost, float)


def test_answers():
    record = Record(0, Query((1.0,), 0), 2.0)
    done = record.done(3, evaluation_seconds=1.5)
    assert (done.value, done.status, done.evaluation_seconds) == (3.0, "done", 1.5)
    failed = record.failed("out of memory", evaluation_seconds=0.5)
    assert (failed.value, failed.status, failed.reason, failed.cost) == (None, "failed", "out of memory", 2.0)
    assert done.failed("found out later").value is None
    assert (record.value, record.status) == (None, Status.PENDING)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_are_failures(value):
    failed = Record(0, Query((1.0,), 0), 2.0).done(value, cost=5.0)
    assert (failed.status, failed.value, failed.cost) == (Status.FAILED, None, 5.0)
    assert str(abs(value)) in failed.reason  # without the sign, which may not be that of the objective


def test_histories_do_not_change():
    before = history()
    records = before.records
    after = before.updated(before.records[1].done(3.0))
    assert before.records is records
    assert [r.value for r in after] == [2.0, 3.0, 5.0, 7.0, 5.0, None]
    assert before == history()
    assert before != after
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.records = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.records[0].value = 1.0


def test_selecting():
    found = history()
    assert [r.id for r in found.done] == [0, 2, 3, 4]
    assert [r.id for r in found.pending] == [1]
    assert [r.id for r in found.select(Status.FAILED)] == [5]
    assert [r.id for r in found.select(Status.DONE, 1)] == [2, 4]
    assert [r.id for r in found.select("done", 0)] == [0, 3]
    assert [r.id for r in found] == list(range(len(found)))


def test_tensors():
    found = history()
    X, Y = points(found.done), values(found.done)
    assert X.dtype == Y.dtype == torch.double
    assert X.tolist() == [[0.0, 2.0, 0.0], [1.0, 2.0, 1.0], [1.5, 2.0, 0.0], [2.0, 2.0, 1.0]]
    assert Y.tolist() == [[2.0], [5.0], [7.0], [5.0]]
    assert points(found).shape == (6, 3)
