"""What a history keeps from record to record, against the same computed anew."""

import random

import pytest

from mfbo_torch.history import History, Query, Record, Status
from mfbo_torch.history.incremental import Fold
from mfbo_torch.history.tally import Tally


@pytest.mark.parametrize("seed", range(3))
def test_histories_that_grow_change_and_begin_again(seed):
    draw = random.Random(seed)

    def seen(state: list[tuple], record: Record) -> list[tuple]:
        return [*state, (record.id, record.status, record.cost, record.value)]

    def grown(state: list[tuple], record: Record) -> list[tuple]:
        state += seen([], record)
        return state

    fold, history = Fold(list, grown), History()
    former = [history]
    for _ in range(800):
        if draw.random() < 0.05:
            history = draw.choice(former[-20:])
        elif draw.random() < 0.5 or not history.pending:
            stage = draw.choice(["initial", "model", "given"])
            history = history.asked(Query((draw.random(),), draw.randrange(2), {"stage": stage}), 1.0)
        else:
            record = draw.choice(history.pending)
            ends = (record.done(draw.random()), record.failed("broke"), record.retried("lost", 2.0))
            history = history.updated(draw.choice(ends))
        former.append(history)
        if draw.random() < 0.8:
            assert fold(history) == [entry for record in history for entry in seen([], record)]
        if draw.random() < 0.3:
            assert history.tally == Tally.of(history.records)
            for status in Status:
                for m in (None, 0, 1):
                    found = [r for r in history if r.status == status and m in (None, r.query.fidelity)]
                    assert history.select(status, m) == found


def test_a_fold_after_a_record_that_it_cannot_take():
    def add(total: float, record: Record) -> float:
        return total + 1 / record.cost

    fold, history = Fold(float, add), History().asked(Query((0.5,), 0), 2.0)
    assert fold(history) == 0.5
    with pytest.raises(ZeroDivisionError):
        fold(history.asked(Query((0.5,), 0), 0.0).asked(Query((0.5,), 0), 4.0))
    assert fold(history.asked(Query((0.5,), 0), 4.0)) == 0.75
