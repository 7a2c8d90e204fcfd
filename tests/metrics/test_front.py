"""Fronts, reference points and hypervolumes against dense code."""

import pytest
import torch
from botorch.utils.multi_objective.hypervolume import Hypervolume

from mfbo_torch.history import History, Observation, Query
from mfbo_torch.metrics.front import POINTS, front, hypervolume, hypervolumes, knee, objective_values, reference_point
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.objectives import Objective

GOALS = (Objective("loss"), Objective("speed", maximize=True))


def space(objectives=GOALS, **settings):
    return Space([Parameter("x", 0, 1)], costs=[1, 4], objectives=objectives, **settings)


def history_of(rows, where):
    """A history of pairs of a fidelity and the values of the objectives."""
    history = History()
    for i, (fidelity, *values) in enumerate(rows):
        history = history.asked(Query((i / len(rows),), fidelity), where.costs[fidelity])
        named = {one.name: value for one, value in zip(where.objectives, values, strict=True)}
        first = where.objectives[0].signed(values[0])
        history = history.updated(history.records[-1].observed(Observation(first, None, named).judged(where.outcomes)))
    return history


def test_a_front_has_what_nothing_dominates():
    where = space()
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(40, 2, generator=generator).tolist()
    rows = [(i % 4 > 0, *pair) for i, pair in enumerate(values)]
    history = history_of([(int(m), *pair) for m, *pair in rows], where)
    target = [(i, loss, speed) for i, (m, loss, speed) in enumerate(rows) if m]
    wanted = [
        (loss, i)
        for i, loss, speed in target
        if not any(less <= loss and more >= speed and (less, more) != (loss, speed) for _, less, more in target)
    ]
    assert [record.id for record in front(history, where)] == [i for _, i in sorted(wanted)]


def test_equal_values_count_once_and_limits_are_kept():
    where = space(limits={"loss": "<= 0.5"})
    history = history_of([(1, 0.4, 1.0), (1, 0.4, 1.0), (1, 0.6, 9.0), (0, 0.0, 9.0)], where)
    assert [record.id for record in front(history, where)] == [0]
    assert front(History(), where) == []


@pytest.mark.parametrize("size", [2, 3])
def test_a_hypervolume_is_a_share_of_points(size):
    generator = torch.Generator().manual_seed(size)
    Y, points = torch.rand(8, size, generator=generator).double(), torch.rand(200_000, size, generator=generator)
    below = (Y.unsqueeze(1) >= points).all(-1).any(0).double().mean()
    assert hypervolume(Y, torch.zeros(size).double()) == pytest.approx(below.item(), abs=0.005)
    assert hypervolume(Y, torch.ones(size).double()) == 0.0


@pytest.mark.parametrize("size", [5, 6])
def test_a_hypervolume_of_many_objectives_is_estimated(size):
    """Beside the exact one, which is slow: within three standard errors of so many points."""
    where = space([Objective(f"o{k}", maximize=True) for k in range(size)])
    Y = torch.rand(12, size, generator=torch.Generator().manual_seed(size), dtype=torch.double)
    reference = torch.full((size,), -0.2, dtype=torch.double)
    history = history_of([(int(i % 3 > 0), *row) for i, row in enumerate(Y.tolist())], where)
    exact, found = [], hypervolumes(history, where, reference)
    for i in range(12):
        rows = [k for k in range(i + 1) if k % 3]
        exact.append(Hypervolume(reference).compute(Y[rows]) if rows else 0.0)
    box = (Y[[k for k in range(12) if k % 3]].amax(0) - reference).prod().item()
    assert found.tolist() == pytest.approx(exact, abs=1.5 * box / POINTS**0.5)
    assert hypervolume(Y, reference) == pytest.approx(Hypervolume(reference).compute(Y), abs=1.5 * box / POINTS**0.5)
    assert (found.diff() >= 0).all()
    assert hypervolume(Y, torch.ones(size).double()) == 0.0
    assert hypervolumes(History(), where, reference).tolist() == []


def test_hypervolumes_grow_record_by_record():
    where, reference = space(), torch.tensor([-1.0, 0.0]).double()
    history = history_of([(1, 0.5, 1.0), (0, 0.0, 9.0), (1, 0.6, 0.9), (1, 0.2, 0.5), (1, 0.1, 1.5)], where)
    found = hypervolumes(history, where, reference)
    target = [history.records[i] for i in (0, 2, 3, 4)]
    wanted = [hypervolume(objective_values(target[:n], GOALS), reference) for n in (1, 1, 2, 3, 4)]
    assert found.tolist() == pytest.approx(wanted)


def test_a_reference_point_is_found_or_given():
    Y = torch.tensor([[0.0, 1.0], [1.0, 0.0], [-5.0, -5.0]]).double()
    assert reference_point(space(), Y).tolist() == pytest.approx([-0.1, -0.1])
    given = (Objective("loss", reference=2.0), Objective("speed", True))
    assert reference_point(space(given), Y).tolist() == pytest.approx([-2.0, -0.1])
    limited = space(limits={"loss": "<= 0.3", "speed": ">= 0.2"})
    assert reference_point(limited, Y).tolist() == pytest.approx([-0.3, 0.2])
    alone = reference_point(space(), torch.tensor([[3.0, 0.0]]).double())
    assert alone.tolist() == pytest.approx([2.7, -0.1])
    far = reference_point(space(given), Y, torch.tensor([-9.0, -0.3]).double())
    assert far.tolist() == pytest.approx([-2.0, -0.3])


def test_a_knee_is_nearest_to_the_best_of_each():
    assert knee(torch.tensor([[0.0, 10.0], [0.8, 8.0], [1.0, 0.0]]).double()) == 1
