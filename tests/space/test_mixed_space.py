"""Choices, conditions and constraints: what a space makes of them, and what it refuses."""

import json
import math
import pickle
import re

import pytest
import torch
from refusals import refused

from mfbo_torch import GPBUCB
from mfbo_torch.history import History
from mfbo_torch.problems import UserProblem
from mfbo_torch.problems.problem_snapshot import known_of, stand_in
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.constraints import linear
from mfbo_torch.utils.errors import SettingError

SPACE = Space(
    (
        Parameter("optimizer", choices=["sgd", "adam", "rms"]),
        Parameter("rate", 1e-4, 1e-1, log=True),
        Parameter("momentum", 0.0, 0.9, when={"optimizer": "sgd"}),
        Parameter("width", choices=[16, 32, 64], ordered=True),
        Parameter("bias", choices=[True, False]),
        Parameter("layers", 1, 3, integer=True),
        Parameter("second", 8, 64, integer=True, when={"layers": [2, 3], "bias": True}),
    ),
    (1.0, 10.0),
)


def draws(n: int = 200) -> torch.Tensor:
    return SPACE.designs(torch.rand(n, SPACE.dim, generator=torch.Generator().manual_seed(0), dtype=torch.double))


def test_columns_of_the_unit_cube():
    x = SPACE.point({"optimizer": "rms", "rate": 1e-2, "width": 32, "bias": False, "layers": 2})
    assert x == (2.0, 1e-2, 0.45, 1.0, 1.0, 2.0, 36.0)  # what is not there is in the middle
    u = SPACE.to_unit(torch.tensor(x, dtype=torch.double)).tolist()
    assert u == pytest.approx([0, 0, 1, 2 / 3, 0.5, 0.5, 1.0, 0.5, 0.5])
    assert (SPACE.unit_dim, SPACE.groups) == (9, (0, 0, 0, 1, 2, 3, 4, 5, 6))


def test_there_and_back():
    U = draws()
    X = SPACE.from_unit(U)
    assert torch.equal(SPACE.snap(U), U)
    assert torch.allclose(SPACE.from_unit(SPACE.to_unit(X)), X, rtol=1e-12)
    for x in X.tolist():
        named = SPACE.named(x)
        assert SPACE.contains(x)
        assert ("momentum" in named) == (named["optimizer"] == "sgd")
        assert ("second" in named) == (named["layers"] > 1 and named["bias"] is True)
        assert SPACE.point(json.loads(json.dumps(named))) == pytest.approx(x)


def test_every_choice_is_drawn_equally_often():
    V = torch.linspace(0, 1, 300, dtype=torch.double).unsqueeze(-1).expand(-1, SPACE.dim)
    X = SPACE.from_unit(SPACE.designs(V))
    for i in (0, 3):
        assert X[:, i].unique(return_counts=True)[1].tolist() == [100] * 3
    assert X[:, 4].unique(return_counts=True)[1].tolist() == [150] * 2


def test_a_change_is_one_choice():
    U = draws(20)
    changed = SPACE.choice_neighbours(U)
    assert torch.equal(SPACE.snap(changed), changed)
    for u, others in zip(U, changed, strict=True):
        x = SPACE.named(SPACE.from_unit(u).tolist())
        seen = {name: set() for name in ("optimizer", "width", "bias", "layers")}
        for other in SPACE.from_unit(others).tolist():
            named = SPACE.named(other)
            moved = [name for name in seen if named[name] != x[name]]
            assert len(moved) <= 1
            seen |= {name: seen[name] | {named[name]} for name in moved}
        assert seen["optimizer"] == {"sgd", "adam", "rms"} - {x["optimizer"]}
        assert seen["bias"] == {not x["bias"]}
    held = SPACE.fixed_columns(U)
    assert held[:, [0, 1, 2, 5, 6, 7]].all()
    assert not held[:, 3].any()


