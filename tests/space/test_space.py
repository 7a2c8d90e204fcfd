"""Parameters, costs and the way to the unit cube and back."""

import math
import pickle
import re
from fractions import Fraction

import pytest
import torch
from refusals import refused

from mfbo_torch import History, minimize
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import RandomSearch

SPACE = Space(
    (
        Parameter("width", -5.0, 10.0),
        Parameter("rate", 1e-4, 1e2, log=True),
        Parameter("layers", 1, 6, integer=True),
        Parameter("trees", 1, 1000, log=True, integer=True),
    ),
    (1.0, 2.5, 10.0),
)


def cube(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, SPACE.dim, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def test_sizes_and_names():
    assert (SPACE.dim, SPACE.num_fidelities, SPACE.target) == (4, 3, 2)
    assert SPACE.bounds.tolist() == [[-5.0, 1e-4, 1.0, 1.0], [10.0, 1e2, 6.0, 1000.0]]
    assert SPACE.bounds.dtype == torch.double
    named = SPACE.named((2.5, 0.1, 3.0, 10.0))
    assert named == {"width": 2.5, "rate": 0.1, "layers": 3, "trees": 10}
    assert [type(value) for value in named.values()] == [float, float, int, int]
    with pytest.raises(ValueError, match="argument"):
        SPACE.named((1.0, 2.0))


def test_to_the_unit_cube_and_back_by_formula():
    x = (2.5, 1e-1, 3.0, 10.0)
    expected = [7.5 / 15, 3 / 6, 2 / 5, 1 / 3]
    assert SPACE.to_unit(torch.tensor(x, dtype=torch.double)).tolist() == pytest.approx(expected, rel=1e-12)
    u = torch.tensor([0.2, 0.75, 0.51, 0.5], dtype=torch.double)
    assert SPACE.from_unit(u).tolist() == pytest.approx([-2.0, 10 ** (-4 + 4.5), 4.0, round(10**1.5)], rel=1e-12)


X = Parameter("x", 0.0, 1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parameters": X}, "parameters = Parameter.*: must be a list of Parameter, or a mapping"),
        ({"constraints": "x <= 1"}, r"constraints = 'x <= 1': must be a list of inequalities, as in \['x <= 1'\]"),
        ({"limits": ["a <= 2"]}, r"limits = \['a <= 2'\]: must be a mapping of outcomes to bounds, as in {\"latency\""),
        ({"limits": [{"a": "<= 2"}]}, r"limits = \[\{'a': '<= 2'\}\]: must be a mapping of outcomes to bounds"),
        ({"limits": 3}, "limits = 3: must be a mapping of outcomes to bounds"),
        ({"limits": {"a": 2}}, 'limits.a = 2: must be like "<= 20" or ">= 0.9"$'),
        ({"costs": "measured"}, "costs = 'measured': must be a list .*; measured=True says that they are guesses"),
        ({"costs": 3}, r"costs = 3: must be a list of one positive number a fidelity, as in \[3\]"),
        (
            {"parameters": [Parameter("x", 0, 1, when={"y": 1})]},
            "x.when = 'y': must be another parameter; there is none",
        ),
        ({"objectives": {"loss": "up", "latency": "minimize"}}, "up"),
        ({"parameters": {"x": {"lower": 0, "uper": 1}}}, "x = 'uper': .*did you mean upper"),
    ],
)
def test_a_setting_in_another_form_is_told_the_right_one(settings, message):
    refused(message, Space, **{"parameters": [X], "costs": [1.0], **settings})


def test_constraints_that_no_design_meets_are_shown_as_they_are_written():
    space = Space([X, Parameter("y", 1.0, 2.0)], [1.0], constraints=["x + 2 * y <= 1", "x >= 0.5"])
    said = r"constraints = \['x \+ 2 y <= 1', '- x <= -0.5'\]: must be met by more than 0 of 65,536 random designs"
    refused(said, RandomSearch().bind(space).ask, History())


