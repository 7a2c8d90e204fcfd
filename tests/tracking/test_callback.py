"""Callbacks are told of every query and result in the user's own sign, and break nothing."""

import numpy as np
import pytest
import torch

from mfbo_torch import Callback, Journal, Optimizer, Parameter, Space, UserProblem, maximize, minimize, run
from mfbo_torch.loop.early_failures import Hopeless
from mfbo_torch.loop.executors import start
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.utils.errors import SettingError

SPACE = Space([Parameter("x", 0, 1), Parameter("k", choices=["a", "bb"])], fidelities={"mesh": [1, 4]})


def bowl(x):
    return (x - 0.3) ** 2


def loss(parameters, mesh):
    return parameters["x"] + len(parameters["k"]) + 1 / mesh


class Kept(Callback):
    """Keeps what it is told."""

    def __init__(self):
        super().__init__()
        self.events, self.ends = [], []

    def on_query(self, event):
        self.events.append(("query", event))

    def on_result(self, event):
        self.events.append(("result", event))

    def on_end(self, end):
        self.ends.append(end)


def test_they_are_told_of_what_was_enqueued():
    kept = Kept()
    optimizer = Optimizer(RandomSearch(), problem=SPACE, callbacks=[kept])
    optimizer.enqueue({"x": 0.5, "k": "a"})
    assert [(kind, event.number) for kind, event in kept.events] == [("query", 0)]


@pytest.mark.parametrize(("optimize", "sign"), [(minimize, 1.0), (maximize, -1.0)])
def test_what_they_are_told(optimize, sign):
    kept = Kept()
    found = optimize(lambda p, mesh: sign * loss(p, mesh), SPACE, 30, strategy="MFGPUCB", callbacks=[kept])
    assert [(kind, e.number) for kind, e in kept.events] == [
        (k, r.id) for r in found.history for k in ("query", "result")
    ]
    results = [event for kind, event in kept.events if kind == "result"]
    for event in results:
        assert event.value == sign * loss(event.parameters, event.fidelity)
        assert event.at_target == (event.fidelity == 4)
        assert event.cost == event.fidelity
    assert results[-1].best == found.fun
    assert results[-1].spent == found.spent
    assert {(e.status, e.value) for kind, e in kept.events if kind == "query"} == {("pending", None)}
    (end,) = kept.ends
    assert (end.best, end.parameters, end.spent, end.queries) == (found.fun, found.parameters, found.spent, found.nfev)
    assert end.finished


def test_one_that_raises_is_logged_and_loses_nothing(tmp_path, caplog):
    def broken(event):
        raise RuntimeError("no network")

    kept = Kept()
    with Journal(tmp_path / "a.sqlite") as journal:
        settings = {
            "strategy": "RandomSearch",
            "journal": journal,
            "callbacks": [Callback(broken, broken, broken), kept],
        }
        found = minimize(lambda x: x, {"x": (0, 1)}, 4, **settings)
        assert journal.history() == found.history
    assert found.nfev == 4
    assert all(record.value is not None for record in found.history)
    assert len(kept.events) == 8
    for name in ("on_query", "on_result", "on_end"):
        assert f"{name} of Callback raised RuntimeError: no network" in caplog.text


class Silent(Exception):
    """One whose message cannot be made."""

    def __str__(self):
        raise RuntimeError("no text")


class Unreadable:
    """Has a hook that cannot even be looked at."""

    def on_query(self, event):
        event.parameters.clear()  # its own

    @property
    def on_result(self):
        raise RuntimeError("no hook")


def test_whatever_one_does_the_run_goes_on(caplog):
    """An error without a message, an endless recursion, a hook that raises when it is looked at, and settings of torch
    and NumPy: decisions and values are those of a run without."""

    def silent(event):
        raise Silent

    def deep(event):
        deep(event)

    def unsettle(event):
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float16)
        np.seterr(all="raise")

    callbacks = [Callback(each, each, each) for each in (silent, deep, unsettle)] + [Unreadable()]
    settings = {"strategy": "ExpectedImprovement", "progress": False}
    alone = minimize(bowl, {"x": (0, 1)}, 5, **settings)
    found = minimize(bowl, {"x": (0, 1)}, 5, callbacks=callbacks, **settings)
    assert [(r.query, r.value) for r in found.history] == [(r.query, r.value) for r in alone.history]
    assert (torch.get_default_dtype(), torch.empty(0).device.type) == (torch.float32, "cpu")
    for said in (
        "raised Silent: what it says cannot be read",
        "raised RecursionError",
        "on_result of Unreadable raised",
    ):
        assert said in caplog.text


def test_failures_the_end_of_a_run_that_breaks_and_workers():
    kept = Kept()
    with pytest.raises(Hopeless):
        minimize(lambda x: 1 / 0, {"x": (0, 1)}, 5, callbacks=[kept])
    assert kept.ends[0].finished is False
    assert "ZeroDivisionError" in kept.ends[0].stopped
    kept = Kept()
    minimize(lambda x: x if x > 0.5 else float("nan"), {"x": (0, 1)}, 8, strategy="RandomSearch", callbacks=[kept])
    failed = [event for _, event in kept.events if event.status == "failed"]
    assert failed
    assert all(event.value is None and "not finite" in event.reason for event in failed)


def test_run_with_workers_and_your_own_loop():
    problem = UserProblem(
        loss, {"x": {"lower": 0, "upper": 1}, "k": {"choices": ["a", "bb"]}}, fidelities={"mesh": [1, 4]}
    )
    kept = Kept()
    with start("processes", 2) as workers:
        history = run(problem, RandomSearch(), 12, executor=workers, max_pending=2, progress=False, callbacks=[kept])
    assert sorted(e.number for kind, e in kept.events if kind == "result") == [record.id for record in history]
    numbers = []
    optimizer = Optimizer(
        RandomSearch(), problem=problem, callbacks=[Callback(on_result=lambda e: numbers.append(e.value))]
    )
    for value in (1.0, 2.0):
        optimizer.tell(optimizer.ask()[0].id, value)
    assert numbers == [1.0, 2.0]


@pytest.mark.parametrize("callbacks", [print, [print], 3, ["on_result"]])
def test_what_is_none_is_refused_before_anything_is_evaluated(callbacks):
    with pytest.raises(SettingError, match=r"^callbacks = "):
        minimize(lambda x: pytest.fail("evaluated"), {"x": (0, 1)}, 3, callbacks=callbacks)
    with pytest.raises(SettingError, match=r"^on_result = 3"):
        Callback(on_result=3)
