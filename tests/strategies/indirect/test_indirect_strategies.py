"""The strategies for indirect queries: trees by hand, decisions by brute force, models by their own means."""

import itertools
import math
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from botorch.exceptions import BotorchWarning
from refusals import refused
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from strategy_table import loop, step
from windows import Windows, noisy_information, posterior

from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.app.cli import main
from mfbo_torch.app.compare import plan
from mfbo_torch.app.schema import COMPARE, RUN, settings_of_command
from mfbo_torch.history import History, Query, Recommendation
from mfbo_torch.loop.runner import run
from mfbo_torch.models import DeconditionalGP, GaussianConditional, PolicyConditional, UniformConditional
from mfbo_torch.models.indirect.unit_conditionals import conditional_of
from mfbo_torch.problems import IndirectBandit, IndirectBranin, ShiftedPeak
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.cells import Cut, Node
from mfbo_torch.space.indirect import IndirectSpace, Policy, Samples, Window
from mfbo_torch.strategies import CMES, CMETS, QueryEI, QueryMES, QueryUCB, ShrinkingWindow
from mfbo_torch.strategies.indirect.base import recommendations
from mfbo_torch.strategies.indirect.cmets import fold
from mfbo_torch.strategies.indirect.shrinking_window import window_variance

SQUARE = (Parameter("a", 0.0, 2.0), Parameter("b", 0.0, 2.0))


def grid(n=5):
    side = torch.linspace(0, 1, n, dtype=torch.double)
    return torch.cartesian_prod(side, side)


def windows(costs=(1.0,), **settings):
    """Windows on the square, whose inputs are the queries."""
    feedback = Window([0.4 / (m + 1) for m in range(len(costs))])
    return IndirectSpace(SQUARE, costs, **{"inputs": 2 * grid(), "feedback": feedback, **settings})


def hill(query):
    return -sum((x - 0.6) ** 2 for x in query.x)


def history(space, n=4):
    drawn = 2 * torch.rand(n, 2, generator=torch.Generator().manual_seed(3), dtype=torch.double)
    found = History()
    for i, x in enumerate(drawn.tolist()):
        query = Query(tuple(x), i % space.num_fidelities, {"stage": "initial" if i == 0 else "model", "index": i})
        found = step(found, query, space, hill(query))
    return found


def observed(strategy, found):
    """The windows that were asked, on the unit square, and their values in the units of the strategy's model."""
    model, shift, scale = strategy.model(strategy.snapshot(found))
    centres = np.array([r.query.x for r in found.done]) / 2
    widths = 0.2 / (1 + np.array([r.query.fidelity for r in found.done]))
    return model, Windows(centres, widths), (np.array([r.value for r in found.done]) - shift) / scale


def by_hand(strategy, found, U, fidelities):
    """The information of windows on the unit square about the strategy's own samples of the maximum."""
    maxima = strategy.information(strategy.snapshot(found), strategy.generator(found)).max_values.numpy().ravel()
    mean, variance, noise = posterior(*observed(strategy, found), Windows(U, 0.2 / (1 + fidelities)))
    if strategy.form == "noisy":
        return noisy_information(mean, variance, noise, maxima)
    gamma = (maxima[:, None] - mean) / np.sqrt(variance)
    return (gamma * norm.pdf(gamma) / (2 * norm.cdf(gamma)) - norm.logcdf(gamma)).mean(0)


def node(height, *index):
    return Node(height, index)


def test_a_tree_by_hand():
    """Algorithm 1 in one dimension, to height 3."""
    tree = fold([], Cut(1), 3)
    assert tree.leaves == {node(0, 0)}
    assert tree.ahead == {node(1, 0), node(1, 1)}
    tree = tree.queried(node(1, 1))  # ahead: it replaces its parent
    assert tree.leaves == {node(2, 2), node(2, 3)}
    assert tree.ahead == {node(1, 0), node(3, 4), node(3, 5), node(3, 6), node(3, 7)}
    tree = tree.queried(node(2, 2))  # a leaf
    assert tree.leaves == {node(2, 3), node(3, 4), node(3, 5)}
    assert tree.ahead == {node(1, 0), node(3, 6), node(3, 7)}
    tree = tree.queried(node(3, 6))  # ahead, at the greatest height: its parent leaves, it has no children
    assert tree.leaves == {node(3, 4), node(3, 5)}
    assert tree.ahead == {node(1, 0), node(3, 7)}
    tree = tree.queried(node(1, 0))
    assert tree.leaves == {node(2, 0), node(2, 1), node(3, 4), node(3, 5)}
    assert tree.active == sorted(tree.leaves | tree.ahead)
    assert fold([node(1, 1), node(2, 2), node(3, 6), node(1, 0)], Cut(1), 3) == tree
    assert fold([node(3, 1), node(1, 1)], Cut(1), 3) == fold([], Cut(1), 3).queried(node(1, 1))  # no active node


