"""What is told or continued belongs to the problem: its objectives, its constraints, its candidates."""

import math

import pytest

from mfbo_torch import MFEHVI, MFGPUCB, Journal, Optimizer, Parameter, Space, minimize
from mfbo_torch.space.objectives import objectives_of
from mfbo_torch.utils.errors import SettingError

LINE = Space([Parameter("x", 0.0, 1.0)], costs=[1, 10])


def both(x, fidelity):
    return {"a": x - 5, "b": (x - 0.8) ** 2}


@pytest.mark.parametrize("first", [["a", "b"], ["a"]])
def test_a_journal_of_other_objectives_is_refused(tmp_path, first):
    with Journal(tmp_path / "j.sqlite") as journal:
        minimize(both, LINE, 12, journal=journal, objectives=first, strategy="RandomSearch")
        with pytest.raises(SettingError, match=f"objectives? {', '.join(first)}"):
            minimize(both, LINE, 24, journal=journal, objectives=["b"], strategy="RandomSearch")
        minimize(both, LINE, 24, journal=journal, objectives=first, strategy="RandomSearch")


def test_a_known_objective_changes_nothing_of_what_is_evaluated():
    seen = []

    def weights(parameters):
        parameters["x"] *= 4
        return parameters["x"]

    def loss(parameters, fidelity):
        seen.append(parameters["x"])
        return {"loss": parameters["x"]}

    minimize(loss, LINE, 30, objectives={"loss": "minimize", "weights": weights}, strategy="RandomSearch")
    assert max(seen) <= 1


def test_a_known_objective_need_not_have_values_outside_of_the_constraints():
    space = Space([Parameter("x", 0, 1), Parameter("y", 0, 1)], costs=[1], constraints=("x + y <= 0.7",))

    def room(parameters):
        return math.log(0.71 - parameters["x"] - parameters["y"])

    goals = {"loss": "minimize", "room": room}
    found = minimize(lambda x, y: {"loss": x * x}, space, 4, objectives=goals, strategy="RandomSearch")
    assert len(found.history) == 4


def test_named_designs_keep_the_constraints():
    space = Space([Parameter("x", 0, 1), Parameter("y", 0, 1)], costs=[1], constraints=("x + y <= 1",))
    optimizer = Optimizer(MFGPUCB(space=space))
    for call in (lambda x: optimizer.add(x, 0, 1.8), optimizer.enqueue):
        with pytest.raises(SettingError, match=r"within the constraints: x \+ y <= 1"):
            call({"x": 0.9, "y": 0.9})
        call({"x": 0.4, "y": 0.5})
    finite = Optimizer(MFGPUCB(space=Space.finite([[0, 2], [1, 3], [2, 5]], costs=[1, 10])))
    with pytest.raises(SettingError, match="one of the 3 candidates"):
        finite.enqueue({"x1": 0.5, "x2": 2.5})
    assert finite.enqueue({"x1": 1, "x2": 3}).query.x == (1, 3)


def test_added_values_of_several_objectives_are_in_range_and_have_errors_each():
    goals = objectives_of({"loss": "minimize", "speed": "maximize"})
    optimizer = Optimizer(MFEHVI(space=Space([Parameter("x", 0, 1)], costs=[1, 10], objectives=goals)))
    with pytest.raises(SettingError, match="speed"):
        optimizer.add({"x": 0.5}, 1, {"loss": 1, "speed": 1e160})
    with pytest.raises(SettingError, match=r"given with each objective, as in \{\"loss\": \(0.5, 0.1\)\}"):
        optimizer.add({"x": 0.5}, 1, {"loss": 1, "speed": 2}, standard_error=0.1)
    record = optimizer.add({"x": 0.5}, 1, {"loss": (1, 0.1), "speed": (2, 0.2)})
    assert [record.outcomes[name].standard_error for name in ("loss", "speed")] == [0.1, 0.2]


@pytest.mark.parametrize("last", [99, 100, 101])
def test_reports_count_as_epochs_only_where_the_run_has_epochs(last):
    space = Space([Parameter("rate", 0.0, 1.0)], fidelities={"images": [100, 1000]})

    def training(rate, images, trial):
        for step in range(last + 1):
            trial.report(step, 50.0)
        return rate

    found = minimize(training, space, 2200, strategy="RandomSearch")
    assert all(-record.value == pytest.approx(record.query.x[0]) for record in found.history)


def test_what_a_training_returns_beside_its_value_is_kept():
    space = Space([Parameter("rate", 0.0, 1.0)], fidelities={"epochs": [3, 9]}, continues=True)

    def training(rate, epochs, trial):
        for epoch in trial.epochs():
            (trial.folder / "state").write_text(str(epoch))
            trial.report(1 / epoch)
        return {"value": 1 / epochs, "standard_error": 0.1}

    found = minimize(training, space, 30)
    assert {record.standard_error for record in found.history} == {0.1}

    def two(rate, epochs, trial):
        return {"a": training(rate, epochs, trial)["value"], "b": rate}

    assert not [r.reason for r in minimize(two, space, 30, objectives=["a", "b"]).history if r.reason]


def test_a_result_explains_its_queries():
    found = minimize(lambda x, fidelity: (x - 0.3) ** 2 + 1, LINE, 45)
    record = found.history.records[-1]
    assert found.explain(record) == found.explain(record.id)
    assert f"{found.problem.signed(record.value):.5g}"[:5] in found.explain(record)
    with pytest.raises(SettingError, match="query = 999: must be a whole number from 0 to"):
        found.explain(999)


@pytest.mark.parametrize("later", [["b", "a"], ["c", "a", "b"]])
def test_choices_in_another_order_are_not_taken_for_each_other(tmp_path, later):
    def worth(kind, x):
        return x + ord(kind[0])

    with Journal(tmp_path / "j.sqlite") as journal:
        minimize(worth, {"kind": ["a", "b"], "x": (0, 1)}, 4, journal=journal, strategy="RandomSearch")
        with pytest.raises(SettingError, match="choices of its own kind begin with a, b"):
            minimize(worth, {"kind": later, "x": (0, 1)}, 8, journal=journal, strategy="RandomSearch")
        minimize(worth, {"kind": ["a", "b", "c"], "x": (0, 1)}, 8, journal=journal, strategy="RandomSearch")


def test_a_journal_of_ask_and_tell_knows_its_parameters(tmp_path):
    def asked(*names):
        return Space([Parameter(name, 0.0, 1.0) for name in names], costs=[1])

    with Journal(tmp_path / "j.sqlite") as journal:
        optimizer = Optimizer("RandomSearch", journal, problem=asked("x", "y"))
        optimizer.tell(optimizer.ask()[0].id, 1.0)
        for names in (("y", "x"), ("x", "z")):
            with pytest.raises(SettingError, match="its own has x, y"):
                Optimizer("RandomSearch", journal, problem=asked(*names))
        assert len(Optimizer("RandomSearch", journal, problem=asked("x", "y")).history) == 1
        minimize(lambda x, y: x + y, asked("x", "y"), 3, journal=journal, strategy="RandomSearch")


def test_a_note_without_its_journal_binds_nobody(tmp_path):
    for name in ("x", "z"):
        with Journal(tmp_path / "j.sqlite") as journal:
            Optimizer("RandomSearch", journal, problem=Space([Parameter(name, 0.0, 1.0)], costs=[1])).ask()
        for file in tmp_path.glob("j.sqlite*"):
            file.unlink()
