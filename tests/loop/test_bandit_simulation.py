"""The simulator of many trials, decision for decision beside plays one at a time."""

import warnings

import pytest
import torch
from refusals import refused

from benchmarks.quality.bandit import plain
from benchmarks.quality.bandit.metrics import plays, pseudo_regret
from mfbo_torch.history import History
from mfbo_torch.loop import bandit_simulation
from mfbo_torch.loop.bandit_simulation import simulate
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import Currin, MultiFidelityBandit
from mfbo_torch.strategies import MFUCB, UCB, RandomSearch, SuccessiveElimination
from mfbo_torch.strategies.bandit.base import ZetaWarning


def problem(arms, rewards="gaussian", trial=0, costs=(1.0, 3.0, 10.0), zeta=(0.4, 0.15, 0.0)):
    generator = torch.Generator().manual_seed(arms)
    target = torch.linspace(0.1, 0.9, arms, dtype=torch.double)[torch.randperm(arms, generator=generator)]
    bias = torch.rand(arms, len(zeta), generator=generator, dtype=torch.double) * 2 - 1
    means = (target.unsqueeze(-1) + bias * torch.tensor(zeta)).clamp(0.0, 1.0)
    return MultiFidelityBandit(
        means.tolist(), zeta, costs, rewards, 0.3 if rewards == "gaussian" else None, trial=trial
    )


def told(rewards):
    return {"rewards": "gaussian", "scale": 0.3} if rewards == "gaussian" else {"rewards": "bounded"}


def decisions(history):
    return [(round(r.query.x[0]), r.query.fidelity) for r in history]


def simulated(simulation, row):
    found = zip(simulation.arms[row].tolist(), simulation.fidelities[row].tolist(), strict=True)
    return [pair for pair in found if pair != (-1, -1)]


@pytest.mark.parametrize("rewards", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("make", [MFUCB, UCB, SuccessiveElimination])
@pytest.mark.parametrize(
    ("arms", "capital"), [(2, 150.0), (7, 700.0), pytest.param(90, 1500.0, marks=pytest.mark.slow)]
)
def test_decides_as_the_strategy_does(make, rewards, arms, capital, monkeypatch):
    monkeypatch.setattr(bandit_simulation, "AHEAD", 16)  # many searches, of all trials and of some
    strategy = make(**told(rewards))
    simulation = simulate(problem(arms, rewards), strategy, capital, [0, 5, 2])
    for row, trial in ((1, 5), (2, 2)):
        own = problem(arms, rewards, trial)
        history = run(own, strategy, capital, progress=False)
        assert simulated(simulation, row) == decisions(history)
        assert torch.equal(simulation.plays()[row], plays(history, own))
        expected = pseudo_regret(history, own, capital)
        found = simulation.regret([capital])
        for part in ("total", "played", "residual"):
            assert getattr(found, part)[row, 0].item() == pytest.approx(getattr(expected, part).item(), 1e-9, 1e-9)


@pytest.mark.parametrize(("arms", "capital"), [(9, 500.0), (130, 900.0)])
def test_decides_as_the_equations_do(arms, capital):
    for rewards in ("gaussian", "bernoulli"):
        simulation = simulate(problem(arms, rewards), MFUCB(**told(rewards)), capital, 2)
        for trial in range(2):
            assert simulated(simulation, trial) == plain.trial(problem(arms, rewards, trial), capital)


def test_many_candidates_tied():
    """Arms with the same means and rewards of 0 or 1 tie again and again; the lowest is played."""
    tied = MultiFidelityBandit([[0.5, 0.5]] * 70, (0.1, 0.0), (1.0, 2.0), "bernoulli")
    assert simulated(simulate(tied, MFUCB(rewards="bounded"), 900.0, 3), 0) == plain.trial(tied, 900.0)


def test_a_capital_for_less_than_every_arm():
    simulation = simulate(problem(30), MFUCB(scale=0.3), 12.5, 2)
    assert simulation.arms.tolist() == [list(range(12))] * 2
    assert simulation.fidelities.eq(0).all()
    assert simulate(problem(30), UCB(scale=0.3), 25.0, 2).arms.tolist() == [[0, 1]] * 2


def test_more_plays_than_a_block_and_trials_that_end_at_different_times():
    simulation = simulate(problem(4), MFUCB(scale=0.3), 9000.0, 4)
    lengths = (simulation.arms >= 0).sum(1)
    assert lengths.max() > 1024
    assert len(set(lengths.tolist())) > 1
    costs = torch.tensor([1.0, 3.0, 10.0])
    for row, length in enumerate(lengths):
        assert (simulation.arms[row, length:] == -1).all()
        assert (simulation.fidelities[row, length:] == -1).all()
        assert 9000.0 - 10.0 < costs[simulation.fidelities[row, :length].long()].sum() <= 9000.0
    assert simulated(simulate(problem(4), MFUCB(scale=0.3), 9000.0, [2]), 0) == simulated(simulation, 2)


@pytest.mark.parametrize(("costs", "capital"), [((1.0, 3.0, 10.0), 300.0), ((0.1, 0.7, 1.9), 40.0)])
def test_regret_on_the_way(costs, capital):
    """Also at costs that are no whole numbers, regret at any capital is that of the plays it pays for."""
    own = problem(6, costs=costs)
    simulation = simulate(own, MFUCB(scale=0.3), capital, 1)
    history = run(own, MFUCB(scale=0.3), capital, progress=False)
    assert simulated(simulation, 0) == decisions(history)
    assert history.spent <= capital
    amounts = [capital * share for share in (0.0, 0.002, 0.03, 0.259, 0.5, 0.997, 1.0)]
    found = simulation.regret(amounts).total[0].tolist()
    assert found == pytest.approx([pseudo_regret(history, own, amount).total.item() for amount in amounts], rel=1e-9)
    assert found[0] == 0.0
    assert pseudo_regret(History(), own, 5.0).total.item() == pytest.approx(5.0 * own.optimum)


def test_warns_when_observations_contradict_zeta():
    with pytest.warns(ZetaWarning, match="contradicted"):
        simulate(problem(6), MFUCB(scale=0.1, zeta=(0.1, 0.04, 0.0)), 2000.0, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(problem(6), MFUCB(scale=0.3), 3000.0, 2)


@pytest.mark.gpu
@pytest.mark.parametrize("make", [MFUCB, UCB, SuccessiveElimination])
def test_decides_alike_on_a_gpu(make):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    for rewards in ("gaussian", "bernoulli"):
        strategy = make(**told(rewards))
        here = simulate(problem(90, rewards), strategy, 1500.0, 3)
        there = simulate(problem(90, rewards), strategy, 1500.0, 3, device="cuda")
        assert torch.equal(here.arms, there.arms)
        assert torch.equal(here.fidelities, there.fidelities)


BAD = {
    "trials": (lambda: simulate(problem(3), UCB(), 100.0, 0), "trials = 0: must be whole numbers"),
    "trial": (lambda: simulate(problem(3), UCB(), 100.0, [1, -1]), r"trials = \[1, -1\]: must be whole numbers"),
    "capital": (lambda: simulate(problem(3), UCB(), 0.5), "capital = 0.5: must be at least 1"),
    "problem": (lambda: simulate(Currin(), UCB(), 100.0), "problem = 'Currin': must be a MultiFidelityBandit"),
    "strategy": (lambda: simulate(problem(3), RandomSearch(), 9.0), "strategy = 'RandomSearch': must be MFUCB, UCB or"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_bad_input(make, message):
    refused(f"^{message}", make)