def by_the_letter(nodes, highest):
    """Lines 5 to 16 of Algorithm 1 in one dimension."""

    def children(i):
        return {node(i.height + 1, 2 * i.index[0] + side) for side in (0, 1)} if i.height < highest else set()

    leaves = {node(0, 0)}
    ahead = children(node(0, 0))
    for a in nodes:
        if a in ahead:
            parent = {node(a.height - 1, a.index[0] // 2)} if a.height else set()
            leaves = (leaves - parent) | children(a)
            ahead = ahead - {a}
        else:
            leaves = (leaves - {a}) | children(a)
        for i in leaves:
            ahead = ahead | children(i)
    return leaves, ahead


def test_a_tree_by_the_letter():
    """Any walk through active nodes; some are queried again."""
    repeated = 0
    for seed in range(20):
        draws, walked = random.Random(seed), []
        for _ in range(12):
            tree = fold(walked, Cut(1), 3, strict=True)
            leaves, ahead = by_the_letter(walked, 3)
            assert (tree.leaves, tree.ahead) == (leaves, ahead)
            if not tree.active:
                break
            walked.append(draws.choice(tree.active))
        repeated += len(walked) > len(set(walked))
    assert repeated > 5


@pytest.mark.parametrize("strict", [True, False])
def test_a_strict_tree_search_may_ask_again(strict):
    """The root is a leaf; its child is then a leaf and ahead."""
    strategy = CMETS(space=windows((1.0, 1.1, 1.2)), strict=strict)
    again, found = node(1, 0, 0), History()
    for one in (node(0, 0, 0), again):
        query = Query((0.5, 0.5), one.height, {"node": list(one.index)})
        found = found.asked(query, 1.0)
        found = found.updated(found.records[-1].done(1.0))
    snapshot = strategy.snapshot(found)
    assert (again in strategy.tree(snapshot).active) == strict
    u = strategy.space.to_unit(torch.tensor(query.x, dtype=torch.double))
    asked = strategy._at_once(u, again.height, snapshot, snapshot.generator(0), node=list(again.index))
    assert (asked.x == query.x) == strict


def test_cells_halve():
    cut = Cut.into(None, 2)
    assert cut.centre(node(0, 0, 0)) == (0.5, 0.5)
    children = cut.below(node(1, 0, 1), 4)
    centres = [cut.centre(child) for child in children]
    assert centres == [(0.125, 0.625), (0.125, 0.875), (0.375, 0.625), (0.375, 0.875)]
    assert all(cut.parent(child) == node(1, 0, 1) for child in children)
    assert cut.below(node(2, 0, 0), 2) == []
    assert Cut.into(4, 2) == cut


@pytest.mark.parametrize(
    ("children", "dim", "counts"),
    [
        (2, 2, [(1, 1), (2, 1), (2, 2), (4, 2), (4, 4)]),  # one side after another
        (3, 2, [(1, 1), (3, 1), (3, 3), (9, 3)]),
        (9, 2, [(1, 1), (3, 3), (9, 9)]),  # a square: thirds of both sides
        (6, 2, [(1, 1), (6, 1), (6, 6)]),
        (3, 1, [(1,), (3,), (9,)]),
        (2, 9, [(1,) * 9, (2, *(1,) * 8), (2, 2, *(1,) * 7)]),
    ],
)
def test_any_number_of_children(children, dim, counts):
    cut, root = Cut.into(children, dim), node(0, *(0,) * dim)
    assert cut.children == children
    assert [cut.counts(height) for height in range(len(counts))] == counts
    cells = [root]
    for height in range(1, len(counts)):
        below = [cut.below(cell, 9) for cell in cells]
        assert all(len(group) == children for group in below)
        assert all(cut.parent(child) == cell for cell, group in zip(cells, below, strict=True) for child in group)
        cells = [child for group in below for child in group]
        centres = torch.tensor([cut.centre(cell) for cell in cells], dtype=torch.double)
        assert cut.cells(centres, height).tolist() == [list(cell.index) for cell in cells]
        assert len(set(cells)) == math.prod(counts[height])
    assert cut.cells(torch.ones(1, dim, dtype=torch.double), 1).tolist() == [[n - 1 for n in counts[1]]]


def test_cmets_asks_of_a_cell_the_choice_nearest_to_its_centre():
    drawn = 2 * torch.rand(7, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    strategy, seen = CMETS(space=windows((1.0, 2.0, 4.0), choices=drawn)), set()
    for r in loop(strategy, hill, 5):
        height, index = r.query.fidelity, r.query.meta["node"]
        side = 2 / 2**height
        low = side * torch.tensor(index)
        inside = drawn[((low <= drawn) & (drawn <= low + side)).all(-1)].tolist()
        middle = [(i + 0.5) * side for i in index]
        assert r.query.x == pytest.approx(min(inside, key=lambda x: math.dist(x, middle)))
        seen.add((r.query.x, height))
    assert len(seen) == 5


def test_cmets_goes_on_where_all_cells_or_choices_are_asked():
    found = loop(CMETS(space=windows((1.0,))), hill, 4)
    assert [r.query.meta["stage"] for r in found] == ["model", "random", "random", "random"]
    assert len({r.query.x for r in found}) == 4
    found = loop(CMETS(space=windows((1.0,), choices=2 * grid(2))), hill, 3)
    assert [r.query.meta["stage"] for r in found] == ["model", "random", "random"]
    assert {r.query.x for r in found} <= {tuple(x) for x in (2 * grid(2)).tolist()}


@pytest.mark.parametrize(
    ("children", "cut", "steps"),
    [(None, Cut(2), 8), pytest.param(3, Cut(2, 3, one_side=True), 6, marks=pytest.mark.slow)],
)
def test_cmets_walks_the_tree(children, cut, steps):
    space = windows((1.0, 2.0, 4.0))
    strategy = CMETS(space=space, seed=1, children=children)
    found = loop(strategy, hill, steps)
    nodes = [Node(r.query.fidelity, tuple(r.query.meta["node"])) for r in found]
    for i, asked in enumerate(nodes):
        before = fold(nodes[:i], cut, 2)
        assert asked in before.leaves | before.ahead
        x = space.from_unit(torch.tensor(before.cut.centre(asked), dtype=torch.double))
        assert found.records[i].query.x == pytest.approx(x.tolist())
    assert len(set(nodes)) == steps
    assert strategy.tree(strategy.snapshot(found)) == fold(nodes, cut, 2)
    foreign = step(found, Query((1.0, 1.0), 0), space, 0.0)  # a record from elsewhere is data, no node
    assert strategy.tree(strategy.snapshot(foreign)) == strategy.tree(strategy.snapshot(found))


def test_cmets_asks_what_tells_most_for_its_cost():
    strategy = CMETS(space=windows((1.0, 2.0, 4.0)), sampler="gumbel", num_max_value_samples=20)
    found = loop(strategy, hill, 3)
    active = strategy.tree(strategy.snapshot(found)).active
    heights = np.array([n.height for n in active])
    information = by_hand(strategy, found, np.array([Cut(2).centre(n) for n in active]), heights) / 2.0**heights
    query = strategy.ask(found)[0]
    best = active[information.argmax()]
    assert (query.fidelity, query.meta["node"]) == (best.height, list(best.index))
    assert np.diff(np.sort(information))[-1] > 1e-6  # no tie that rounding decides


@pytest.mark.parametrize("make", [CMES, QueryUCB, QueryEI, QueryMES, CMETS, ShrinkingWindow])
def test_everybody_recommends_the_same(make):
    """The input with the largest posterior mean of f, whoever asked."""
    space = windows((1.0, 2.0))
    best = make(space=space).recommend(history(space))
    assert best == CMES(space=space).recommend(history(space))
    assert isinstance(best, Recommendation)
    assert make(space=space).recommend(History()) is None


def test_the_recommendation_is_the_largest_mean():
    space = windows()
    found, strategy = history(space), CMES(space=space)
    _, shift, scale = strategy.model(strategy.snapshot(found))
    inputs = Windows(space.inputs.numpy() / 2, np.zeros(len(space.inputs)))
    mean, variance, _ = posterior(*observed(strategy, found), inputs)
    best = strategy.recommend(found)
    assert best.x == tuple(space.inputs[mean.argmax()].tolist())
    assert best.mean == pytest.approx(shift + scale * mean.max(), rel=1e-6)
    assert best.deviation == pytest.approx(scale * variance[mean.argmax()] ** 0.5, rel=1e-6)


def test_later_observations_extend_the_factor():
    """Between two fits the model is the fitted one with more data."""
    space = windows(noise_std=(0.1,))
    found = loop(QueryUCB(space=space), hill, 4)
    many = history(space, 22)  # fitted to 20, 22 of them; 21 is between
    strategy = CMES(space=space)
    model, _, scale = strategy.model(strategy.snapshot(History(many.records[:21])))
    fitted = strategy.model(strategy.snapshot(History(many.records[:20]))).model
    assert len(model.train_A) == 21
    assert torch.equal(model.covar_module.base_kernel.lengthscale, fitted.covar_module.base_kernel.lengthscale)
    assert model.train_Zvar[0].item() == pytest.approx((0.1 / scale) ** 2)
    assert len(recommendations(strategy, found)) == 4


@pytest.mark.parametrize("form", ["truncated", "noisy"])
def test_cmes_asks_the_most_informative_choice(form):
    choices = 2 * grid(4)
    space = windows(choices=choices)
    strategy = CMES(space=space, sampler="gumbel", num_max_value_samples=20, form=form, strict=True)
    found = history(space)
    information = by_hand(strategy, found, choices.numpy() / 2, np.zeros(len(choices)))
    query = strategy.ask(found)[0]
    assert query.x == tuple(choices[information.argmax()].tolist())
    assert query.meta["log_information_per_cost"] == pytest.approx(np.log(information.max()), abs=1e-6)
    assert np.diff(np.sort(information))[-1] > 1e-6


@pytest.mark.parametrize("choices", [2 * grid(12), None])
def test_cmes_asks_any_query_that_tells_nearly_as_much_as_the_best(choices):
    """Of a finite space and of a box; which one is drawn by the seed."""
    space = windows(choices=choices, noise_std=(0.1,))
    found, asked = history(space), set()
    for seed in range(8):
        settings = {"space": space, "num_max_value_samples": 20, "seed": seed}
        (best,), (query,) = (CMES(strict=strict, **settings).ask(found) for strict in (True, False))
        told = query.meta["log_information_per_cost"]
        assert best.meta["log_information_per_cost"] + math.log(0.8) <= told <= best.meta["log_information_per_cost"]
        asked.add(query.x)
    assert len(asked) > 2


def test_cmes_looks_for_a_resolution():
    """Where the fine one costs nearly nothing more, it is asked; where it costs a lot, it is not."""
    for costs, wanted in (((1.0, 1.001), 1), ((1.0, 1e6), 0)):
        space = windows(costs)
        assert CMES(space=space, resolutions="all").ask(history(space))[0].fidelity == wanted
        assert CMES(space=space).ask(history(space))[0].fidelity == 1


def test_choices_are_asked_to_the_last_digit():
    parameters = (Parameter("a", -5.0, 10.0), Parameter("b", 0.01, 100.0, log=True))
    choices = 0.02 + 9 * torch.rand(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    space = IndirectSpace(parameters, (1.0,), inputs=choices, feedback=Window([1.0]), choices=choices)
    assert not torch.equal(Space(parameters, (1.0,)).from_unit(space.to_unit(choices)), choices)
    queries = CMES(space=space, initial=6).ask(History(), 6)
    assert {q.x for q in queries} <= set(map(tuple, choices.tolist()))


@pytest.mark.slow
def test_choices_may_be_asked_again_but_not_failed_ones():
    space = windows(choices=torch.tensor([[0.5, 0.5], [1.5, 1.5]], dtype=torch.double))
    for make in (CMES, QueryUCB, QueryMES):
        strategy = make(space=space)
        found = loop(strategy, hill, 6)
        assert {r.query.x for r in found} <= {(0.5, 0.5), (1.5, 1.5)}
        failed = found.records[-1].query
        for _ in range(2):
            found = step(found, failed, space, None)
            assert strategy.ask(found)[0].x != failed.x


def test_windows_shrink_as_theorem_2_says():
    for d in (1, 2, 4):
        ratios = [window_variance(t, d) for t in range(1, 2000)]
        assert ratios[0] == 1
        assert all(a >= b for a, b in itertools.pairwise(ratios))
        t, peak = 1999, math.e**d
        assert ratios[-1] == pytest.approx(t**-0.5 * math.log(t) ** (d / 2) / (peak**-0.5 * d ** (d / 2)))
    refused("t = 0", window_variance, 0, 2)


def test_shrinking_window_follows_the_schedule():
    space = windows((1.0, 2.0, 3.0))
    strategy = ShrinkingWindow(space=space, initial=2)
    found = loop(strategy, hill, 5)
    expected = [strategy.resolution(t) for t in range(1, 6)]
    assert [r.query.fidelity for r in found] == expected
    assert strategy.resolution(10**4) == 2  # the finest, however small the window should be
    assert expected[0] == 0
    inputs = Windows(space.inputs.numpy() / 2, np.zeros(len(space.inputs)))
    mean, variance, _ = posterior(*observed(strategy, found), inputs)
    t = 1 + sum(r.decided for r in found)
    wanted = 2 * math.log(len(space.inputs) * math.pi**2 * t**2 / 6 / 0.2)
    assert ShrinkingWindow(space=space, beta="theory", delta=0.2).ask(found)[0].meta["beta"] == pytest.approx(wanted)
    query = ShrinkingWindow(space=space, beta=4.0).ask(found)[0]
    assert query.x == pytest.approx(space.inputs[(mean + 2 * np.sqrt(variance)).argmax()].tolist())


def test_the_capital_reaches_the_finest_window():
    space = windows((1.0, 2.0, 4.0))
    free, paid = ShrinkingWindow(space=space), ShrinkingWindow(space=space).bind(space, 80.0)
    assert free.resolution(10) == 1
    assert paid.rate() == pytest.approx(2 * math.log(3) / math.log(10))
    assert [paid.resolution(t) for t in (1, 4, 5, 10)] == [0, 1, 2, 2]
    assert ShrinkingWindow(space=space).bind(space, 10.0**9).resolution(10**4) == free.resolution(10**4)


def test_conditionals_in_the_users_units():
    """Everything a space may say, against a conditional on the unit cubes made by hand."""
    A = torch.rand(6, 3, dtype=torch.double)
    A[:, 2] = torch.tensor([0, 1, 0, 1, 0, 1])
    space = windows((1.0, 2.0))
    k = DeconditionalGP(A[:2], A[:2, :1], conditional_of(space)).covar_module
    for shape, kind in (("gaussian", GaussianConditional), ("uniform", UniformConditional)):
        space = windows((1.0, 2.0), feedback=Window([[0.4, 0.2], 0.2], shape=shape))
        ours = conditional_of(space).covariance(k, A)
        widths = torch.where(A[:, 2:] == 0, torch.tensor([0.2, 0.1]), torch.tensor([0.1, 0.1])).double()
        torch.testing.assert_close(ours, kind(lambda U, widths=widths: widths, lambda U: U[..., :2]).covariance(k, A))
    own = windows((1.0, 2.0), feedback=GaussianConditional(0.4, lambda U: U[..., :2]), inputs=2 * grid())
    raw = GaussianConditional(0.4).covariance(k, 2 * A[:, :2])
    torch.testing.assert_close(conditional_of(own).covariance(k, A), raw)
    assert conditional_of(own).extent(A).shape == (2,)
    assert GaussianConditional(0.1).covariance(k, A[:, :2]).shape == (6, 6)
    U = torch.rand(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    space = IndirectSpace(SQUARE, (1.0,), inputs=[[0.0, -5.0], [10.0, 5.0]], feedback=Samples(10 * U - 5, 2 * U))
    conditional = conditional_of(space)
    torch.testing.assert_close(conditional.queries, U)
    torch.testing.assert_close(conditional.points, torch.stack([U[:, 0] - 0.5, U[:, 1]], -1))


def test_queries_that_no_sample_is_near_are_told():
    X = torch.rand(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    corner = Samples(X, torch.cat([0.1 * X, torch.zeros(60, 1).double()], -1))  # and nothing of fidelity 1
    space = windows((1.0, 2.0), inputs=grid(), feedback=corner)
    with pytest.warns(BotorchWarning, match=r"of the queries; the effective sample size of \[.*\] at fidelity \d is 0"):
        CMES(space=space).conditional()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CMES(space=IndirectBranin(num_samples=200, resolutions=2).space).conditional()


def test_policies_in_the_users_units():
    arms, A = grid(2), 2 * torch.rand(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    classifier = LogisticRegression().fit(A.numpy(), torch.arange(40).remainder(4).numpy())

    def probabilities(A):
        return torch.from_numpy(classifier.predict_proba(A.reshape(-1, 2).numpy())).reshape(*A.shape[:-1], 4)

    k = DeconditionalGP(A[:2], A[:2, :1], PolicyConditional(probabilities, arms)).covar_module
    expected = PolicyConditional(probabilities, arms).covariance(k, A)
    for given in (classifier, probabilities):
        space = IndirectSpace(SQUARE, (1.0,), inputs=3 * arms, feedback=Policy(given))
        torch.testing.assert_close(conditional_of(space).covariance(k, A / 2), expected)


@pytest.mark.slow
def test_the_best_arm_is_found():
    """The ordinary loop: agents are asked, an arm is recommended."""
    problem, strategy = IndirectBandit(num_arms=5, noise=0.02, num_samples=3000), CMES()
    best = strategy.bind(problem.space).recommend(run(problem, strategy, 20, progress=False))
    assert problem.latent(torch.tensor([best.x], dtype=torch.double)).item() == problem.latent_optimum


def test_the_peak_of_the_averages_is_not_recommended():
    """Wide averages are largest at the broad peak; with narrow ones the model knows better."""
    problem = ShiftedPeak((0.3, 0.1), noise=0.005)
    found = History()
    for fidelity in (0, 1):
        for x in torch.linspace(-2.8, 2.8, 29).tolist():
            found = step(found, Query((x,), fidelity), problem.space, problem.observe([x], fidelity, len(found)))
    assert found.best(0).query.x[0] == pytest.approx(-1.0, abs=0.3)
    assert CMES(space=problem.space).recommend(found).x[0] == pytest.approx(1.5, abs=0.05)


def test_regrets_are_those_of_definitions_1_and_2():
    problem = ShiftedPeak((0.3, 0.1), noise=0.0)
    found = History()
    for x in ([-1.0], [1.5], [0.5]):
        found = step(found, Query(tuple(x), 0), problem.space, problem.reward(x, 0))
    found = step(found, Query((1.5,), 1), problem.space, None)
    advised = recommendations(CMES(space=problem.space), found)
    simple, instant = problem.regrets(found, advised)
    f = [problem.latent(torch.tensor([best.x], dtype=torch.double)).item() for best in advised]
    assert simple.tolist() == pytest.approx([problem.latent_optimum - max(f[: t + 1]) for t in range(4)])
    assert instant.tolist() == pytest.approx([problem.latent_optimum - found.records[0].value] * 4)
    assert [len(part) for part in problem.regrets(History(), [])] == [0, 0]


FOLDER = Path(__file__).parents[3] / "configs" / "indirect"
COMPARISON = FOLDER / "compare.yaml"
CONFIGS = sorted(set(FOLDER.glob("*.yaml")) - {COMPARISON})


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configurations_that_come_with_it(path):
    settings = resolve_run(settings_of_command(RUN, [str(path)]))
    problem, strategy = build(settings)
    query = strategy.bind(problem.space, settings["capital"]).ask(History())[0]
    assert settings["out"] == f"runs/{path.stem}"
    assert isinstance(problem.reward(query.x, query.fidelity), float)


def test_the_comparison_that_comes_with_it():
    _, jobs = plan(settings_of_command(COMPARE, [str(COMPARISON)]))
    expected = itertools.product(("IndirectBranin", "IndirectBranin 2"), ("CMES", "MES", "UCB", "EI"))
    assert {(job.problem, job.strategy) for job in jobs} == set(expected)
    assert all(isinstance(build(job.settings)[0], IndirectBranin) for job in jobs[:1])


def test_the_command_line_recommends_an_input(tmp_path, capsys):
    path = next(path for path in CONFIGS if path.stem == "bandit")
    assert main(["run", str(path), "--capital", "3", "--out", str(tmp_path / "run")]) == 0
    assert "Recommended   x1 = " in capsys.readouterr().out


def test_one_strategy_on_two_problems():
    """Their spaces are equal; what queries average over is not."""
    first, second = (IndirectBranin(kind, num_samples=60) for kind in ("linear", "nonlinear"))
    used = CMES(num_max_value_samples=2)
    assert used.bind(first.space).conditional() is not used.bind(second.space).conditional()


def test_a_capital_below_the_finest_resolution():
    problem = IndirectBranin(resolutions=3, known=True)
    history = run(problem, CMES(resolutions="all"), 1.2, progress=False)
    assert [record.query.fidelity for record in history] == [1]
