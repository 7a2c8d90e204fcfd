"""One calling convention: what a signature is given, and what is said of one that cannot be called."""

import functools

import pytest
from refusals import refused

from mfbo_torch.problems import UserProblem
from mfbo_torch.problems.user.call_convention import convention

NAMES = ("rate", "width")
DESIGN = {"rate": 0.5, "width": 32}


def prepared(seed, rate, width, epochs):
    return seed, rate, width, epochs


class Callable:
    def __call__(self, rate, width, fidelity):
        return rate, width, fidelity


def order(rate, width, /, epochs, *, note="x"):
    return rate, width, epochs, note


TAKEN = [
    (lambda rate, width, epochs: (rate, width, epochs), (0.5, 32, 9)),
    (lambda epochs, width, rate: (rate, width, epochs), (0.5, 32, 9)),
    (lambda rate, width, fidelity: (rate, width, fidelity), (0.5, 32, 1)),
    (lambda rate, width=3, epochs=1, seed=7: (rate, width, epochs, seed), (0.5, 32, 9, 7)),
    (lambda rate, **rest: (rate, rest), (0.5, {"width": 32, "epochs": 9})),
    (lambda **rest: rest, {**DESIGN, "epochs": 9}),
    (lambda epochs, **rest: (epochs, rest), (9, DESIGN)),
    (lambda parameters, fidelity: (parameters, fidelity), (DESIGN, 1)),
    (lambda parameters, epochs: (parameters, epochs), (DESIGN, 9)),
    (lambda epochs, parameters: (epochs, parameters), (9, DESIGN)),
    (lambda parameters, *, epochs: (parameters, epochs), (DESIGN, 9)),
    (lambda parameters, **rest: (parameters, rest), (DESIGN, {"epochs": 9})),
    (lambda p, m: (p, m), (DESIGN, 1)),
    (lambda p, epochs, scale=2: (p, epochs, scale), (DESIGN, 9, 2)),
    (lambda *args: args, (DESIGN, 9)),
    (lambda rate, width, epochs, fidelity: (rate, width, epochs, fidelity), (0.5, 32, 9, 1)),
    (functools.partial(prepared, 7), (7, 0.5, 32, 9)),
    (functools.partial(prepared, seed=7), (7, 0.5, 32, 9)),
    (Callable(), (0.5, 32, 1)),
    (order, (0.5, 32, 9, "x")),
    (max, None),  # does not tell: f(parameters, fidelity)
]


@pytest.mark.parametrize(("function", "expected"), TAKEN)
def test_what_an_objective_is_given(function, expected):
    found = convention(function, NAMES, "epochs", 3)
    if expected is None:
        assert found == (("parameters", "fidelity"), (), ())
    else:
        assert found.call(function, DESIGN, fidelity=1, epochs=9) == expected


def test_the_fidelity_may_be_left_out_where_there_is_one():
    for function in (lambda rate, width: (rate, width), lambda parameters: tuple(parameters.values())):
        assert convention(function, NAMES).call(function, DESIGN, fidelity=0) == (0.5, 32)


def train(rate, widht, epochs):
    """Spelt wrongly."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (train, r"objective = 'train\(rate, widht, epochs\)': .* takes width, as f\(rate, width, epochs\)"),
        (train, r"did you mean width by widht\?$"),
        (lambda rate, width: 0, r"one that takes epochs, as f\(rate, width, epochs\) or f\(parameters, epochs\)$"),
        (lambda rate, width, epoch: 0, r"without the argument epoch, as .*; did you mean epochs by epoch\?"),
        (lambda parameters: 0, "one that takes epochs"),
        (lambda parameters, epochs, model: 0, "without the argument model"),
        (lambda rate, epochs: 0, "one that takes width"),
        (lambda: 0, "one that takes rate, width"),
        (lambda rate=1, widht=2, epochs=3: 0, "one that takes width, .* did you mean width by widht"),
        (lambda lr, width, epochs: 0, "one that takes rate, "),
    ],
)
def test_signatures_that_cannot_be_called(function, message):
    refused(message, convention, function, NAMES, "epochs", 3)


class Unreadable:
    def __repr__(self):
        raise RuntimeError("no")


UNREADABLE = Unreadable()


def test_defaults_that_cannot_be_shown_are_nobodys_concern():
    def good(rate, width, epochs, model=UNREADABLE):
        return rate

    def bad(rate, epochs, model=UNREADABLE):
        return rate

    assert convention(good, NAMES, "epochs", 3).call(good, DESIGN, epochs=3, fidelity=0) == 0.5
    refused(r"objective = 'bad\(rate, epochs, model\)': .* takes width", convention, bad, NAMES, "epochs", 3)


def test_checked_when_a_problem_is_made():
    parameters = {name: {"lower": 0, "upper": 64} for name in NAMES}
    refused("did you mean width by widht", UserProblem, train, parameters, fidelities={"epochs": [3, 9]})
    taken = {**parameters, "fidelity": {"lower": 0, "upper": 1}}
    said = "parameters = 'fidelity': must be another name, or the objective f"
    refused(said, UserProblem, lambda rate, width, fidelity: 0.0, taken, [1, 2])
    problem = UserProblem(lambda parameters, fidelity: parameters["fidelity"] + fidelity, taken, [1, 2])
    assert problem.evaluate((1, 2, 0.5), 1) == pytest.approx(1.5)
