"""What arguments may be, and what is said where they are not."""

import math
from fractions import Fraction
from functools import partial
from operator import lt

import numpy as np
import pytest
import torch
from refusals import refused

from mfbo_torch.history.observation import Observation, parse
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.problems import UserProblem
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, one_of, seeds, several, whole

BEYOND = [10**309, -(10**309), Fraction(10**309), np.ma.masked, np.ma.array(1.0, mask=True)]
"""Larger than any float, or masked."""


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(2)])
def test_whole_numbers_pass_as_an_int(value):
    assert whole("n", value) == int(value)
    assert type(whole("n", value)) is int


@pytest.mark.parametrize("value", [0, -1, True, 2.0, 2.5, "10", None, [1], math.inf, math.nan, np.bool_(True)])
def test_what_is_no_whole_number_is_named(value):
    refused(r"^n = .*: must be a whole number from 1 on$", whole, "n", value)
    assert [whole("n", value, 0, 3) for value in (0, 3)] == [0, 3]
    refused(r"^n = 4: must be a whole number from 0 to 3$", whole, "n", 4, 0, 3)


@pytest.mark.parametrize("value", [0, 1.5, np.float32(0.5), np.int64(2), torch.tensor(0.25), np.array(1.0)])
def test_numbers_pass_as_a_float(value):
    assert number("beta", value, 0) == float(value)
    assert type(number("beta", value, 0)) is float


@pytest.mark.parametrize(
    "value", [-1, math.inf, math.nan, True, "1", None, 1j, [1.0], torch.ones(2), object(), *BEYOND]
)
def test_what_is_no_number_is_named(value):
    refused(r"(?s)^beta = .*: must be a number from 0 on$", number, "beta", value, 0)


@pytest.mark.parametrize(
    ("bounds", "wrong", "wanted"),
    [
        ({"above": 0}, 0, "a number above 0"),
        ({"above": 0, "below": 1}, 1, "between 0 and 1"),
        ({}, math.inf, "a finite number"),
        ({"least": 0, "wanted": "a number from 0 on, or None"}, "practice", "a number from 0 on, or None"),
    ],
)
def test_the_message_says_what_is_wanted(bounds, wrong, wanted):
    refused(f"^delta = {wrong!r}: must be {wanted}$", number, "delta", wrong, **bounds)


@pytest.mark.parametrize(
    "value",
    [
        *(True, np.bool_(False), torch.tensor(True), np.array([False])),
        *("0.5", b"0.5", bytearray(b"0.5"), np.str_("0.5"), np.array("0.5"), None, [0.5], np.ones(2)),
        *BEYOND,
        *(1j, np.complex128(1 + 2j), np.array(1 + 2j), np.array([1 + 0j]), torch.tensor(1j), np.complex64(1)),
    ],
    ids=repr,
)
def test_what_is_no_observation_is_refused_everywhere(value):
    """Texts of numbers, truth values, and what has an imaginary part: by whoever is told of it."""
    for given in (value, (value, 0.1)):
        refused(r"(?s)^value = .*: must be a number, or a pair", parse, given)
    problem = UserProblem(lambda parameters, fidelity: value, {"x": {"lower": 0.0, "upper": 1.0}}, costs=[1.0])
    outcome = evaluate(problem, (0.5,), 0)
    assert outcome.observation is None
    assert 'must be a number, or {"value": ..., "standard_error": ...}' in outcome.reason


@pytest.mark.parametrize("value", [1, np.float32(0.5), torch.tensor([[0.25]]), np.array(2), Fraction(1, 2)])
def test_observations_of_every_kind_of_number_pass(value):
    assert parse(value) == Observation(float(value))
    assert type(parse(value).value) is float


def test_one_of_a_few():
    links = ("recursive", "independent")
    assert one_of("link", "recursive", links) == "recursive"
    refused("^link = 'none': must be 'recursive' or 'independent'$", one_of, "link", "none", links)
    refused(r"^number = True: must be 1 or 2$", one_of, "number", True, (1, 2))


def test_several_of_them():
    assert several("costs", iter([1, np.int64(2)]), number, "numbers") == (1.0, 2.0)
    assert several("sizes", (3, 5), partial(whole, least=3), "sizes", size=2, order=lt) == (3, 5)


@pytest.mark.parametrize("values", [None, 3, "12", [], [1.0], [1.0, "2"], [2.0, 1.0], [1.0, 1.0], [1.0, math.nan]])
def test_one_that_is_wrong_shows_all(values):
    with pytest.raises(SettingError, match=r"^costs = .*: must be two increasing numbers$") as caught:
        several("costs", values, number, "two increasing numbers", size=2, order=lt)
    assert caught.value.value == values


@pytest.mark.parametrize(("given", "found"), [(3, [0, 1, 2]), ([4, 0, 4], [4, 0, 4]), (range(2), [0, 1])])
def test_seeds_or_how_many(given, found):
    assert seeds("seeds", given) == found


@pytest.mark.parametrize("given", [0, -1, True, 2.0, [], [1, -1], [0.5], [True], "x", None])
def test_what_are_no_seeds(given):
    refused(r"^seeds = .*: must be whole numbers from 0 on, or how many of them", seeds, "seeds", given)
