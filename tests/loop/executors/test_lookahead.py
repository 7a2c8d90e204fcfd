"""Queries decided ahead: when, that they are the decisions of a history, and what is left of them after a kill."""

import math
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from quiet_runs import quiet, timeless, until
from toy import Hill, Walk

from mfbo_torch import Callback
from mfbo_torch.history import Status
from mfbo_torch.history.storage.journal import Journal, plain
from mfbo_torch.loop.executors.lookahead import Lookahead, depth, due
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.strategies import RandomSearch


class SlowWalk(Walk):
    """Takes a while for each batch, however large; what it was asked for is in ``batches``."""

    seconds = 0.03

    def ask(self, history, n=1):
        self.__dict__.setdefault("batches", []).append(n)
        time.sleep(self.seconds)
        return super().ask(history, n)


@pytest.mark.parametrize(
    ("workers", "deciding", "evaluating", "kept"),
    [
        (64, 0.4, 60.0, 0),
        (64, 0.4, 10.0, 3),
        (64, 0.4, 1.0, 26),
        (64, 3.0, 1.0, 128),
        (4, 0.4, 10.0, 0),
        (2, 0.4, 1.0, 1),
        (1, 5.0, 0.1, 0),
        (0, 5.0, 0.1, 0),
        (8, 0.01, 0.0, 16),
    ],
)
def test_as_many_are_kept_as_workers_become_free_during_a_decision(workers, deciding, evaluating, kept):
    assert depth(workers, deciding, evaluating) == kept
    assert due(workers, kept, deciding, evaluating) == 0
    assert not kept or due(workers, kept - 1, deciding, evaluating) == min(2 * kept, 2 * workers)


def test_one_worker_decides_as_this_process_does():
    here = timeless(quiet(Hill(), SlowWalk(), 34.0))
    with ThreadPoolExecutor(1) as executor:
        assert timeless(quiet(Hill(), SlowWalk(), 34.0, executor=executor, max_pending=None)) == here


def watched(path, **settings):
    """A run of four workers that wait for decisions: its history, and by journal how many were pending at once."""
    with Journal(path) as journal, ThreadPoolExecutor(4) as executor:
        history = quiet(Hill(seconds=0.01), SlowWalk(), 120.0, executor=executor, journal=journal, **settings)
        most = max(len(state.history.pending) for state in journal._states())
        steps = list(journal.replay())
    assert {record.status for record in history} == {Status.DONE}
    again = Walk().bind(Hill().space, 120.0)
    assert [[*map(plain, again.ask(before))] for before, _ in steps] == [[query] for _, query in steps]
    assert [query for _, query in steps] == [record.query for record in history]
    return history, most


def test_each_is_the_decision_of_a_history_and_pending_only_once_a_worker_has_it(tmp_path):
    history, most = watched(tmp_path / "a.sqlite", max_pending=None)
    assert most <= 4
    assert max(record.query.meta["pending"] for record in history) > 4  # beside others that were kept


def test_a_rule_that_ends_the_run_ends_it_for_what_is_kept_too():
    """Once a value at the target is as good, nothing starts any more, wherever it was decided."""
    happened = []
    told = Callback(
        on_query=lambda event: happened.append("asked"),
        on_result=lambda event: happened.append("good" if event.at_target else "done"),
    )
    with ThreadPoolExecutor(4) as executor:
        how = {"executor": executor, "max_pending": None, "stop_at": -60.0, "callbacks": [told]}
        quiet(Hill(seconds=0.01), SlowWalk(every=30), 200.0, **how)
    assert "asked" not in happened[happened.index("good") :]


def test_nothing_is_kept_where_the_number_in_flight_is_given(tmp_path):
    history, most = watched(tmp_path / "a.sqlite", max_pending=3)
    assert most <= 3
    assert max(record.query.meta["pending"] for record in history) < 3
    assert len(Counter(record.decision_seconds for record in history)) == len(history)


def test_killed_before_any_write_nothing_is_lost_and_nothing_done_twice(tmp_path):
    class Killed(BaseException):
        pass

    class Counting(Hill):
        def evaluate(self, x, fidelity):
            evaluated.append((tuple(x), fidelity))
            return super().evaluate(x, fidelity)

    class Mortal(Journal):
        left = 0

        def _append(self, made):
            if not self.left:
                raise Killed
            self.left -= 1
            super()._append(made)

    def continued(journal):
        with ThreadPoolExecutor(4) as executor:
            problem, how = Counting(seconds=0.005), {"executor": executor, "max_pending": None}
            return quiet(problem, SlowWalk(every=5), 60.0, journal=journal, **how)

    for writes in range(0, 40, 6):
        evaluated: list = []
        path, Mortal.left = tmp_path / f"{writes}.sqlite", writes
        with Mortal(path) as journal, pytest.raises(Killed):
            continued(journal)
        with Journal(path) as journal:
            flying = len(journal.history().pending)
            assert flying <= 4
            history = continued(journal)
            assert timeless(history) == timeless(journal.history())
        assert [record.id for record in history] == list(range(len(history)))
        assert {record.status for record in history} == {Status.DONE}
        assert history.spent <= 60.0
        assert {(record.query.x, record.query.fidelity) for record in history} == set(evaluated)
        assert len(evaluated) - len(history) <= flying