def test_round_trips():
    U = cube(3, 17)
    X = SPACE.from_unit(U)
    assert X.shape == U.shape
    assert torch.equal(X.clamp(*SPACE.bounds), X)
    assert torch.equal(X[..., 2:], X[..., 2:].round())
    assert torch.allclose(SPACE.to_unit(X)[..., :2], U[..., :2], rtol=0, atol=1e-12)
    assert torch.allclose(SPACE.from_unit(SPACE.to_unit(X)), X, rtol=1e-12)
    assert torch.equal(SPACE.from_unit(SPACE.to_unit(X))[..., 2:], X[..., 2:])  # whole numbers exactly


def test_corners_and_points_outside_that_are_put_back():
    for u, row in ((0.0, 0), (1.0, 1)):
        corner = SPACE.from_unit(torch.full((4,), u, dtype=torch.double))
        assert torch.allclose(corner, SPACE.bounds[row], rtol=1e-12)
        assert ((corner >= SPACE.bounds[0]) & (corner <= SPACE.bounds[1])).all()
        assert SPACE.to_unit(SPACE.bounds[row]).tolist() == pytest.approx([u] * 4, abs=1e-15)
    assert torch.equal(SPACE.from_unit(torch.full((4,), 1.7, dtype=torch.double)), SPACE.bounds[1])
    assert torch.equal(SPACE.from_unit(torch.full((4,), -0.3, dtype=torch.double)), SPACE.bounds[0])


def test_every_whole_number_can_be_reached():
    space = Space((Parameter("k", -2, 3, integer=True),), (1.0,))
    grid = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
    assert space.from_unit(grid).unique().tolist() == [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]


def test_snapping():
    U = cube(19)
    snapped = SPACE.snap(U)
    assert torch.equal(snapped[:, :2], U[:, :2])
    assert torch.allclose(SPACE.snap(snapped), snapped, rtol=0, atol=1e-15)
    assert torch.equal(SPACE.from_unit(snapped)[:, 2:], SPACE.from_unit(U)[:, 2:])
    assert (snapped[:, 2] - U[:, 2]).abs().max() <= 0.1 + 1e-12  # half of a step of 1 / 5
    assert Space.box([[0.0], [1.0]], [1.0]).snap(U) is U


def test_box():
    space = Space.box(torch.tensor([[0.0, -1.0], [1.0, 2.0]]), [1, 10])
    assert [p.name for p in space.parameters] == ["x1", "x2"]
    assert space.bounds.tolist() == [[0.0, -1.0], [1.0, 2.0]]
    assert space.costs == (1, 10)
    assert space == Space.box([[0.0, -1.0], [1.0, 2.0]], (1.0, 10.0))


def test_pickled_with_its_caches():
    SPACE.to_unit(cube(1))
    assert pickle.loads(pickle.dumps(SPACE)) == SPACE
    assert hash(SPACE) == hash(pickle.loads(pickle.dumps(SPACE)))


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [
        ("a.lower", {"lower": 2.0, "upper": 1.0}),
        ("a.lower", {"lower": 1.0, "upper": 1.0}),
        ("a.lower", {"lower": 0.0, "upper": 1.0, "log": True}),
        ("a.lower", {"lower": -1.0, "upper": 1.0, "log": True}),
        ("a.bounds", {"lower": 0.5, "upper": 3, "integer": True}),
        ("a.bounds", {"lower": 0, "upper": 2.5, "integer": True}),
        ("a.bounds", {"lower": 0, "upper": 2**53 + 1, "integer": True}),
        ("a.bounds", {"lower": -(2.0**60), "upper": 0, "integer": True}),
        ("a.bounds", {"lower": -1e308, "upper": 1e308}),
        ("a.bounds", {"lower": 10**16, "upper": 10**16 + 1}),
        ("a.bounds", {"lower": 1e200, "upper": math.nextafter(1e200, math.inf), "log": True}),
        ("a.lower", {"lower": 5e-324, "upper": 1.0, "log": True}),
        ("a.upper", {"lower": 0, "upper": 10**400}),
    ],
)
def test_bad_parameters(setting, arguments):
    refused(rf"^{re.escape(setting)} = ", Parameter, "a", **arguments)


