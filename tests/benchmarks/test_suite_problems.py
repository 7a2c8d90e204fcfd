"""The suite of problems nobody tuned on: formulas, optima, what a random design is worth, and the peers' account."""

import math
from functools import partial
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest
import torch
from botorch.test_functions import synthetic
from scipy.integrate import solve_ivp
from scipy.optimize import minimize, rosen

from benchmarks.quality.constrained import NAMES, Cheapened
from benchmarks.quality.mixed import TUNINGS as MIXED
from benchmarks.quality.robust import calibration, functions, peers, problems, report, run
from benchmarks.quality.robust.problems import HELD_OUT, MEDIANS, PROBLEMS, Formula, loss, random_median
from benchmarks.study import Job
from mfbo_torch.history import Status
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.strategies import MFGPUCB

TUNINGS = ("trees", "network")
CHEAP = [name for name in PROBLEMS if name not in TUNINGS]
FORMULAS = [name for name in CHEAP if isinstance(PROBLEMS[name](), Formula)]


def spread(problem, designs):
    """Sobol designs that do not fail."""
    units = torch.quasirandom.SobolEngine(problem.space.dim, scramble=True, seed=1).draw(designs, dtype=torch.double)
    X = problem.space.from_unit(units).numpy()
    return X if getattr(problem, "fails", None) is None else X[~problem.fails(X)]


@pytest.mark.parametrize("name", FORMULAS)
def test_dense_search_finds_the_optimum_and_nothing_above(name):
    problem = PROBLEMS[name]()
    dim, target = problem.space.dim, problem.space.target
    X = spread(problem, 4096)
    values = problem.function(X, target)
    assert values.max() <= problem.optimum + 1e-9
    assert problem.space.contains(problem.best)
    starts = X[np.argsort(-values)[: 10 if dim <= 3 else 0]]
    bounds = [(p.lower, p.upper) for p in problem.space.parameters]
    search = partial(minimize, lambda x: -problem.function(x[None], target)[0], bounds=bounds, method="L-BFGS-B")
    found = [-search(x).fun for x in [*starts, problem.best]]
    assert max(found) == pytest.approx(problem.optimum, abs=1e-6)
    if len(starts):
        assert max(found[:-1]) == pytest.approx(problem.optimum, abs=1e-5)


OPTIMA = {"forrester": 6.020740, "forrester-4": 6.020740, "jump-forrester": 0.986325, "paciorek": 1}
OPTIMA |= {"alos-1": 0.625, "alos-2": 0.5627123, "alos-3": 0.5627123, "spring-mass-2": 1, "spring-mass-4": 1}
OPTIMA |= dict.fromkeys(("rosenbrock-2", "rosenbrock-5", "rastrigin-2", "rastrigin-5"), 0)


@pytest.mark.parametrize("name", OPTIMA)
def test_optima_are_those_of_the_source(name):
    assert PROBLEMS[name]().optimum == pytest.approx(OPTIMA[name], abs=2e-6)