def filled(seconds=10.0):
    """What is kept for eight workers that evaluate for ten seconds, once a decision has taken two."""
    optimizer = Optimizer(Walk().bind(Hill().space, 1000.0))
    ahead = Lookahead(optimizer)
    ahead.took(seconds)
    ahead._blind = False
    assert ahead.due(8, 8) == 0
    assert ahead.due(8, 7) == 1
    ahead._deciding.append(2.0)
    assert ahead.due(8, 8) == 4
    decided(ahead, 4)
    assert ahead.due(8, 8) == ahead.due(8, 7) == 0
    return optimizer, ahead


def decided(ahead, n, capital=math.inf):
    """How many queries a decision has added to those that are kept."""
    before = len(ahead._kept)
    ahead.begin(n, capital)
    collected(ahead)
    return len(ahead._kept) - before


def collected(ahead):
    def over():
        ahead.collect()
        return ahead.running is None

    until(over)


def test_what_is_kept_is_filled_up_and_counts_as_pending():
    optimizer, ahead = filled()
    (first,) = optimizer.accept(ahead.next())
    ahead.next(), ahead.next()
    assert ahead.due(8, 8) == 4
    decided(ahead, 4)
    given = [decision.queries[0].meta["pending"] for decision in iter(ahead.next, None)]
    assert first.query.meta["pending"] == 0
    assert given == [3, 2, 3, 4, 5]  # of the second decision: beside the first query and the one kept
    ahead.close()


def test_no_more_are_decided_than_the_capital_pays_for():
    _, ahead = filled()
    for capital, count in ((6.9, 2), (4.0, 1), (100.0, 5)):  # beside four that are kept
        assert decided(ahead, 5, capital) == count
        while len(ahead._kept) > 4:
            ahead._kept.pop()
    ahead.close()


def test_what_is_kept_is_dropped_once_decisions_are_quick_again():
    _, ahead = filled()
    for _ in range(64):
        ahead.took(600.0)
    assert ahead.due(8, 8) == 0
    assert ahead.next() is None
    ahead.close()


def test_what_the_capital_does_not_pay_for_is_dropped_with_all_after_it():
    optimizer, ahead = filled()
    assert optimizer.accept(ahead.next(), capital=0.5) == []
    ahead.begin(2)
    assert ahead.refused()  # decided on all that is known
    collected(ahead)
    assert ahead.next() is None
    decided(ahead, 2)
    optimizer.accept(ahead.next())
    assert optimizer.accept(ahead.next(), capital=0.5) == []
    assert not ahead.refused()  # it did not know that the first has been given to a worker
    ahead.close()


def test_a_query_is_given_out_while_the_next_is_being_decided():
    """A worker waits for one decision, not for all that are decided on the same history."""
    go, asked = threading.Event(), []

    class Halting(Walk):
        def decide(self, history):
            if len(asked) == 2:
                go.wait(10.0)
            asked.append(len(history))
            return super().decide(history)

    ahead = Lookahead(Optimizer(Halting().bind(Hill().space, 1000.0)))
    ahead.begin(4)
    until(lambda: ahead.collect() or len(ahead._kept) == 2)
    assert ahead.running is not None
    go.set()
    collected(ahead)
    assert asked == [0, 1, 2, 3]  # each with the ones before it pending
    ahead.close()


def test_the_slowest_of_the_last_decisions_counts():
    """A model that is fitted now and then needs a stock that outlasts the fit."""
    ahead = Lookahead(Optimizer(Walk().bind(Hill().space, 1000.0)))
    ahead.took(10.0)
    ahead._blind = False
    ahead._deciding.extend([2.0, 0.1, 0.1, 0.1])
    assert ahead.due(8, 8) == 4
    ahead._deciding.append(0.1)
    assert ahead.due(8, 8) == 0
    ahead.close()


def test_the_first_fit_is_expected():
    """Designs that no model has decided fill the second that it may take; then decisions are as quick as they were."""
    ahead = Lookahead(Optimizer(RandomSearch().bind(Hill().space, 1000.0)))
    assert ahead.due(8, 8) == 0  # no evaluation has ended
    ahead.took(2.0)
    assert ahead.due(8, 8) == 8
    assert decided(ahead, 8) == 8
    assert ahead.due(8, 8) == 0
    ahead.optimizer = Optimizer(Walk().bind(Hill().space, 1000.0))
    decided(ahead, 1)
    ahead.took(2.0)
    assert ahead.due(8, 8) == 0
    assert ahead.next() is None
    ahead.close()


def test_long_evaluations_wait_for_values():
    ahead = Lookahead(Optimizer(RandomSearch().bind(Hill().space, 1000.0)))
    ahead.took(60.0)
    assert ahead.due(8, 8) == 0
    ahead.close()
