"""The pictures of fronts show every design, and hypervolumes as they were computed."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

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


@pytest.mark.parametrize("first", ["minimize", "maximize"])
@pytest.mark.parametrize("second", ["minimize", "maximize"])
def test_the_line_of_a_front_is_what_was_reached(first, second):
    """At each value of the first objective the best of the second among designs that are at least as good."""
    signs = [1 if way == "minimize" else -1 for way in (first, second)]

    def signed(parameters, fidelity):
        found = values(parameters, fidelity)
        return {"loss": signs[0] * found["loss"], "speed": signs[1] * found["speed"], "size": 0.0}

    directions = {"loss": first, "speed": second}
    result = minimize(signed, SPACE, objectives=directions, capital=24, strategy="RandomSearch")
    (line,) = (line for line in result.plot().axes[0].lines if "steps" in line.get_drawstyle())
    x, y = line.get_xdata(), line.get_ydata()
    assert len(x) == len(result.front) > 2
    for i, middle in enumerate((x[1:] + x[:-1]) / 2):
        reached = [
            signs[1] * one.values["speed"] for one in result.front if signs[0] * (one.values["loss"] - middle) <= 0
        ]
        assert signs[1] * y[i + ("pre" in line.get_drawstyle())] == min(reached)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_no_label_lies_on_a_design(signs):
    """Also where designs that are a little worse than each one of the front surround it."""
    front = [(0.0, 1.0), (0.3, 0.3), (1.0, 0.0)]
    near = [(a + i / 50, b + j / 50) for a, b in front for i in range(8) for j in range(4)]
    directions = {name: "minimize" if sign > 0 else "maximize" for name, sign in zip("ab", signs, strict=True)}

    def both(n):
        return {name: sign * value for name, sign, value in zip("ab", signs, near[n - 1], strict=True)}

    space = Space([Parameter("n", 1, len(near), integer=True)], costs=[1])
    result = minimize(both, space, objectives=directions, capital=len(near), strategy="RandomSearch")
    assert len(result.front) == 3
    figure = result.plot()
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    places = axes.transData.transform([[r.outcomes[name].value for name in "ab"] for r in result.history.done])
    labels = [text.get_window_extent() for text in axes.texts]
    assert len(labels) == 3
    assert not any(label.contains(*place) for label in labels for place in places)
