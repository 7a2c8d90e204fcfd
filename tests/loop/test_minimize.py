"""One call, its result, and how results look in a notebook."""

import math
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest
import user_program

from mfbo_torch import History, Parameter, Space, UserProblem, maximize, minimize
from mfbo_torch.history import Query
from mfbo_torch.loop import plots
from mfbo_torch.loop.early_failures import Hopeless
from mfbo_torch.loop.runner import run
from mfbo_torch.space.objectives import objectives_of
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.utils.errors import SettingError

SPACE = Space([Parameter("x", 0.5, 8.0, log=True), Parameter("n", 1, 3, integer=True)], costs=[1, 5])


def bowl(parameters, fidelity):
    return (parameters["x"] - 2) ** 2 + parameters["n"] + 0.1 * (1 - fidelity)


def test_it_is_a_run_with_the_names_of_scipy():
    found = minimize(bowl, SPACE, 22, strategy=RandomSearch(seed=3))
    parameters = {
        p.name: {"lower": p.lower, "upper": p.upper, "log": p.log, "integer": p.integer} for p in SPACE.parameters
    }
    same = run(UserProblem(bowl, parameters, [1, 5], maximize=False), RandomSearch(seed=3), 22.0, progress=False)
    assert [(r.query, r.value) for r in found.history] == [(r.query, r.value) for r in same]
    assert found.fun == -same.best(1).value == bowl(found.parameters, 1)
    assert found.x == same.best(1).query.x
    assert (found.success, found.nfev, found.spent) == (True, len(same), same.spent)
    assert f"fun: {found.fun}" in repr(found)
    mirrored = maximize(lambda p, m: -bowl(p, m), SPACE, 22, strategy=RandomSearch(seed=3))
    assert mirrored.fun == -found.fun
    assert mirrored.x == found.x


def test_a_plain_function_of_plain_bounds():
    found = minimize(lambda p: abs(p["x"] - 0.3), {"x": (0.0, 1.0)}, 6, seed=1)
    assert found.nfev == 6
    assert found.problem.space.costs == (1.0,)
    assert found.fun == abs(found.parameters["x"] - 0.3) < 0.3
    assert minimize(lambda x: abs(x - 0.3), [Parameter("x", 0.0, 1.0)], 6, seed=1).x == found.x


def test_what_cannot_work_is_refused_before_anything_is_evaluated():
    def never(*_):
        raise AssertionError("evaluated")

    for space, capital in (({"x": (1.0, 0.0)}, 5), (SPACE, 0.5), ({}, 5)):
        with pytest.raises(SettingError):
            minimize(never, space, capital)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, {"x": (0, 1)}, 4), "function = 3: must be a function of the parameters"),
        ((bowl, (0, 1), 4), r"parameters = 0: must be a list of Parameter, or a mapping, as in {\"rate\""),
        ((bowl, [("x", 0, 1)], 4), r"parameters = \('x', 0, 1\): must be a list of Parameter"),
        ((bowl, Parameter("x", 0, 1), 4), "parameters = Parameter.*: must be a list of Parameter"),
        ((bowl, 3, 4), "parameters = 3: must be a list of Parameter"),
    ],
)
def test_a_wrong_argument_is_called_by_its_name(arguments, message):
    with pytest.raises(SettingError, match=message):
        minimize(*arguments)


@pytest.mark.parametrize("executor", ["processes", 2, ProcessPoolExecutor])
def test_an_executor_that_is_none_is_named_and_not_the_function(executor):
    with pytest.raises(SettingError, match=r"^executor = .*ProcessPoolExecutor\(4\) is"):
        minimize(bowl, SPACE, 12, executor=executor)


@pytest.mark.parametrize("problem", ["Currin", UserProblem])
def test_a_problem_that_is_none_is_refused(problem):
    with pytest.raises(SettingError, match=r"^problem = .*: must be a problem, as mfbo_torch\.problems\.Currin"):
        run(problem, "RandomSearch", 3)


def test_a_limit_that_no_design_keeps_is_said():
    space = Space([Parameter("x", 0.0, 1.0)], costs=[1.0], limits={"latency": "<= -1"})
    result = minimize(lambda x: {"value": x, "latency": x}, space, 4, strategy=RandomSearch())
    assert result.message == "The capital is spent. No design at the target keeps the limits."
    assert not result.success


def test_what_is_left_of_a_capital_is_said():
    result = minimize(lambda x, fidelity: x, Space({"x": (0.0, 1.0)}, costs=[1, 10]), 25, strategy=RandomSearch())
    assert result.message == "What is left of the capital, 5, does not pay for the next query."
    assert result.success


def test_maximize_leaves_the_directions_of_a_space_alone():
    space = Space(
        [Parameter("x", 0.0, 1.0)], costs=[1.0], objectives=objectives_of({"loss": "minimize", "speed": "maximize"})
    )
    with pytest.raises(
        SettingError, match=r"^objectives = \['loss'\]: must be maximised too; where directions differ call minimize"
    ):
        maximize(bowl, space, 4)


