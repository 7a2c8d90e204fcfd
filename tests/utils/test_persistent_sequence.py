"""Histories share their records and go on from each other's sums: a step costs the same however many came before."""

import math
import pickle
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from mfbo_torch import Optimizer
from mfbo_torch.history import History, Query, Status
from mfbo_torch.history.tally import parts
from mfbo_torch.loop.eta import forecast
from mfbo_torch.loop.progress import Progress
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.loop.stopping import Stopping
from mfbo_torch.problems import Currin
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.utils.persistent_sequence import CHUNK, PersistentSequence


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_a_shared_sequence_is_the_tuple_of_its_items(size):
    items = tuple(range(size))
    shared = PersistentSequence(items)
    assert (len(shared), tuple(shared), tuple(reversed(shared))) == (size, items, items[::-1])
    assert shared == items == shared
    assert shared == PersistentSequence(items)
    assert hash(shared) == hash(items)
    assert shared != (*items, size)
    assert repr(shared) == repr(items)
    assert pickle.loads(pickle.dumps(shared)) == shared
    for part in ((None,), (2, -1), (-3, None), (5, 2), (None, None, -2), (CHUNK - 2, None)):
        assert shared[slice(*part)] == items[slice(*part)]
    for place in (-size, -1, 0, size - 1) if size else ():
        assert shared[place] == items[place]
        assert shared.replaced(place, -5) == (*items[: place % size], -5, *items[place % size + 1 :])
    with pytest.raises(IndexError):
        shared[size]
    with pytest.raises(IndexError):
        shared.replaced(size, 0)
    more = (-1,)
    assert shared.appended(-1) == shared + more == items + more
    assert more + shared == more + items
    assert shared == items


def test_what_has_changed_is_found_where_it_was_changed():
    former = PersistentSequence(range(3 * CHUNK))
    assert former.changed(former) == []
    now = former.replaced(5, -1).replaced(2 * CHUNK + 1, -2).appended(-3)
    assert now.changed(former) == [5, 2 * CHUNK + 1, 3 * CHUNK]
    assert now.changed(PersistentSequence()) == [*range(3 * CHUNK + 1)]
    assert former.changed(now) == [5, 2 * CHUNK + 1]
    assert PersistentSequence(range(4)).changed(former) == []  # equal ones count as the same


def counted(history: History, fidelities: int) -> list[Any]:
    """All sums and counts of a history as they are, and as its records say."""
    records = [*history]
    done = [r for r in records if r.status == Status.DONE and r.feasible]
    best = [
        max((r for r in done if r.query.fidelity == m), key=lambda r: (r.value, -r.id), default=None)
        for m in range(fidelities)
    ]
    found = [history.spent, history.settled, history.pending, history.queries_per_fidelity(fidelities)]
    found += [[history.best(m) for m in range(fidelities)], history.tally.evaluated, history.tally.failed]
    wanted: list[Any] = [
        math.fsum(r.cost for r in records),
        math.fsum(r.cost for r in records if r.status != Status.PENDING),
        [r for r in records if r.status == Status.PENDING],
        [sum(r.query.fidelity == m for r in records) for m in range(fidelities)],
        *(best, sum(r.status == Status.DONE and not r.given for r in records)),
        sum(r.status == Status.FAILED for r in records),
    ]
    return [found, wanted]


@pytest.mark.parametrize("seed", range(5))
def test_sums_that_are_carried_on_are_those_of_the_records(seed):
    moves, history = random.Random(seed), History()
    for _ in range(400):
        change = moves.random()
        if change < 0.5 or not len(history):
            cost = moves.choice([0.1, 1e-9, 1e9, 3.3, moves.random(), math.inf if moves.random() < 0.02 else 7.0])
            meta = {"stage": "given"} if moves.random() < 0.2 else {}
            history = history.asked(Query((moves.random(),), moves.randrange(3), meta), cost)
        elif change < 0.95:
            record = moves.choice(history.pending or [*history])
            ways = [record.failed("it broke"), record.done(round(moves.random() - 0.5, 1), cost=moves.random())]
            history = history.updated(moves.choice([*ways, record.retried("it broke", record.cost + 0.1)]))
        else:  # as in no run
            record = moves.choice([*history])
            history = history.updated(replace(record, query=Query((0.5,), moves.randrange(3))))
        for same in (history, History(history.records)):
            found, wanted = counted(same, 3)
            assert found == wanted


def test_parts_have_the_exact_sum():
    draws = random.Random(0)
    for _ in range(100):
        numbers = [draws.uniform(-1, 1) * 10 ** draws.randrange(-20, 20) for _ in range(50)]
        some, others = parts(numbers[:25]), numbers[25:]
        assert math.fsum([*some, *others]) == math.fsum(numbers)
        assert len(some) <= 6
    assert parts([]) == parts([1.5, -1.5]) == ()
    assert parts([1.0, math.inf]) == (math.inf,)


def test_a_history_is_pickled_and_compared_with_what_it_counts_or_without():
    history = History().asked(Query((0.5,), 0), 1.0)
    assert history.spent == 1.0
    history = history.asked(Query((0.6,), 0), 2.0)
    again = pickle.loads(pickle.dumps(history))
    assert again == history == History(history.records)
    assert again.spent == 3.0


def grown(problem: Currin, size: int) -> History:
    """A history of ``size`` observations."""
    history = History()
    for i in range(size):
        history = history.asked(Query(((i + 0.5) / size, 0.5), i % 2), problem.space.costs[i % 2])
        history = history.updated(history.records[-1].done(1.0 / (i + 1)))
    return history


def steps_of(work: Callable[[], object]) -> int:
    """How many instructions of this package a call takes, those of loops and comprehensions among them."""
    count = 0

    def watch(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if "mfbo_torch" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return watch

    former = sys.gettrace()
    sys.settrace(watch)
    try:
        work()
    finally:
        sys.settrace(former)
    return count


@pytest.mark.parametrize("pending", [1, 4])
def test_a_step_costs_the_same_after_four_thousand_observations_as_after_two_hundred(pending, capsys):
    found, problem = {}, Currin()
    for size in (200, 4000):
        optimizer = Optimizer(RandomSearch(space=problem.space))
        optimizer._history = grown(problem, size)
        stopping = Stopping(RunOptions(max_pending=pending, stop_at=2.0, patience=1e9), problem, optimizer.strategy)
        coming = lambda history, strategy=optimizer.strategy: forecast(strategy, history, capital=1e9)  # noqa: E731

        def step(optimizer=optimizer, stopping=stopping) -> None:
            assert stopping.reason(optimizer.history) == ""
            for record in optimizer.ask(pending, capital=1e9):
                optimizer.tell(record.id, 0.5)
                bar.show(optimizer.history)

        with Progress(problem, 1e9, True, coming) as bar:
            step()  # what is counted and mapped once is made
            found[size] = steps_of(step)
    assert found[4000] < 1.3 * found[200]
