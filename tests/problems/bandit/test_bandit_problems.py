"""Bandits with known means, and the choice among classifiers."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from refusals import refused

from mfbo_torch.confidence.concentration import SubGaussian, anytime_width, decays_fast
from mfbo_torch.history import History, Query
from mfbo_torch.problems import ClassifierBandit, MultiFidelityBandit, SyntheticBandit
from mfbo_torch.problems.bandit.bandit import DESIGNS
from mfbo_torch.problems.noise import BLOCK

MEANS, ZETA, COSTS = [[0.5, 0.4], [0.1, 0.3]], [0.2, 0.0], [1, 10]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_four_problems(number):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Assumption 1 holds
        problem = SyntheticBandit(number)
    design = DESIGNS[number]
    assert problem.means.shape == (design.arms, len(design.costs))
    assert (problem.space.costs, problem.space.zeta) == (design.costs, design.zeta)
    off = (problem.means - problem.means[:, -1:]).abs() - torch.tensor(design.zeta, dtype=torch.double)
    assert off.max() <= 1e-12
    assert off[:, 0].max() > -0.02 * design.zeta[0]  # ζ is not idle
    assert torch.equal(problem.means, SyntheticBandit(number).means)
    assert not torch.equal(problem.means, SyntheticBandit(number, seed=1).means)
    if problem.rewards == "bernoulli":
        assert problem.means.min() >= 0
        assert problem.means.max() <= 1
        assert 0.5 < problem.optimum < 1  # as Theorem 4 has it


def test_evaluate_tells_the_mean_and_observe_a_reward():
    problem = MultiFidelityBandit(MEANS, ZETA, COSTS, scale=0.1, trial=3)
    assert problem.evaluate((0,), 0) == 0.5
    assert problem.reward((1.0,), 1) == 0.3
    assert problem.observe((1,), 1, 7) == problem.observe((1.0,), 1, 7) != problem.observe((1,), 1, 8)
    other = MultiFidelityBandit(MEANS, ZETA, COSTS, scale=0.1, trial=4)
    assert problem.observe((1,), 1, 7) != other.observe((1,), 1, 7)
    assert pickle.loads(pickle.dumps(problem)).observe((1,), 1, 7) == problem.observe((1,), 1, 7)


@pytest.mark.parametrize("rewards", ["gaussian", "bernoulli"])
def test_one_stream_seen_play_by_play_or_in_blocks(rewards):
    problem = MultiFidelityBandit(MEANS, ZETA, COSTS, rewards, trial=2)
    noise = torch.cat([problem.noise([1, 2], block)[1] for block in range(2)])
    number = BLOCK + 5
    together = problem.outcome(problem.means[1, 0], noise)
    assert together[[0, 9, number]].tolist() == [problem.observe((1,), 0, n) for n in (0, 9, number)]


@pytest.mark.parametrize(("rewards", "deviation"), [("gaussian", 0.7), ("bernoulli", (0.1 * 0.9) ** 0.5)])
def test_rewards_have_the_mean_and_the_deviation(rewards, deviation):
    problem = MultiFidelityBandit(MEANS, ZETA, COSTS, rewards, 0.7 if rewards == "gaussian" else None)
    seen = problem.outcome(problem.means[1, 0], problem.noise(range(40), 0))
    assert seen.mean().item() == pytest.approx(0.1, abs=5 * deviation / seen.numel() ** 0.5)
    assert seen.std().item() == pytest.approx(deviation, rel=0.03)
    rows = seen - seen.mean()
    assert abs((rows[:-1] * rows[1:]).mean()) < 5 * deviation**2 / seen.numel() ** 0.5  # trials are unrelated


def test_the_target():
    """A play earns the mean there, at any fidelity; it is what a strategy of one fidelity plays at."""
    problem = MultiFidelityBandit(MEANS, ZETA, COSTS)
    history = History().asked(Query((0.0,), 0), 1.0).asked(Query((1.0,), 1), 10.0)
    assert problem.pseudo_rewards(history).tolist() == [0.4, 0.3]
    assert (problem.optimum, problem.worst) == (0.4, 0.3)
    problem = SyntheticBandit(2).at_target()
    assert (problem.space.costs, problem.scale) == ((50,), 1.0)
    assert problem.means[:, 0].tolist() == SyntheticBandit(2).means[:, -1].tolist()


def test_assumption_1():
    tail = SubGaussian(1.0)
    assert decays_fast([1.0, 2**-0.5, 0.5, 2**-1.5, 0.0], tail)
    assert not decays_fast([1.0, 0.9, 0.8, 0.0], tail)
    assert decays_fast([1.0, 0.9, 0.0], tail)  # a sum of one
    assert decays_fast([0.0], tail)
    with pytest.warns(UserWarning, match=r"zeta = \[0.3, 0.28, 0.26, 0.0\] decays slower than Assumption 1"):
        MultiFidelityBandit([[0.5] * 4, [0.3] * 4], [0.3, 0.28, 0.26, 0.0], [1, 2, 3, 4])


def test_widths_that_hold_at_every_count():
    """A walk leaves the band with a probability below δ; a band for one time only would not hold."""
    tail, delta = SubGaussian(1.0), 0.05
    steps = torch.from_numpy(np.random.default_rng(0).standard_normal((2000, 400)))
    counts = torch.arange(1.0, 401.0, dtype=torch.double)
    assert ((steps.cumsum(1) / counts).abs() > anytime_width(counts, 1, tail, delta)).any(1).double().mean() < delta
    assert anytime_width(torch.zeros(2), 3, tail, delta).isinf().all()


BAD = {
    "one arm": (lambda: MultiFidelityBandit([[0.1, 0.1]], ZETA, COSTS), "means = .*at least two arms"),
    "costs": (lambda: MultiFidelityBandit(MEANS, ZETA, [10, 1]), r"costs = \[10, 1\]: must be increasing"),
    "zeta": (lambda: MultiFidelityBandit(MEANS, [0.2, 0.1], COSTS), r"zeta = \[0.2, 0.1\]: must be 2 numbers"),
    "bias": (lambda: MultiFidelityBandit(MEANS, [0.1, 0.0], COSTS), r"means\[1\]\[0\] = 0.1: must be within zeta"),
    "nan": (lambda: MultiFidelityBandit([[float("nan"), 0], [0, 0]], ZETA, COSTS), "means = 'not finite'"),
    "columns": (lambda: MultiFidelityBandit(MEANS, ZETA, [1, 2, 3]), "means = 'a table'.*K x 3 table"),
    "text": (lambda: MultiFidelityBandit("ab", ZETA, COSTS), "means = .*table of finite numbers"),
    "outside": (lambda: MultiFidelityBandit([[1.1, 1.0], [0, 0]], ZETA, COSTS, "bernoulli"), "means = 1.1: .* 0 and 1"),
    "scale": (lambda: MultiFidelityBandit(MEANS, ZETA, COSTS, "bernoulli", 1.0), "scale = 1.0: must be left out"),
    "number": (lambda: SyntheticBandit(5), "number = 5: must be a whole number from 1 to 4"),
    "arm": (lambda: SyntheticBandit(3).evaluate((200,), 0), "arm = 200: must be a whole number from 0 to 199"),
    "half an arm": (lambda: ClassifierBandit().evaluate((0.5,), 0), "arm = 0.5: must be a whole number from 0 to 24"),
    "shares": (lambda: ClassifierBandit(shares=(0.5, 0.4)), r"shares = \[0.5, 0.4\]: must be increasing"),
    "own zeta": (lambda: ClassifierBandit(shares=(0.5, 1.0)), "zeta = None: must be 2 numbers"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_bad_input(make, message):
    refused(f"^{message}", make)


def test_classifiers():
    problem = ClassifierBandit(trial=1)
    assert len(set(problem.labels)) == len(problem.labels) == problem.space.parameters[0].upper + 1
    nearest = [problem.observe((0,), m, 5) for m in range(3)]
    assert nearest[0] < nearest[1] < nearest[2]  # more data, better neighbours
    assert problem.observe((0,), 2, 5) == nearest[2] != problem.observe((0,), 2, 6)
    assert problem.evaluate((3,), 0) == problem.observe((3,), 0, 0)
    assert ClassifierBandit((0.5, 1.0), (0.2, 0.0)).space.costs == (1.0, 2.0)


def test_every_classifier_is_off_by_no_more_than_zeta():
    """Measured over a few splits, so with room for their noise."""
    problem = ClassifierBandit()
    for arm in (0, 3, 4, 9, 12, 18, 19, 21, 23):
        accuracy = np.array([[problem.observe((arm,), m, n) for n in range(3)] for m in range(3)]).mean(1)
        assert (np.abs(accuracy - accuracy[-1]) <= np.array(problem.space.zeta) + 0.03).all()