def test_very_many_choices():
    """They are compared once each; a model's columns are bounded, and so are the changes that a search tries."""
    labels = [f"l{i}" for i in range(10_000)]
    ranked = Parameter("a", choices=labels, ordered=True)
    assert ranked.columns == 1
    strategy = GPBUCB(space=Space([ranked, Parameter("b", 0, 1)], [1.0]), initial=2)
    history = History()
    for query in strategy.ask(history, 3):
        history = history.asked(query, 1.0)
    assert Space([ranked], [1.0]).choice_neighbours(torch.rand(2, 1, dtype=torch.double)).shape[1] < 64
    many = Space([Parameter("a", choices=labels[:500]), Parameter("b", choices=labels[:500])], [1.0])
    changed = many.choice_neighbours(many.snap(torch.rand(2, 1000, dtype=torch.double)))
    assert changed.shape[1] < 64
    assert torch.equal(changed.sum(-1), torch.full(changed.shape[:2], 2.0, dtype=torch.double))
    over = [Parameter("a", choices=labels[:501]), Parameter("b", choices=labels[:500])]
    refused("^choices = 1001: must be at most 1000 without order in all; give ordered=True", Space, over, [1.0])
    refused("one of l0, l1, .* and 9950 more$", ranked.encode, "none of them")


@pytest.mark.parametrize("label", [3.0, "3", True])
def test_the_last_of_many_choices_is_compared_with_all(label):
    refused("there once", Parameter, "a", choices=[*range(5_000), label])


def test_numbers_that_conditions_are_on_and_numbers_alone_are_as_they_were():
    plain = Space(tuple(p for p in SPACE.parameters if p.name in ("rate", "layers")), (1.0,))
    U = torch.rand(5, 2, dtype=torch.double)
    assert (plain.mixed, plain.groups) == (False, None)
    assert plain.designs(U) is U
    assert plain.choice_neighbours(U).shape == (5, 0, 2)


def test_spaces_travel_and_are_recorded():
    assert pickle.loads(pickle.dumps(SPACE)) == SPACE
    assert hash(pickle.loads(pickle.dumps(SPACE))) == hash(SPACE)
    parameters = {"a": {"choices": [None, "x", 2]}, "b": {"lower": 0, "upper": 1, "when": {"a": "x"}}}
    problem = UserProblem(lambda parameters, fidelity: 0.0, parameters, [1.0])
    assert stand_in(known_of(problem), "mine").space == problem.space


@pytest.mark.parametrize(
    ("setting", "settings"),
    [
        ("a.choices", {"choices": ["x"]}),
        ("a.choices", {"choices": []}),
        ("a.choices", {"choices": "xy"}),
        ("a.choices", {"choices": ["x", "y", "x"]}),
        ("a.choices", {"choices": [1, True]}),
        ("a.choices", {"choices": [1, "1"]}),
        ("a.choices", {"choices": ["x", float("nan")]}),
        ("a.choices", {"choices": ["x", ["y"]]}),
        ("a.lower", {"choices": ["x", "y"], "lower": 0, "upper": 2}),
        ("a.log", {"choices": ["x", "y"], "log": True}),
        ("a.integer", {"choices": ["x", "y"], "integer": True}),
        ("a.ordered", {"lower": 0, "upper": 1, "ordered": True}),
        ("a.when", {"lower": 0, "upper": 1, "when": "b"}),
        ("a.choices", {}),
    ],
)
def test_bad_parameters(setting, settings):
    refused(rf"^{re.escape(setting)} = ", Parameter, "a", **settings)


