import copy
import gc
import math
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refused
from toy import Hill, Patient, Plain, Walk

from mfbo_torch import Callback, minimize
from mfbo_torch.history import History, Query, Record, Status
from mfbo_torch.history.check import check_history
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import RandomSearch


def optimizer(**settings):
    return Optimizer(Walk(**settings), problem=Hill())


def test_ask_gives_pending_records_with_their_costs():
    opt = optimizer(every=2)
    first, second, third = [*opt.ask(2), *opt.ask()]
    assert [r.id for r in (first, second, third)] == [0, 1, 2]
    assert [r.cost for r in opt.history] == [1.0, 10.0, 1.0]
    assert opt.history.pending == [first, second, third]
    assert all(r.decision_seconds > 0 for r in opt.history)
    assert [r.query.meta["pending"] for r in opt.history] == [0, 1, 2]


def test_asking_in_a_batch_or_one_by_one_is_the_same():
    one, many = optimizer(), optimizer()
    for _ in range(4):
        one.ask()
    assert [r.query for r in many.ask(4)] == [r.query for r in one.history]


def test_a_strategy_that_leaves_the_space_is_named():
    class Beyond(Walk):
        def decide(self, history):
            return Query((1.0000000000000002,), 0)

    refused("^strategy = 'Beyond': must be one", Optimizer(Beyond(), problem=Space({"x": (0.0, 1.0)}, [1.0])).ask)


def test_a_strategy_with_another_space_is_refused():
    own, other = (Space({"x": (0.0, upper)}, [1.0]) for upper in (1.0, 2.0))
    settings = {"capital": 1, "progress": False}
    refused("without a space of its own", minimize, sum, other, strategy=RandomSearch(space=own), **settings)
    assert minimize(lambda given: given["x"], own, strategy=RandomSearch(space=own), **settings).nfev == 1


def test_what_attempts_have_cost_counts():
    optimizer = Optimizer("RandomSearch", problem=Space({"x": (0.0, 1.0)}, epochs=9))
    (record,) = optimizer.ask()
    optimizer.retry(record.id, "lost", cost=18.0)
    refused("^cost = 3.0: must be .* 9", optimizer.tell, record.id, 1.0, cost=3.0)
    assert optimizer.tell(record.id, None, curve={1: 0.5}).cost == 10.0


def test_no_number_is_a_failure_with_limits_too():
    optimizer = Optimizer("RandomSearch", problem=Space({"x": (0.0, 1.0)}, [1.0], limits={"latency": "<= 2"}))
    assert optimizer.tell(optimizer.ask()[0].id, math.nan).status == Status.FAILED


def test_a_strategy_that_returns_no_query_is_named():
    class Idle(Walk):
        def ask(self, history, n=1):
            return []

    refused("^strategy = 'Idle': must be one whose ask gives 2 queries", Optimizer(Idle(), problem=Hill()).ask, 2)


def test_ask_stops_at_the_first_query_that_does_not_fit():
    opt = optimizer(every=2)
    assert len(opt.ask(4, capital=11.5)) == 2
    assert opt.ask(capital=11.9) == []
    assert len(opt.history) == 2
    assert len(opt.ask(capital=12.0)) == 1


def patient():
    return Optimizer(Patient(every=99), problem=Hill())


def test_the_last_of_a_capital_waits_for_values():
    opt = patient()
    assert len(opt.ask(8, capital=12)) == 4, "four in flight, twice as many left"
    assert opt.ask(capital=12) == []
    assert len(optimizer(every=99).ask(8, capital=12)) == 8
    opt.tell(0, 1.0)
    assert opt.ask(8, capital=12) == [], "another would leave seven beside four in flight"
    opt.tell(1, 1.0)
    assert len(opt.ask(8, capital=12)) == 1
    for record in opt.history.pending:
        opt.tell(record.id, 1.0)
    assert len(opt.ask(8, capital=12)) == 2
    assert len(patient().ask(8)) == 8, "no capital, nothing to wait for"


@pytest.mark.parametrize(("capital", "workers"), [(7, 3), (10, 4), (23, 16)])
def test_who_waits_spends_the_whole_capital(capital, workers):
    opt = patient()
    while opt.ask(workers, capital=capital) or opt.history.pending:
        opt.tell(opt.history.pending[0].id, 1.0)
    assert opt.history.spent == capital


