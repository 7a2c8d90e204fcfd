"""What an indirect space accepts, and how it travels."""

import pickle

import pytest
import torch
from refusals import refused

from mfbo_torch.space import Parameter
from mfbo_torch.space.indirect import IndirectSpace, Policy, Samples, Window

PARAMETERS = (Parameter("a", 0.0, 2.0), Parameter("b", 1.0, 3.0))


def space(costs=(1.0,), feedback=None, **settings):
    given = Window([0.1] * len(costs)) if feedback is None else feedback
    return IndirectSpace(PARAMETERS, costs, **{"inputs": [[0.0], [0.5], [1.0]], "feedback": given, **settings})


def test_survives_pickling():
    constraints = (((1.0, 1.0), 4.0),)
    before = space((1.0, 2.0), choices=[[0.5, 2.0]], noise_std=(0.1, 0.2), constraints=constraints, zeta=(0.5, 0.0))
    after = pickle.loads(pickle.dumps(before))
    assert after == before
    assert torch.equal(after.inputs, before.inputs)
    assert torch.equal(after.choices, before.choices)
    assert after.feedback.widths == before.feedback.widths
    assert (after.width, space().width) == (3, 2)


def test_snaps_to_the_nearest_choice():
    U = torch.tensor([[0.1, 0.2], [0.9, 0.6]], dtype=torch.double)
    choices = torch.tensor([[0.0, 1.0], [2.0, 2.0]], dtype=torch.double)
    limited = space(choices=choices)
    assert torch.equal(limited.from_unit(limited.snap(U)), choices)
    assert torch.equal(space().snap(U), U)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"feedback": Samples([[0.1]], [[1.0, 2.0, 0.0]])}, r"samples\.A = 'queries of 3 numbers': must be of 2"),
        ({"feedback": Samples([[0.1]], [[1.0, 2.0]]), "costs": (1.0, 2.0)}, "of 3: the 2 parameters and the fidelity"),
        ({"feedback": Samples([[0.1, 0.2]], [[1.0, 2.0]])}, r"samples\.X = 'inputs of width 2': must be of 1"),
        ({"feedback": Window([0.1, 0.2])}, "widths = .*must be 1, one a fidelity"),
        ({"feedback": 3}, "feedback = 'int'"),
        ({"choices": [[0.5]]}, "choices = 'queries of 1 parameters': must be of 2"),
        ({"noise_std": (0.1, 0.2)}, "noise_std = .*must be 1 numbers"),
        ({"noise_std": (-0.1,)}, "noise_std = "),
        ({"inputs": [0.1, 0.2]}, "inputs = 'a table of shape"),
        ({"inputs": [[float("nan")]]}, "inputs = 'NaN or infinity'"),
    ],
)
def test_bad_settings(settings, message):
    refused(message, space, **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Samples(torch.zeros(0, 1), torch.zeros(0, 2)), "samples.X = .*at least one"),
        (lambda: Samples([[0.1], [0.2]], [[1.0, 2.0]]), "samples = '2 inputs and 1 queries'"),
        (lambda: Window([]), "widths = "),
        (lambda: Window([0.1, 0.0]), "widths = .*positive"),
        (lambda: Window([[0.1, -1.0]]), "widths = .*positive"),
        (lambda: Window([0.1], shape="round"), "shape = 'round': must be 'gaussian' or 'uniform'"),
        (lambda: Policy(3), "probabilities = 'int'"),
    ],
)
def test_bad_feedback(make, message):
    refused(message, make)