def on(when: dict, *others: Parameter) -> tuple[Parameter, ...]:
    return (Parameter("a", 0, 1, when=when), *others)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (on({"optimiser": "sgd"}, SPACE.parameters[0]), r"did you mean optimizer\?"),
        (on({"optimizer": "SGD"}, SPACE.parameters[0]), r"did you mean sgd\?"),
        (on({"rate": 0.1}, SPACE.parameters[1]), "choices or whole numbers; rate is any number"),
        (on({"layers": 4}, SPACE.parameters[5]), "between 1 and 3, whole"),
        (on({"a": 1}), "any number"),
        ([Parameter(a, 0, 2, integer=True, when={b: 1}) for a, b in ("ab", "ba")], "a -> b"),
    ],
)
def test_bad_conditions(parameters, said):
    with pytest.raises(SettingError, match=said) as caught:
        Space(parameters, (1.0,))
    assert caught.value.setting.startswith(("a.when", "b.when"))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"optimizer": "adm"}, r"parameters.optimizer = 'adm'.*did you mean adam\?"),
        ({"optimizr": "adam"}, r"did you mean optimizer\?"),
        ({"optimizer": "adam", "rate": 0.01}, "given with width, bias, layers"),
        ({"optimizer": "adam", "rate": 1.0}, "between 0.0001 and 0.1"),
        (["adam"], "a mapping"),
    ],
)
def test_bad_points(named, said):
    refused(said, SPACE.point, named)


@pytest.mark.parametrize(
    ("text", "weights", "bound"),
    [
        ("a + 2 b <= 3", (1, 2), 3),
        ("2*a - b >= 1e-2", (-2, 1), -0.01),
        ("a <= b", (1, -1), 0),
        ("-a - 2.5b + 1 <= a", (-2, -2.5), -1),
        ("3 >= a", (1, 0), 3),
    ],
)
def test_inequalities_as_text(text, weights, bound):
    assert linear(text, ["a", "b"]) == (pytest.approx(weights), pytest.approx(bound))


WORDS = ("a", "a < 3", "a b <= 3", "a + c <= 3", "a <= 1 <= b", "<= 3", "1 <= 3", "a = 3")


@pytest.mark.parametrize("constraint", [*WORDS, ((1.0,), 2.0), ((0.0, 0.0), 1.0), ((1.0, 0.0), math.nan)])
def test_bad_inequalities(constraint):
    refused("constraints", Space, (Parameter("a", 0, 1), Parameter("b", 0, 1)), (1.0,), constraints=(constraint,))
    for text in ("layers + width <= 3", "momentum <= 0.5", "rate <= 0.01"):  # no plain numbers
        refused("constraints", Space, SPACE.parameters, SPACE.costs, constraints=(text,))


def test_constraints_on_the_columns():
    parameters = (*SPACE.parameters[3:6], SPACE.parameters[0], Parameter("b", 0.0, 2.0))
    space = Space(parameters, (1.0,), constraints=("layers + b <= 3",))
    U = space.designs(torch.rand(100, space.dim, generator=torch.Generator().manual_seed(0), dtype=torch.double))
    X = space.from_unit(U)
    assert torch.equal(space.allows(U), X[:, 2] + X[:, 4] <= 3)
    ((columns, weights, rhs),) = space.inequalities
    assert torch.equal(space.to_unit(X)[:, columns] @ weights >= rhs - 1e-9, space.allows(U))


def test_a_small_space_is_used_up():
    from mfbo_torch.strategies.common.deduplicate import _grid

    space = Space((SPACE.parameters[0], Parameter("k", 1, 2, integer=True, when={"optimizer": "adam"})), (1.0,))
    rows = [tuple(space.named(x).values()) for x in space.from_unit(_grid(space)).tolist()]
    assert sorted(rows) == [("adam", 1), ("adam", 2), ("rms",), ("sgd",)]


def test_numbers_of_a_table_are_written_as_others_write_them():
    sizes, width = Parameter("batch", choices=(16, 32, 64)), Parameter("width", 0, 100, integer=True)
    assert (sizes.encode_text("16.0"), sizes.encode_text("32"), width.encode_text("64.0")) == (0.0, 1.0, 64.0)
    assert Parameter("on", choices=(True, False)).encode_text("true") == 0.0
    for parameter, given in ((sizes, "6_4"), (width, "1_0"), (Parameter("on", choices=(True, False)), "1")):
        with pytest.raises(SettingError):
            parameter.encode_text(given)