@pytest.mark.parametrize("name", ["", " ", "a\0", "a\nb", "a\r", "a\u2028b", "\ud800", None, 3, b"a"])
def test_names_that_fit_no_line(name):
    refused(r"^name = .*: must be a name of one line", Parameter, name, 0.0, 1.0)
    refused(r"^limits = .*: must be ", Space, [A], [1.0], limits={name: "<= 1"})


def test_the_widest_bounds_and_other_scripts():
    space = Space([Parameter("größe", -(2**53), 2**53, integer=True), Parameter("β₀ x", -8e307, 8e307)], [1.0])
    ends = space.from_unit(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double))
    assert ends.tolist() == space.bounds.tolist()
    assert space.to_unit(ends).tolist() == [[0.0, 0.0], [1.0, 1.0]]


A, B = Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)


@pytest.mark.parametrize(
    ("setting", "parameters", "costs"),
    [
        *(("parameters", (), (1.0,)), ("parameters", (A, B, A), (1.0,)), ("costs", (A,), ())),
        *(("costs", (A,), (1.0, 1.0)), ("costs", (A,), (10.0, 1.0)), ("costs", (A,), (0.0, 1.0))),
        *(("costs", (A,), (-1.0, 1.0)), ("costs", (A,), (1.0, math.inf))),
    ],
)
def test_bad_spaces(setting, parameters, costs):
    refused(rf"^{re.escape(setting)} = ", Space, parameters, costs)


ROWS = ((-5.0, 1e-2, 2, 10), (10.0, 1.0, 5, 30), (0.0, 10.0, 1, 1000))


def test_candidates_are_the_only_designs():
    space = Space(SPACE.parameters, SPACE.costs, candidates=ROWS)
    assert torch.equal(space.unit_candidates, SPACE.to_unit(torch.tensor(ROWS, dtype=torch.double)))
    near = space.unit_candidates + 1e-3 * cube(3)
    assert space.from_unit(near).tolist() == [list(map(float, row)) for row in ROWS]
    assert torch.equal(space.snap(near), space.unit_candidates)
    assert space.from_unit(cube(2, 5)).shape == (2, 5, 4)
    assert pickle.loads(pickle.dumps(space)) == space
    assert SPACE.unit_candidates.shape == (0, 4)
    space = Space.finite(torch.tensor([[0.0, 3.0], [2.0, 1.0]]), (1.0, 2.0))
    assert space.bounds.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert space.candidates == ((0.0, 3.0), (2.0, 1.0))
    assert space.unit_candidates.tolist() == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("row", [(0.0, 1.0, 2), (11.0, 1.0, 2, 10), (0.0, 1.0, 2.5, 10), (0.0, math.nan, 2, 10)])
def test_candidates_outside_the_space_and_no_candidates(row):
    refused(r"^candidates = \(", Space, SPACE.parameters, SPACE.costs, candidates=(*ROWS, row))
    for rows in ([], [[]], [[1.0], [1.0, 2.0]], [["a"], ["b"]], [1.0, 2.0], [[1.0], [math.nan]], [[1, 2], [1, 3]]):
        refused(r"^candidates = ", Space.finite, rows, (1.0,))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_constraints_hold_in_any_unit(unit):
    space = Space({"x": (0, unit), "y": (0, 1)}, costs=[1], constraints=[f"x + {unit} y <= {unit}"])
    U = cube(200)[:, :2]
    assert torch.equal(space.allows(U), U.sum(-1) <= 1)
    ((columns, weights, rhs),) = space.inequalities
    assert (columns.tolist(), weights.tolist(), rhs) == ([0, 1], [-1.0, -1.0], -1.0)
    best = minimize(lambda x, y: -x / unit - y, space, 6)
    assert best.fun == pytest.approx(-1.0)
    assert all(r.query.x[0] / unit + r.query.x[1] <= 1 + 1e-8 for r in best.history)


def test_a_candidate_counts_once():
    assert Space.finite([[0, 1], [1, 0], [0, 1]], [1]).candidates == ((0.0, 1.0), (1.0, 0.0))


def test_fractions_are_numbers():
    space = Space({"x": (0, 1)}, costs=[Fraction(1, 3), 1])
    assert space.costs == (1 / 3, 1)
    assert minimize(lambda x, fidelity: x, space, 5).success