def test_tell_and_fail_end_a_query():
    opt = optimizer()
    opt.ask(3)
    done = opt.tell(1, 2.5, evaluation_seconds=0.5, cost=7.0)
    failed = opt.fail(0, "it broke")
    assert (done.value, done.cost, done.evaluation_seconds, done.status) == (2.5, 7.0, 0.5, Status.DONE)
    assert (failed.value, failed.cost, failed.reason, failed.status) == (None, 1.0, "it broke", Status.FAILED)
    assert opt.history.records[:2] == (failed, done)
    assert [r.id for r in opt.history.pending] == [2]


@pytest.mark.parametrize("reason", [None, "", " \n", b"no", 3])
def test_a_failure_without_a_reason_is_refused_and_stays_pending(reason):
    opt = optimizer()
    opt.ask()
    for end in (opt.fail, opt.retry):
        refused(r"^reason = .*: must be a text that says why, such as 'out of memory'", end, 0, reason)
    assert len(opt.history.pending) == 1


def test_an_exception_is_a_reason():
    opt = optimizer()
    opt.ask()
    assert opt.retry(0, ValueError()).reason == "ValueError"
    assert opt.fail(0, MemoryError("at step 3")).reason == "MemoryError: at step 3"


@pytest.mark.parametrize("through", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_optimizer_and_a_journal_are_not_pickled_or_copied(through, tmp_path, monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    refused(r"made anew from a journal, as in Optimizer\(strategy, Journal\('history.sqlite'\)\)", through, optimizer())
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        opt = Optimizer(Walk(), journal, problem=Hill())
        record = opt.ask()[0]
        refused(rf"made anew from its journal, as in Optimizer\(strategy, Journal\('{path}'\)\)", through, opt)
        refused(rf"^journal = '{path}': must be opened by its path", through, journal)
        gc.collect()
        opt.tell(record.id, 1.0)
    with Journal(path) as journal:
        assert len(journal.history().done) == 1
    assert not ignored


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, (math.nan, 0.5)])
def test_a_value_that_is_not_finite_is_a_failure(value):
    opt = optimizer()
    opt.ask()
    record = opt.tell(0, value)
    assert (record.status, record.value, record.standard_error, record.cost) == (Status.FAILED, None, None, 1.0)
    assert record.reason == f"the value is not finite: {abs(value[0] if isinstance(value, tuple) else value)}"


@pytest.mark.parametrize("value", [3, np.float32(3), np.array(3.0), torch.tensor([3.0])])
def test_numbers_of_other_libraries(value):
    opt = optimizer()
    opt.ask()
    assert opt.tell(0, value).value == 3.0


@pytest.mark.parametrize("error", [0, 0.5, np.float32(0.5), torch.tensor([0.5]), -0.0, None])
def test_a_value_with_its_standard_error(tmp_path, error):
    known = None if error is None else float(error)
    with Journal(tmp_path / "a.sqlite") as journal:
        opt = Optimizer(Walk(), journal, problem=Hill())
        opt.ask()
        record = opt.tell(0, (np.float32(3), error), cost=2.0)
        assert (record.value, record.standard_error, record.cost) == (3.0, known, 2.0)
        assert journal.history() == opt.history
    assert str(record.standard_error) != "-0.0"


NO_VALUES = (None, "3", [3.0], 1j, np.complex64(1), torch.zeros(2), (3.0,), (3.0, 0.1, 0.1), [3.0, 0.1], (1j, 0.1))
NO_ERRORS = (-0.1, math.nan, math.inf, 1j, "0.1", True, (0.1,), torch.zeros(2))
REFUSED = [
    *(((1.0, error), {}, r"^standard_error = .*must be a number from 0 on$") for error in NO_ERRORS),
    *((value, {}, r"^value = .*must be a number, or a pair \(value, standard error\)") for value in NO_VALUES),
    *((1.0, {name: given}, f"^{name} = ") for name in ("cost", "evaluation_seconds") for given in NO_ERRORS[:3]),
]


@pytest.mark.parametrize(("value", "settings", "said"), REFUSED)
def test_what_cannot_be_told_is_refused_and_the_query_stays_pending(value, settings, said):
    opt = optimizer()
    opt.ask()
    refused(said, opt.tell, 0, value, **settings)
    assert len(opt.history.pending) == 1