def test_values_at_chosen_designs_and_rotations():
    """By hand, from the formulas; Rosenbrock's by SciPy."""

    def at(function, fidelity, *x):
        return -function(np.array([x]), fidelity)[0]

    at_half = math.sin(2.0)  # Forrester's at x = 0.5
    assert at(functions.forrester_pair, 1, 0.5) == pytest.approx(at_half)
    assert at(functions.forrester_pair, 0, 0.5) == pytest.approx(at_half / 2 - 5)
    levels = [at_half / 2 - 5, 0.75 * at_half - 2, 0.0625 * at_half, at_half]
    assert [at(functions.forrester, m, 0.5) for m in range(4)] == pytest.approx(levels)
    assert at(functions.jump_forrester, 1, 0.5) == pytest.approx(at_half)
    assert at(functions.jump_forrester, 1, 1.0) == pytest.approx(16 * math.sin(8) + 10)
    assert at(functions.jump_forrester, 0, 1.0) == pytest.approx(8 * math.sin(8) + 8)
    x = (0.3, -1.2, 1.7)
    assert at(functions.rosenbrock, 2, *x) == pytest.approx(rosen(x))
    bends = (-1.2 - 0.09) ** 2 + (1.7 - 1.44) ** 2
    assert at(functions.rosenbrock, 1, *x) == pytest.approx(50 * bends + 2.3**2 + 0.8**2 - 0.4)
    assert at(functions.rosenbrock, 0, *x) == pytest.approx((rosen(x) - 4.4) / 10.2)
    assert at(functions.rastrigin, 2, 0.15) == pytest.approx(0.05**2 + 1 - math.cos(0.5 * math.pi))
    assert at(functions.rastrigin, 1, 0.1) == pytest.approx(0.5 * math.cos(1.25 * math.pi) ** 2)
    assert at(functions.rastrigin, 0, 0.1) == pytest.approx(0.75 * math.cos(1.375 * math.pi) ** 2)
    assert at(functions.alos, 1, 0.9) == 0
    assert at(functions.alos, 0, 0.9) == pytest.approx(-0.1 / 1.225)
    target = 0.1 + 2 * 0.25 * math.sin(0.45) + 3 * 0.008 * math.sin(0.09)
    assert at(functions.alos, 1, 0.9, 0.5, 0.2) == pytest.approx(target)
    assert at(functions.alos, 0, 0.9, 0.5, 0.2) == pytest.approx((target - 0.4) / 5.325)
    assert at(functions.paciorek, 1, 0.5, 0.5) == pytest.approx(math.sin(4))
    assert at(functions.paciorek, 0, 0.5, 0.5) == pytest.approx(math.sin(4) - 2.25 * math.cos(4))
    turned = functions.turn(5, 0.2)
    np.testing.assert_allclose(turned @ turned.T, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(functions.turn(2, 0.2) @ [1, 0], [math.cos(0.2), math.sin(0.2)])


def test_springs():
    """The target against another solver and the closed form, the cheap fidelity against steps made one by one."""
    m1, m2, k1, k2 = x = 1.5, 3.0, 2.0, 3.5
    matrix = np.array([[0, 0, 1, 0], [0, 0, 0, 1], [-(k1 + k2) / m1, k2 / m1, 0, 0], [k2 / m2, -(k1 + k2) / m2, 0, 0]])
    start = np.array([1.0, 0, 0, 0])
    exact = solve_ivp(lambda t, u: matrix @ u, (0, 6), start, rtol=1e-11, atol=1e-12).y[0, -1]
    assert -functions.spring_mass(np.array([x]), 1)[0] == pytest.approx(exact, abs=1e-6)
    u = start
    for _ in range(10):
        first = matrix @ u
        second = matrix @ (u + 0.3 * first)
        third = matrix @ (u + 0.3 * second)
        u = u + 0.1 * (first + 2 * second + 2 * third + matrix @ (u + 0.6 * third))
    assert -functions.spring_mass(np.array([x]), 0)[0] == pytest.approx(u[0])
    closed = (math.cos(6 * math.sqrt(k1)) + math.cos(6 * math.sqrt(k1 + 2 * k2))) / 2
    for alike in ((k1, k2), (1.0, 1.0, k1, k2)):
        assert -functions.spring_mass(np.array([alike]), 1)[0] == pytest.approx(closed, abs=1e-6)


def test_a_useless_fidelity_tells_nothing():
    X = spread(PROBLEMS["useless"](), 1024)
    assert abs(np.corrcoef(functions.waves(X, 0), functions.waves(X, 1))[0, 1]) < 0.15


def test_a_half_plane_fails_next_to_the_optimum():
    problem = PROBLEMS["failing"]()
    x1, x2 = problem.best
    step = 0.051 / math.sqrt(2)
    for fidelity in range(2):
        assert evaluate(problem, (x1, x2), fidelity).observation is not None
        assert evaluate(problem, (x1 + step, x2 + step), fidelity).observation is None
    cheapest = minimize(lambda x: -functions.humps(x[None], 0)[0], (x1, x2)).x
    assert functions.failing(cheapest[None])[0]


@pytest.mark.parametrize(("name", "deviations"), [("noisy", (0.2, 0.2)), ("paciorek", (0.075, 0.0125))])
def test_noise_belongs_to_the_run_and_the_query(name, deviations):
    problem, other = PROBLEMS[name](), PROBLEMS[name]()
    problem.trial, other.trial = 3, 4
    for fidelity, deviation in enumerate(deviations):
        seen = np.array([problem.observe(problem.best, fidelity, number) for number in range(1000)])
        assert (seen - problem.evaluate(problem.best, fidelity)).std() == pytest.approx(deviation, rel=0.1)
        assert seen[7] == problem.observe(problem.best, fidelity, 7) != other.observe(problem.best, fidelity, 7)


def test_a_third_is_held_out():
    assert set(HELD_OUT) < set(PROBLEMS) == set(MEDIANS)
    assert 3 * len(HELD_OUT) >= len(PROBLEMS)


@pytest.mark.parametrize("name", CHEAP)
def test_what_a_random_design_is_worth(name):
    problem = PROBLEMS[name]()
    assert random_median(problem) == pytest.approx(MEDIANS[name], rel=1e-9)
    assert loss(name, problem.optimum - MEDIANS[name]) == pytest.approx(1)
    assert loss(name, -1e-12) == problems.FLOOR


@pytest.mark.parametrize("name", TUNINGS)
def test_tunings(name):
    """The same twice, not touched by the state of the generator; better than the median with a good guess."""
    problem = PROBLEMS[name]()
    x = {"trees": (0.3, 0.03, 15, 15, 0.5), "network": (0.2, 1e-5, 0.85, 32, 0.1)}[name]
    cheap = problem.evaluate(x, 0)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    assert problem.evaluate(x, 0) == cheap
    assert torch.equal(torch.random.get_rng_state(), before)
    assert max(cheap, MEDIANS[name]) < problem.evaluate(x, problem.space.target) <= problem.optimum
    if name == "network":  # a training that diverges has a finite loss
        assert problem.evaluate((10.0, 0.1, 0.99, 64, 0.8), 1) == pytest.approx(-math.log(1000))


def test_regret_is_without_noise_and_that_of_a_random_design_before_there_is_a_value():
    problem = PROBLEMS["noisy"]()
    assert run.regret_of("noisy", problem, None) == problem.optimum - MEDIANS["noisy"]
    ledger = peers.Ledger(problem, 20)
    ledger.value(dict(zip(("x1", "x2"), problem.best, strict=True)), 1)
    best = peers.Ledger.filled(ledger, lambda *_: None, 0).best(1)
    assert best.value != problem.optimum
    assert run.regret_of("noisy", problem, best) == 0


def test_a_ledger_keeps_to_the_capital_and_knows_failures():
    def method(ledger, seed):
        ledger.value({"x1": 1.0, "x2": 1.0}, 1)
        while True:
            ledger.value({"x1": 0.1, "x2": 0.2}, 0)

    history = peers.Ledger(PROBLEMS["failing"](), 13.5).filled(method, 0)
    assert history.spent == 13
    assert [record.status for record in history] == [Status.FAILED, *[Status.DONE] * 3]


@pytest.mark.parametrize("name", peers.PEERS)
@pytest.mark.parametrize("problem", ["failing", "trees"])
def test_peers_spend_the_capital(name, problem, monkeypatch):
    """Where they are installed, at all fidelities or at the target alone, whatever fails, and the same twice."""
    if lacks := peers.missing(name):
        pytest.skip(f"{lacks} is not installed")
    made = PROBLEMS[problem]()
    monkeypatch.setattr(type(made), "evaluate", _quick)
    first, again = (peers.Ledger(made, 7.5 * made.space.costs[-1]).filled(peers.PEERS[name], 1) for _ in range(2))
    assert [record.query for record in first] == [record.query for record in again]
    assert 6.5 * made.space.costs[-1] < first.spent <= 7.5 * made.space.costs[-1]
    several, target = name in ("OptunaHyperband", "SMACMultiFidelity"), made.space.target
    assert {record.query.fidelity for record in first} == set(range(0 if several else target, target + 1))
    assert all(made.space.contains(record.query.x) for record in first)


def _quick(problem, x, fidelity):
    """In place of an evaluation that takes time; fails where the unit cube's first coordinate is large."""
    unit = problem.space.to_unit(torch.tensor(x, dtype=torch.double))
    if unit[0] > 0.7:
        raise RuntimeError("this design cannot be evaluated")
    return float(fidelity - (unit - 0.4).square().sum())


def test_a_peer_that_is_not_installed_is_skipped_with_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(peers, "find_spec", lambda name: None if name == "smac" else find_spec(name))
    command = ["--problems", "forrester", "--methods", "Random", "SMACBlackBox", "--seeds", "1"]
    assert run.main([*command, "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] + "\n" == "SMACBlackBox is skipped: smac is not installed\n"
    assert {method for _, method, _ in report.collect(tmp_path / "robust.csv")} == {"Random"}


def test_the_default_before_and_after_in_one_file(tmp_path):
    """Each under its label; the report sets one beside the other, and leaves out what is held out."""
    assert isinstance(run.strategy_of(Job("forrester", "today", 0)), MFGPUCB)
    lines = [",".join(run.STUDY.header)]
    for problem, value in (("forrester", 1.0), ("park", 2.0)):
        for k, method in enumerate(("EI", "MFGPUCB", "today")):
            for s, c in product(range(2), (10, 20)):
                lines.append(f"{problem},{method},{s},{c},{(k + 1) * value},1,{c},9,9,0.0,1.8")
    path = tmp_path / "robust.csv"
    path.write_text("\n".join(lines) + "\n")
    runs = report.collect(path, held_out=False)
    assert report.problems_of(runs) == ["forrester"]
    assert report.methods_of(report.collect(path)) == ["MFGPUCB", "today", "EI"]
    assert "park (held out)" in report.table(report.collect(path))


def test_every_problem_is_on_its_page():
    families = {name.split("-")[0] if name.split("-")[-1].isdigit() else name for name in PROBLEMS}
    synthetic = {"bad-currin", "park", "borehole", "hartmann3", "hartmann6"}
    assert all(family in problems.__doc__ for family in families - synthetic)


def test_calibration_of_a_normal_sample():
    truth = torch.randn(20000, generator=torch.Generator().manual_seed(0), dtype=torch.double) * 3 + 5
    *shares, density = calibration.calibration(torch.full_like(truth, 5.0), torch.full_like(truth, 3.0), truth)
    assert shares == pytest.approx([0.5, 0.9, 0.99], abs=0.02)
    assert density == pytest.approx(-0.5 * math.log(2 * math.pi * math.e), abs=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_a_constrained_target_is_botorchs_function(name):
    problem, function = Cheapened(name), getattr(synthetic, name)()
    X = problem.space.from_unit(torch.rand(50, problem.space.dim, generator=torch.Generator().manual_seed(0)).double())
    for x, feasible, value in zip(X, function.is_feasible(X), function(X), strict=True):
        target, cheap = (problem.evaluate(x.tolist(), level) for level in (1, 0))
        assert target.value == pytest.approx(value.item())
        assert all(o.met for o in target.judged(problem.space.limits).outcomes.values()) == bool(feasible)
        assert cheap.value != target.value


@pytest.mark.parametrize("name", MIXED)
def test_mixed_tunings_can_be_evaluated_with_every_choice(name):
    problem = MIXED[name]()
    for parameter in problem.space.parameters:
        for label in parameter.choices:
            named = {p.name: p.decode(p.lower) for p in problem.space.parameters} | {parameter.name: label}
            assert math.isfinite(problem.reward(problem.space.point(named), 0))
