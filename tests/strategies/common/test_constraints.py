"""Linear constraints of a space: every strategy keeps to them, or says that it does not."""

import copy
import pickle

import pytest
import torch
from botorch.optim.parameter_constraints import evaluate_feasibility
from refusals import refused
from strategy_table import PLAIN_ROWS, SPACE, each, loop, toy

from mfbo_torch import MFGPUCB
from mfbo_torch.history import History, Query
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.strategies.common.deduplicate import clear, distinct
from mfbo_torch.strategies.common.initial_design import MOST_DRAWS, allowed, sobol

PARAMETERS = (Parameter("width", -5.0, 10.0), Parameter("k", 0, 8, integer=True), Parameter("rate", 0.01, 1, log=True))
TRIANGLE = Space(PARAMETERS, (1.0, 4.0), constraints=(((1.0, 2.0, 0.0), 3.0), ((-1.0, 0.0, 0.0), 3.0)))


def meets(x) -> bool:
    return x[0] + 2 * x[1] <= 3 + 1e-8 and -x[0] <= 3 + 1e-8


def test_allows_and_inequalities():
    U = torch.rand(500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    X = TRIANGLE.from_unit(U).tolist()
    assert TRIANGLE.allows(U).tolist() == [meets(x) for x in X]
    relaxed = Space(tuple(Parameter(p.name, p.lower, p.upper) for p in PARAMETERS[:2]), (1.0,), False, (((1, 2), 3),))
    feasible = evaluate_feasibility(U[:, :2].unsqueeze(-2), relaxed.inequalities).view(-1)
    assert feasible.tolist() == relaxed.allows(U[:, :2]).tolist()
    assert SPACE.inequalities is None
    assert SPACE.allows(U[:, :2]).all()
    assert pickle.loads(pickle.dumps(TRIANGLE)) == copy.deepcopy(TRIANGLE) == TRIANGLE


@pytest.mark.parametrize("row", each(PLAIN_ROWS))
def test_every_strategy_keeps_to_them(row):
    history = loop(row.make(0).bind(TRIANGLE, row.capital), toy(TRIANGLE), 5 if row.steps > 5 else 4)
    assert all(meets(record.query.x) for record in history)


def test_the_initial_design_is_the_allowed_part_of_the_usual_one():
    queries = MFGPUCB(space=TRIANGLE, seed=4).ask(History(), 4)
    rows = sobol(3, 64, 4)
    wanted = TRIANGLE.from_unit(rows[TRIANGLE.allows(rows)][:4]).tolist()
    assert [list(query.x) for query in queries] == [pytest.approx(x) for x in wanted]


def test_an_optimum_on_the_boundary_is_found():
    space = Space((PARAMETERS[0], Parameter("y", 0.0, 8.0)), (1.0, 4.0), constraints=(((1.0, 2.0), 3.0),))
    history = loop(MFGPUCB(initial_capital=2.0, hedge=False, space=space), lambda q: q.x[0] + 3 * q.x[1], 12)
    assert max(record.value for record in history) == pytest.approx(-5 + 3 * 4, abs=0.05)


class Centre(RandomSearch):
    """Asks the middle, allowed or not."""

    def decide(self, history: History) -> Query:
        return self.query(torch.full((self.space.dim,), 0.5), 0)


def test_a_strategy_that_does_not_keep_to_them_says_so():
    refused(r"constraints = .*none: Centre does not keep to them", Centre(space=TRIANGLE).ask, History())
    assert Centre(space=SPACE).ask(History())


def test_a_region_that_is_too_small_is_named():
    narrow = Space(PARAMETERS, (1.0, 4.0), constraints=(((1.0, 0.0, 0.0), -5.0 - 1e-9),))
    refused(f"0 of {MOST_DRAWS:,} random designs", RandomSearch(space=narrow).ask, History())
    assert len(allowed(lambda n: sobol(3, n, 0), 5, TRIANGLE)) == 5


def test_distinct_leaves_a_forbidden_design():
    generator = torch.Generator().manual_seed(0)
    u, taken = torch.tensor([0.9, 0.9], dtype=torch.double), torch.zeros(0, 2, dtype=torch.double)
    allows = lambda points: points.sum(-1) <= 1.0  # noqa: E731
    found, is_clear = distinct(u, taken, torch.zeros(0), generator, allows=allows)
    assert is_clear
    assert found.sum() <= 1.0


def test_a_design_far_from_a_small_region_is_moved_into_it():
    unit = (Parameter("x", 0.0, 1.0), Parameter("y", 0.0, 1.0))
    sides = [((1.0, 0.0), 0.51), ((-1.0, 0.0), -0.49), ((0.0, 1.0), 0.51), ((0.0, -1.0), -0.49)]
    space = Space(unit, (1.0,), constraints=tuple(sides))
    snapshot, generator = RandomSearch(space=space).snapshot(History()), torch.Generator().manual_seed(0)
    assert (clear(torch.ones(1, 2, dtype=torch.double), 0, snapshot, generator) - 0.5).abs().max() <= 0.01 + 1e-9


class Forgetful(RandomSearch):
    """Does not keep what it was made with."""

    def __init__(self, width, **settings):
        super().__init__(**settings)


def test_settings_make_another_one():
    strategy = MFGPUCB(link="independent", seed=3, beta=2.0)
    assert strategy.settings == {"link": "independent", "seed": 3, "beta": 2.0}
    assert type(strategy)(**strategy.settings).bind(SPACE).ask(History()) == strategy.bind(SPACE).ask(History())
    assert strategy.bind(SPACE, 3.0).settings == strategy.settings
    assert RandomSearch(seed=5).settings["seed"] == 5
    said = "^width = 'not kept': must be an attribute of Forgetful, as in self.width"
    refused(said, lambda: Forgetful(3).settings)