@pytest.mark.parametrize("end", [lambda opt, id: opt.tell(id, 1.0), lambda opt, id: opt.fail(id, "no")])
def test_only_pending_queries_end(end):
    opt = optimizer()
    refused(r"id = 0: must be the number of a query \(none so far\)", end, opt, 0)
    opt.ask(2)
    end(opt, 0)
    refused(r"id = 0: must be a pending query; this one is (done|failed)", end, opt, 0)
    for unknown in (2, -1, "1"):
        refused(r"id = .*\(0 to 1\)", end, opt, unknown)


def test_a_space_is_needed():
    refused(r"space = None: must be given, as in Walk\(space=problem.space\)", Optimizer, Walk())
    assert Optimizer(Walk(space=Hill().space)).ask()[0].query.fidelity == 0
    refused(r"n = 0", optimizer().ask, 0)


def test_recommend_is_the_strategys():
    opt = optimizer(every=1)
    assert opt.recommend() is None
    for value in (1.0, 4.0, 2.0):
        opt.tell(opt.ask()[0].id, value)
    assert opt.recommend() == opt.history.records[1]


def test_a_journal_is_continued(tmp_path):
    whole = optimizer()
    for _ in range(6):
        whole.tell(whole.ask()[0].id, 0.1)
    for stop in range(6):
        path = tmp_path / f"{stop}.sqlite"
        with Journal(path) as journal:
            part = Optimizer(Walk(), journal, problem=Hill())
            for _ in range(stop):
                part.tell(part.ask()[0].id, 0.1)
            part.ask()
        with Journal(path) as journal:
            part = Optimizer(Walk(), journal, problem=Hill())
            for record in part.history.pending:
                part.tell(record.id, 0.1)
            for _ in range(5 - stop):
                part.tell(part.ask()[0].id, 0.1)
            assert [r.query for r in part.history] == [r.query for r in whole.history]
            assert part.history == journal.history()


def test_what_is_asked_is_the_same_with_and_without_a_journal(tmp_path):
    """JSON turns tuples into lists; a strategy must see the same metadata either way."""
    with Journal(tmp_path / "a.sqlite") as journal:
        kept = Optimizer(Walk(), journal, problem=Hill())
        kept.ask()
        assert journal.history() == kept.history
    (record,) = optimizer().ask()
    assert record.query == kept.history.records[0].query
    assert record.query.meta["pair"] == [1, 2.5]


def test_a_query_is_in_the_journal_before_it_is_given_out(tmp_path):
    class Full(Journal):
        def asked(self, records, seen=None):
            raise OSError("disk full")

    with Full(tmp_path / "a.sqlite") as journal:
        opt = Optimizer(Plain(), journal, problem=Hill())
        with pytest.raises(OSError, match="disk full"):
            opt.ask()
        assert len(opt.history) == 0


def test_metadata_that_json_cannot_hold_is_refused():
    class Careless(Plain):
        def decide(self, history):
            return Query((0.5,), 0, {"beta": math.nan})

    refused(r"^meta = ", Optimizer(Careless(space=Space.box([[0.0], [1.0]], (1.0,)))).ask)


WIDTH = Parameter("width", 1, 500, integer=True)


@pytest.mark.parametrize(
    ("query", "parameters", "said"),
    [
        (Query((1.0, 2.0), 0), Hill().space.parameters, "'.*: must be a history of this problem: 1 parameters"),
        (Query((1.0,), 2), Hill().space.parameters, "'.*: must be a history of this problem: 1 parameters"),
        (Query((0.5, 300.0), 0), [WIDTH, Parameter("rate", 0.0, 1.0)], r"'query 0 at \[0.5, 300.0\]': must be a hist"),
        (Query((0.5, 300.0), 0), [Parameter("rate", 0.0, 0.4), WIDTH], r"'query 0 at \[0.5, 300.0\]': must be a hist"),
    ],
)
def test_a_journal_of_another_problem_is_refused(tmp_path, query, parameters, said):
    with Journal(tmp_path / "a.sqlite") as journal:
        journal.asked([Record(0, query, 1.0)])
        refused(f"^journal = {said}", Optimizer, Walk(space=Space(parameters, (1.0, 10.0))), journal)


def test_a_journal_is_not_a_path():
    refused(r"^journal = 'a.sqlite': must be a Journal, as in Journal", Optimizer, Walk(), "a.sqlite", problem=Hill())
    refused("a space is given by its name, problem=space", Optimizer, Walk(), Hill().space)


