"""The pictures of fronts show every design, and hypervolumes as they were computed."""

import pytest

from mfbo_torch import Parameter, Space, minimize

SPACE = Space([Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)], costs=[1, 2], limits={"size": "<= 0.8"})


def values(parameters, fidelity):
    a, b = parameters["a"], parameters["b"]
    return {"loss": a**2 + b, "speed": (a - 1) ** 2 + b, "third": b**2, "size": a}


@pytest.mark.parametrize("names", [["loss", "speed"], ["loss", "speed", "third"]])
def test_a_front_is_drawn(names, tmp_path):
    result = minimize(values, SPACE, objectives=names, capital=24, strategy="RandomSearch")
    figure = result.plot()
    figure.savefig(tmp_path / "front.png")
    left, right = figure.axes
    curve = right.lines[0].get_ydata()
    assert curve[-1] == pytest.approx(result.hypervolume)
    assert (curve[1:] >= curve[:-1]).all()
    if len(names) == 2:
        points = sorted(tuple(p) for c in left.collections if hasattr(c, "get_offsets") for p in c.get_offsets())
        outside = [r for r in result.history if r.id not in {one.id for one in result.front}]
        wanted = sorted((r.outcomes["loss"].value, r.outcomes["speed"].value) for r in outside)
        assert [p for p in points if p in wanted] == wanted
        assert {text.get_text() for text in left.texts} >= {", ".join(o.labels) for o in result.front if o.labels}
    else:
        assert len(left.lines) == len(result.history.done)


def test_a_run_without_a_front_is_drawn(tmp_path):
    space = Space(SPACE.parameters, SPACE.costs, limits={"size": "<= -1"})
    result = minimize(values, space, objectives=["loss", "speed"], capital=6, strategy="RandomSearch")
    result.plot().savefig(tmp_path / "front.png")
    assert result.front == []
