"""A continuous fidelity: an interval, from the settings to what a person is shown of a run."""

import numpy as np
import pytest
from refusals import refused

from mfbo_torch import strategies
from mfbo_torch.history import History
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.continuous_fidelity import LEVELS, nearest, numbers, power_costs, stretches
from mfbo_torch.space.fidelities import Fidelities
from mfbo_torch.utils.errors import SettingError

SHARE = {"share": {"lower": 0.05, "upper": 1.0}}
X = (Parameter("x", 0.0, 1.0),)


def test_numbers_are_a_grid():
    assert numbers("share", {"lower": 0.05, "upper": 1.0}) == pytest.approx(np.linspace(0.05, 1, LEVELS), rel=1e-5)
    sizes = numbers("size", {"lower": 10, "upper": 1e4, "log": True})
    assert sizes == pytest.approx(np.geomspace(10, 1e4, LEVELS), rel=1e-5)
    epochs = numbers("epochs", {"lower": 1, "upper": 81, "integer": True})
    assert repr(epochs) == repr(tuple(range(1, 82)))  # whole numbers
    assert len(numbers("epochs", {"lower": 1, "upper": 10_000, "integer": True, "log": True})) <= LEVELS
    close = numbers("size", {"lower": 1e6, "upper": 1e6 + 1})
    assert (close[0], close[-1]) == (1e6, 1e6 + 1)
    assert list(close) == sorted(set(close))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lower": 0.1}, "given with upper"),
        ({"lower": 0.1, "upper": 1, "step": 2}, "'step': must be 'lower' or 'upper'"),
        ({"lower": 1.0, "upper": 0.1}, r"share.lower = 1.0: must be below fidelities.share.upper = 0.1"),
        ({"lower": 0, "upper": 1, "log": True}, "above 0 on a log scale"),
        ({"lower": 0.5, "upper": 2, "integer": True}, "whole numbers where integer is true"),
        ({"lower": "a", "upper": 2}, "share.lower = 'a'"),
        ({"lower": 1, "upper": 2, "log": "yes"}, "share.log = 'yes'"),
    ],
)
def test_what_is_no_interval_is_named(given, said):
    refused(said, Fidelities.of, {"share": given})


def test_costs_of_an_interval():
    assert Space(X, fidelities=SHARE).costs == pytest.approx(np.linspace(0.05, 1, LEVELS), rel=1e-5)
    space = Space(X, (1.0, 400.0), fidelities=SHARE)  # from 0.05 to 1 a factor of 20: the square
    assert space.costs == pytest.approx(400 * np.array(space.fidelities.values) ** 2, rel=1e-9)
    assert Space(X, space.costs, fidelities=space.fidelities) == space
    assert power_costs([0.0, 0.5, 1.0], 1.0, 3.0) == (1.0, 2.0, 3.0)
    refused(r"costs = .*101 numbers", Space, X, (1.0, 2.0, 3.0), fidelities=SHARE)
    refused(r"fidelities.share = .*given with costs", Space, X, fidelities={"share": {"lower": 0.0, "upper": 1.0}})


def test_levels_and_stretches():
    space = Space(X, fidelities=SHARE)
    assert nearest(space.fidelities.values, "0.37") == space.fidelities.level(0.37)
    assert space.fidelities.values[space.fidelities.level(0.37)] == pytest.approx(0.37, abs=0.005)
    refused(r"share = 1\.5", space.fidelities.level, 1.5)
    assert [m for part in space.stretches for m in part] == list(range(LEVELS))
    assert [space.stretch_name(part) for part in space.stretches][-2:] == ["share = 0.762 to 0.991", "share = 1"]
    assert stretches(3) == (range(1), range(1, 2), range(2, 3))


@pytest.mark.parametrize("kind", [strategies.MFGPUCB, strategies.MFSKO, strategies.MFGIBBON])
def test_strategies_of_few_fidelities_say_so(kind):
    with pytest.raises(SettingError, match=f"fidelities = 101: must be at most 20 for {kind.__name__}; BOCA takes"):
        kind(space=Space(X, fidelities=SHARE)).ask(History())