def test_numbers_of_numpy():
    space = Space([Parameter("a", np.float32(0.5), np.int64(3))], np.array([1, 10]), candidates=np.array([[1.5], [2]]))
    assert space == Space([Parameter("a", 0.5, 3)], (1, 10), candidates=((1.5,), (2.0,)))
    assert {type(number) for number in (*space.costs, space.parameters[0].upper)} == {int}
    opt = optimizer()
    opt.ask(np.int64(2))
    assert opt.tell(np.int64(1), 2.5).value == 2.5
    refused(r"^n = '2': must be a whole number from 1 on$", opt.ask, "2")


@pytest.mark.parametrize("how", ["tell", "fail", "retry"])
def test_values_told_from_many_threads_are_all_kept(how):
    optimizer = Optimizer(Walk(), problem=Hill())
    optimizer.ask(400)
    end = {"tell": lambda i: optimizer.tell(i, float(i)), "fail": lambda i: optimizer.fail(i, "no")}
    end["retry"] = lambda i: optimizer.retry(i, "again")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            records = list(threads.map(end[how], range(400)))
    finally:
        sys.setswitchinterval(interval)
    assert optimizer.history.records == tuple(records)


def test_threads_that_ask_are_given_what_one_is():
    alone, together = (Optimizer("GPUCB", problem=Hill(), seed=0) for _ in range(2))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            asked = [record for some in threads.map(lambda _: together.ask(), range(12)) for record in some]
    finally:
        sys.setswitchinterval(interval)
    assert sorted(record.id for record in asked) == list(range(12))
    assert [r.query for r in together.history.records] == [r.query for r in alone.ask(12)]


def test_threads_ask_while_a_callback_does():
    class Asking(Callback):
        def on_result(self, event):
            optimizer.ask()

    optimizer = Optimizer(Walk(), problem=Hill(), callbacks=[Asking()])
    optimizer.ask(40)
    with ThreadPoolExecutor(8) as threads:
        told = [threads.submit(optimizer.tell, i, float(i)) for i in range(40)]
        asked = [threads.submit(optimizer.ask) for _ in range(40)]
        for each in (*told, *asked):
            each.result(timeout=60)
    assert len(optimizer.history) == 120


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": 1}, "numbered from 0; this one comes at 0"),
        ({"status": Status.PENDING}, "must be done"),
        ({"value": float("nan")}, "a finite value in record 0"),
        ({"value": "much"}, "a finite value in record 0"),
        ({"cost": -1.0}, "a finite cost from 0 on in record 0"),
        ({"evaluation_seconds": float("inf")}, "a finite evaluation_seconds from 0 on in record 0"),
        ({"query": Query((1.0, 2.0), 0)}, "1 parameters, fidelities 0 to 1"),
        ({"query": Query((1.0,), 7)}, "1 parameters, fidelities 0 to 1"),
        ({"query": Query((11.0,), 0)}, "x between 0 and 10"),
    ],
)
def test_what_cannot_be_given_is_refused_before_anything_is_written(tmp_path, changes, said):
    good = Record(0, Query((1.0,), 1), 0.0, 2.0, Status.DONE)
    with Journal(tmp_path / "a.sqlite") as journal:
        optimizer = Optimizer(Walk(), journal, problem=Hill())
        refused(f"^warm_start = .*{said}", optimizer.give, [replace(good, **changes)])
        assert len(journal.history()) == 0
        optimizer.give([good])
        assert journal.history().records == (good,)


def test_a_history_without_the_outcomes_of_its_problem():
    space = Space((Parameter("x", 0.0, 1.0),), (1.0,), limits={"latency": "<= 20"})
    history = History().asked(Query((0.5,), 0), 1.0)
    check_history(history, space)
    history = history.updated(history.records[0].done(1.0))
    refused("query 0 without latency.*in which latency was measured", check_history, history, space)


def test_a_history_that_breaks_a_constraint_or_knows_another_design():
    history = History().asked(Query((0.2,), 0), 1.0).asked(Query((0.5,), 0), 1.0)
    kept = Space({"x": (0, 1)}, costs=[1], constraints=["x <= 0.5"])
    check_history(history, kept)
    check_history(history, Space.finite([[0.2], [0.5], [0.8]], [1]))
    narrow = replace(kept, constraints=["x <= 0.4"])
    refused(r"query 1 at \[0.5\].*within its constraints", check_history, history, narrow)
    refused(r"query 0 at \[0.2\].*one of its candidates", check_history, history, Space.finite([[0.1], [0.5]], [1]))
