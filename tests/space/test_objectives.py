"""Names, directions and references of several objectives."""

import pytest

from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.objectives import Objective, objectives_of
from mfbo_torch.utils.errors import SettingError


def test_objectives_are_read():
    assert objectives_of(["a", "b"]) == (Objective("a"), Objective("b"))
    assert objectives_of(("a", "b"), maximize=True) == (Objective("a", True), Objective("b", True))
    assert objectives_of(["a", "b"], {"b": "maximize"}, [1, 2.5]) == (
        Objective("a", False, 1.0),
        Objective("b", True, 2.5),
    )
    assert objectives_of({"a": "maximize", "b": "minimize"}) == (Objective("a", True), Objective("b"))
    assert objectives_of(["a", "b"], reference={"b": 3}) == (Objective("a"), Objective("b", False, 3.0))


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (("loss",), "a list of names, as in ['loss']"),
        ((["loss", "loss"],), "names that differ"),
        (([f"o{k}" for k in range(5000)],), "objectives = '5,000 names': must be at most 32"),
        ((["value", "loss"],), "none of them 'value'"),
        (([],), "a list of names"),
        ((["loss", 3],), "a list of names"),
        ((["loss", "size"], ["minimise", "minimize"]), "did you mean minimize"),
        ((["loss", "size"], ["minimize"]), "one for each of loss, size"),
        ((["loss", "size"], "minimize"), "one for each of loss, size"),
        ((["loss", "size"], {"lose": "minimize"}), "did you mean loss"),
        (({"loss": "minimize", "size": "minimize"}, ["minimize"] * 2), "left out where objectives has them"),
        ((["loss", "size"], None, [1.0, float("nan")]), "a finite number"),
        ((["loss", "size"], None, {"loss": "1"}), "a finite number"),
    ],
)
def test_mistakes_are_refused(given, part):
    names = "loss" if given == ("loss",) else given[0]
    with pytest.raises(SettingError) as refused:
        objectives_of(names, *given[1:])
    assert part in str(refused.value)


def test_a_space_measures_them():
    space = Space([Parameter("x", 0, 1)], costs=[1], objectives=objectives_of(["a", "b"]), limits={"b": "<= 3"})
    assert [limit.name for limit in space.outcomes] == ["b", "a"]
    with pytest.raises(SettingError, match="at least two"):
        Space([Parameter("x", 0, 1)], costs=[1], objectives=objectives_of(["a"]))
    with pytest.raises(SettingError, match=r"one with epochs; .*continues=True"):
        Space([Parameter("x", 0, 1)], epochs=9, objectives=objectives_of(["a", "b"]))