def test_evaluations_that_are_no_trainings_have_no_curves():
    assert minimize(bowl, SPACE, 12, strategy=RandomSearch()).curves == []


def test_two_objectives_as_a_tuple_are_not_taken_for_a_value_and_its_error():
    """The message says both ways; with names the standard error is one."""
    with pytest.raises(Hopeless, match=r"'tuple of 2': must be a number, or {\"value\": ..., \"standard_error\": ...}"):
        minimize(lambda x: (abs(x - 0.3), 1.0 - x), {"x": (0.0, 1.0)}, 5)
    named = minimize(lambda x: {"value": abs(x - 0.3), "standard_error": 0.01}, {"x": (0.0, 1.0)}, 5)
    assert {record.standard_error for record in named.history} == {0.01}
    with pytest.raises(Hopeless, match="in which the standard error is named 'standard_error'"):
        minimize(lambda x: {"value": abs(x - 0.3), "stderr": 0.01}, {"x": (0.0, 1.0)}, 5)


def test_zero_has_no_sign():
    assert str(minimize(lambda x: 0.0, {"x": (0.0, 1.0)}, 2).fun) == "0.0"


class Unsure(RandomSearch):
    """Its model cannot be made."""

    def __init__(self, error: Exception, **settings) -> None:
        super().__init__(**settings)
        self.error = error

    def recommend(self, history):
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("no such\ndevice"), SettingError("prior", 1, "known")], ids=type)
def test_a_recommendation_that_fails_loses_no_value(error, caplog):
    found = minimize(bowl, SPACE, 22, strategy=Unsure(error, seed=3))
    assert found.fun == minimize(bowl, SPACE, 22, strategy=RandomSearch(seed=3)).fun
    assert found.recommended is None
    assert "the best observation is recommended, as the model failed" in caplog.text


def test_nothing_at_the_target_is_no_success():
    found = maximize(bowl, SPACE, 1)
    assert not found.success
    assert found.x == ()
    assert math.isnan(found.fun)
    assert "Nothing was evaluated at the target" in found.message


def test_a_history_as_a_data_frame():
    pytest.importorskip("pandas")
    found = minimize(bowl, SPACE, 12, strategy=RandomSearch())
    frame = found.history.to_pandas(found.problem)
    assert list(frame.columns[:5]) == ["id", "x", "n", "fidelity", "value"]
    assert frame["value"].min() == found.fun
    assert frame["cost"].sum() == found.spent
    assert found.history.to_pandas().equals(frame)
    bare = History(found.history.records).to_pandas()
    assert list(bare.columns[:3]) == ["id", "x1", "x2"]
    assert (bare["value"] == -frame["value"]).all()
    assert list(found.history.to_pandas(SPACE).columns) == list(frame.columns)
    assert len(History().to_pandas()) == 0
    clash = Space([Parameter("value", 0.0, 1.0)], costs=[1.0])
    assert "parameter.value" in History().asked(Query((0.5,), 0), 1.0).to_pandas(clash).columns


def test_notebooks_show_tables_and_pictures():
    found = minimize(bowl, SPACE, 12, strategy=RandomSearch())
    for shown in (found, found.history, SPACE, found.problem):
        assert "<table>" in shown._repr_html_()
        assert len(repr(shown)) < 300
    assert "<b>" not in Space([Parameter("<b>", 0.0, 1.0)], costs=[1.0])._repr_html_()
    long = History([*found.history] * 20)
    assert long._repr_html_().count("<tr>") == 21
    assert repr(long).startswith("History(")
    picture = found.plot()
    assert isinstance(picture, plots.Picture)
    assert picture._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("goal", [minimize, maximize])
def test_a_history_is_shown_in_the_users_sign(goal):
    """In a notebook; in all else it is any history."""
    found = goal(lambda x, k: 2.0, {"x": (0.0, 1.0), "k": ["a", "b"]}, 2, strategy="RandomSearch")
    page = found.history._repr_html_()
    assert page.count("<td>2</td>") == 2
    assert "<td>-2</td>" not in page
    assert "<th>k</th>" in page
    plain = History(found.history)
    assert plain == found.history
    assert found.history == plain
    assert pickle.loads(pickle.dumps(found.history)) == plain
    assert found.history.updated(plain.records[1]) == plain


def test_the_program_of_a_user(capsys):
    user_program.main()
    assert "True" in capsys.readouterr().out


def test_limits_on_what_a_function_measures():
    space = Space([Parameter("x", 0.0, 1.0)], costs=[1.0], limits={"latency": "<= 0.5"})
    result = maximize(lambda x: {"value": x, "latency": x}, space, 12, strategy=RandomSearch())
    kept = [r.query.x[0] for r in result.history.done if r.query.x[0] <= 0.5]
    assert 0 < len(kept) < 12
    assert result.fun == result.parameters["x"] == max(kept)
