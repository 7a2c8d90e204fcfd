"""Designs as another library's parameters, and back."""

import pytest

from mfbo_torch.space import Parameter
from mfbo_torch.space.codec import Codec, Coordinate

CODEC = Codec(
    [
        Coordinate.among(Parameter("kind", choices=("sgd", "adam")), ["SGD", "ADAM"]),
        Coordinate(Parameter("momentum", 0.0, 0.9, when={"kind": "sgd"})),
        Coordinate(Parameter("width", 0, 3, integer=True), lambda v: v // 16 - 1.0, lambda x: 16 * (round(x) + 1)),
    ],
    "epochs",
    [3, 9],
    {"data": "digits"},
    costs=[3.0, 9.0],
)


@pytest.mark.parametrize(
    ("x", "fidelity", "parameters"),
    [
        ((0.0, 0.5, 3.0), 1, {"kind": "SGD", "momentum": 0.5, "width": 64, "epochs": 9, "data": "digits"}),
        ((1.0, 0.45, 0.0), 0, {"kind": "ADAM", "width": 16, "epochs": 3, "data": "digits"}),
    ],
)
def test_there_and_back(x, fidelity, parameters):
    assert CODEC.decode(x, fidelity) == parameters
    assert CODEC.encode(parameters) == (pytest.approx(x), fidelity)


@pytest.mark.parametrize("change", [{"kind": "RMS"}, {"kind": None}, {"momentum": 1.0}, {"width": 80}, {"epochs": 4}])
def test_values_outside_the_space_and_missing_ones_have_no_design(change):
    assert CODEC.encode({"kind": "SGD", "momentum": 0.5, "width": 16, "epochs": 3}) is not None
    assert CODEC.encode({"kind": "SGD", "momentum": 0.5, "width": 16, "epochs": 3, **change}) is None
    assert CODEC.encode({"kind": "ADAM", "epochs": 3}) is None
    assert CODEC.encode({"kind": "ADAM", "width": 16}) is None
