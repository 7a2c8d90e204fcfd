"""The same names for the same things at every door."""

import inspect

import pytest

from mfbo_torch import Optimizer, Parameter, Space, UserProblem, maximize, minimize, run, strategies
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.init_signature import settings_of

WORDS = ("strategy", "seed", "executor", "max_pending", "journal", "progress", "retries")
ENDS = ("time_limit", "stop_at", "patience", "stop_gain")
BOX = {"x": (0.0, 1.0)}


def bowl(x):
    return (x - 0.3) ** 2


def test_signatures_show_the_settings():
    for door in (minimize, maximize, run):
        names = inspect.signature(door).parameters
        assert {*WORDS, *ENDS} <= {*names}, door.__name__
        assert all(p.kind is not p.VAR_KEYWORD for p in names.values())
    assert {*ENDS, "retries", "max_pending", "executor"} <= {*inspect.signature(RunOptions).parameters}
    assert inspect.signature(minimize) == inspect.signature(maximize)


@pytest.mark.parametrize("name", strategies.__all__)
def test_signatures_of_strategies_show_the_settings(name):
    kind = getattr(strategies, name)
    shown = inspect.signature(kind).parameters
    assert all(p.kind is not p.VAR_KEYWORD for p in shown.values())
    assert {*shown} == {*settings_of(kind)} >= {"seed", "space", "capital"}


def test_the_signature_of_a_strategy_of_ones_own_is_as_it_was_written():
    class Own(RandomSearch):
        def __init__(self, step, width=1.0):
            super().__init__()

    class More(Own):
        def __init__(self, *, depth=2, **settings):
            super().__init__(**settings)

    assert str(inspect.signature(Own)) == "(step, width=1.0)"
    assert {*inspect.signature(More).parameters} == {"depth", "step", "width"}


def test_a_strategy_by_its_name_is_the_one_with_that_seed():
    named = minimize(bowl, BOX, 5, strategy="RandomSearch", seed=3)
    made = minimize(bowl, BOX, 5, strategy=RandomSearch(seed=3))
    assert [r.query for r in named.history] == [r.query for r in made.history]
    problem = UserProblem(bowl, {"x": {"lower": 0.0, "upper": 1.0}}, [1], maximize=False)
    history = run(problem, "RandomSearch", 5, seed=3, progress=False)
    assert [r.query for r in history] == [r.query for r in made.history]
    for place in (problem, problem.space):
        (record,) = Optimizer("RandomSearch", problem=place, seed=3).ask()
        assert record.query == made.history.records[0].query


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "RandomSerch"}, r"strategy = 'RandomSerch': .*did you mean RandomSearch"),
        ({"strategy": "Strategy"}, "strategy = 'Strategy'"),
        ({"strategy": 3}, "strategy = 3"),
        ({"strategy": RandomSearch(seed=1), "seed": 2}, "seed = 2: must be left out, the strategy has its own, 1"),
        ({"patience": 0}, "patience = 0"),
        ({"time_limit": -1}, "time_limit = -1"),
        ({"retries": -1}, "retries = -1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_evaluated(settings, message):
    with pytest.raises(SettingError, match=f"^{message}"):
        minimize(lambda x: pytest.fail("evaluated"), BOX, 5, **settings)


def test_runs_end_early_in_the_users_own_sign():
    found = minimize(bowl, BOX, 50, strategy="RandomSearch", stop_at=0.05)
    assert found.fun <= 0.05
    assert found.spent < 50
    assert "at least as good as 0.05" in found.message
    raised = maximize(lambda x: -bowl(x), BOX, 50, strategy="RandomSearch", stop_at=-0.05)
    assert (raised.x, raised.fun) == (found.x, -found.fun)
    assert minimize(lambda x: 1.0, BOX, 50, strategy="RandomSearch", patience=5).spent < 12


def test_retries():
    calls = []

    def shaky(x):
        calls.append(x)
        if len(calls) == 2:
            raise RuntimeError("once")
        return bowl(x)

    found = minimize(shaky, BOX, 5, strategy="RandomSearch", retries=1)
    assert [record.retries for record in found.history] == [0, 1, 0, 0]
    assert all(record.value is not None for record in found.history)


def test_short_forms_of_parameters():
    found = Space({"k": ["a", "bb"], "n": [1, 2, 4], "x": (0, 1), "r": {"lower": 1e-3, "upper": 1.0, "log": True}}, [1])
    assert found.parameters == (
        Parameter("k", choices=["a", "bb"]),
        Parameter("n", choices=[1, 2, 4], ordered=True),
        Parameter("x", 0, 1),
        Parameter("r", 1e-3, 1.0, log=True),
    )
    assert minimize(lambda k: len(k), {"k": ["a", "bb"]}, 4, strategy="RandomSearch").parameters == {"k": "a"}


@pytest.mark.parametrize("form", [[0, 1], ("a", "b"), "ab", (0, 1, True), 3, {"lower": 0}, {"choice": ["a", "b"]}])
def test_a_form_that_may_mean_two_things_or_none_is_refused(form):
    with pytest.raises(SettingError, match=r"^x = "):
        Space({"x": form}, [1])
