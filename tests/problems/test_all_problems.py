"""What every problem owes the rest of the package."""

import math
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch
from refusals import refused
from toy import Walk

from mfbo_torch import problems, run
from mfbo_torch.app import builder
from mfbo_torch.app.experiment import execute, prepare
from mfbo_torch.history import Query
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.optimizer import Optimizer


def toy(parameters, fidelity):
    return parameters["width"] * (1 + parameters["rate"]) + fidelity


def faces(**settings):
    pytest.importorskip("cv2")
    pytest.importorskip("skimage")
    return problems.ViolaJones(**settings)


TOY = {"rate": {"lower": 1e-3, "upper": 1.0, "log": True}, "width": {"lower": 1, "upper": 8, "integer": True}}
ALL_PROBLEMS = {
    "Currin": problems.Currin,
    "BadCurrin": problems.BadCurrin,
    "Park": problems.Park,
    "Borehole": problems.Borehole,
    "Hartmann3": problems.Hartmann3,
    "Hartmann6": problems.Hartmann6,
    "Illustration": problems.Illustration,
    "ContinuousBorehole": lambda: problems.ContinuousBorehole(levels=3),
    "ContinuousBranin": lambda: problems.ContinuousBranin(levels=3),
    "ContinuousCurrin": lambda: problems.ContinuousCurrin(levels=3),
    "ContinuousHartmann3": lambda: problems.ContinuousHartmann3(levels=3),
    "ContinuousHartmann6": lambda: problems.ContinuousHartmann6(levels=3),
    "Currin, negated": lambda: problems.Currin(negate=True),
    "Electrodes": lambda: problems.Electrodes(noise_std=0.0),
    "Peptides": lambda: problems.Peptides(noise_std=0.0),
    "GPSample": lambda: problems.GPSample([30, 20], noisy=False),
    "SVM on digits": lambda: problems.SVM(sizes=(200, 250)),
    "SVM on magic": lambda: problems.SVM(data="magic", sizes=(100, 200), measured=True),
    "SALSA": lambda: problems.SALSA(sizes=(40, 60, 80)),
    "Supernova": problems.Supernova,
    "ViolaJones": lambda: faces(sizes=(20, 40), held_out=10),
    "MultiFidelityBandit": lambda: problems.MultiFidelityBandit([[0.5, 0.4], [0.1, 0.3]], [0.2, 0.0], [1, 10]),
    "SyntheticBandit": lambda: problems.SyntheticBandit(3),
    "ClassifierBandit": problems.ClassifierBandit,
    "IndirectBranin": lambda: problems.IndirectBranin(num_samples=20, noise=0.0, grid=4),
    "IndirectBranin, known": lambda: problems.IndirectBranin("nonlinear", noise=0.0, known=True),
    "IndirectBandit": lambda: problems.IndirectBandit(noise=0.0),
    "DiseaseMap": lambda: problems.DiseaseMap(side=12, num_units=10, noise=0.0),
    "Satellite": lambda: problems.Satellite(noise=0.0),
    "ShiftedPeak": lambda: problems.ShiftedPeak((0.6, 0.3), noise=0.0),
    "UserProblem": lambda: problems.UserProblem(toy, TOY, [1, 10], maximize=False),
}


@cache
def build(name):
    return ALL_PROBLEMS[name]()


@pytest.fixture(params=ALL_PROBLEMS)
def problem(request, data_dir):
    return build(request.param)


def centre(problem):
    return problem.space.from_unit(torch.full((problem.space.dim,), 0.5, dtype=torch.double)).tolist()


def test_exports_are_there():
    assert all(hasattr(problems, name) for name in problems.__all__)


def test_space_is_valid(problem):
    space = problem.space
    assert space.dim == len(space.parameters) >= 1
    indirect = isinstance(problem, problems.IndirectProblem)
    assert space.num_fidelities >= (1 if space.candidates or indirect else 2)
    assert all(0 < low < high for low, high in zip(space.costs, space.costs[1:], strict=False))
    assert isinstance(problem, problems.Problem)
    assert problem.name in problems.__all__


def test_values_are_finite_and_repeatable_at_every_fidelity(problem):
    for fidelity in range(problem.space.num_fidelities):
        value = problem.evaluate(centre(problem), fidelity)
        assert isinstance(value, float)
        assert math.isfinite(value)
        assert problem.evaluate(np.array(centre(problem)), np.int64(fidelity)) == value
        assert problem.reward(centre(problem), fidelity) == (value if problem.maximize else -value)


def test_target_lies_between_worst_and_optimum(problem):
    reward = problem.reward(centre(problem), problem.space.target)
    if problem.worst is not None:
        assert problem.signed(problem.worst) <= reward
    if problem.optimum is not None:
        assert reward <= problem.signed(problem.optimum)


@pytest.mark.parametrize("fidelity", [-1, "M", 1.0, True, None])
def test_unknown_fidelity_is_refused(problem, fidelity):
    fidelity = problem.space.num_fidelities if fidelity == "M" else fidelity
    refused(rf"^fidelity = .*from 0 to {problem.space.target}$", problem.evaluate, centre(problem), fidelity)


@pytest.mark.parametrize("change", [lambda x: x[1:], lambda x: [*x, 0.5], lambda x: [math.nan, *x[1:]], lambda x: None])
def test_bad_designs_are_refused(problem, change):
    refused(rf"^x = .*{problem.space.dim} finite numbers$", problem.evaluate, change(centre(problem)), 0)


def test_survives_pickling(problem):
    copy = pickle.loads(pickle.dumps(problem))
    assert copy.space == problem.space
    assert copy.evaluate(centre(problem), 0) == problem.evaluate(centre(problem), 0)


BANDIT = ([[0.5, 0.4], [0.1, 0.3], [0.6, 0.7]], [0.2, 0.0], [1, 10])
NOISY = {
    "Currin": lambda: problems.Currin(noise_std=0.5),
    "Hartmann3, negated": lambda: problems.Hartmann3(noise_std=0.5, negate=True),
    "Electrodes": problems.Electrodes,
    "Peptides": problems.Peptides,
    "GPSample": lambda: problems.GPSample([30]),
    "MultiFidelityBandit": lambda: problems.MultiFidelityBandit(*BANDIT),
    "MultiFidelityBandit, Bernoulli": lambda: problems.MultiFidelityBandit(*BANDIT, "bernoulli"),
    "ClassifierBandit": problems.ClassifierBandit,
    "IndirectBranin": lambda: problems.IndirectBranin(num_samples=20, grid=4),
    "IndirectBranin, heights": lambda: problems.IndirectBranin(resolutions=3, known=True),
    "IndirectBandit": lambda: problems.IndirectBandit(num_arms=4, num_samples=50),
    "DiseaseMap": lambda: problems.DiseaseMap(side=8, num_units=6),
    "Satellite": problems.Satellite,
    "ShiftedPeak": lambda: problems.ShiftedPeak((0.6, 0.3)),
}
"""Problems that add noise: to what a query sees, and never to what they are evaluated to."""


@pytest.fixture(params=NOISY)
def noisy(request):
    return NOISY[request.param]()


def stirred(seed):
    """Set every global generator to something else."""
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)


def affords(problem, walks):
    """The capital for ``3 walks`` queries of a walk, each third at the target."""
    return walks * (2 * problem.space.costs[0] + problem.space.costs[-1])


def seen(history):
    return [(r.id, r.query.x, r.query.fidelity, r.value) for r in history]


def test_a_noisy_run_that_is_killed_and_resumed_has_the_values_of_the_undisturbed_one(noisy, tmp_path):
    stirred(0)
    whole = run(noisy, Walk(), affords(noisy, 4), progress=False)
    stirred(1)
    with Journal(tmp_path / "history.sqlite") as journal:
        run(noisy, Walk(), affords(noisy, 2), journal=journal, progress=False)
        Optimizer(Walk().bind(noisy.space), journal).ask()  # and dies before there is a value
    stirred(1)
    with Journal(tmp_path / "history.sqlite") as journal:
        resumed = run(pickle.loads(pickle.dumps(noisy)), Walk(), affords(noisy, 4), journal=journal, progress=False)
    assert seen(resumed) == seen(whole)
    assert len(whole) == 12


def test_a_noisy_run_by_four_workers_replays_query_by_query(noisy):
    with ThreadPoolExecutor(4) as workers:
        history = run(noisy, Walk(), affords(noisy, 4), executor=workers, max_pending=4, progress=False)
    assert len(history) == 12
    for r in history:
        assert noisy.observe(r.query.x, r.query.fidelity, r.id) == r.value


def test_noise_knows_the_number_and_the_stream_alone(noisy):
    def observed(fidelity):
        return [noisy.observe(x, fidelity, number) for number in range(6)]

    query = Walk(space=noisy.space).query(torch.full((noisy.space.dim,), 0.4, dtype=torch.double), 0)
    assert isinstance(query, Query)
    x, fidelities = list(query.x), range(noisy.space.num_fidelities)
    stirred(0)
    first = [observed(m) for m in fidelities]
    stirred(1)
    torch.rand(3), np.random.rand(3)
    assert [observed(m) for m in fidelities] == first
    assert [noisy.evaluate(x, m) for m in fidelities] == [noisy.evaluate(x, m) for m in fidelities]
    assert all(len(set(values)) > 1 for values in first)
    noisy.trial = 7
    assert all(observed(m) != before for m, before in zip(fidelities, first, strict=True))


@pytest.mark.parametrize("name", [name for name in NOISY if "," not in name])
def test_the_seed_of_a_run_is_its_stream_of_noise(name, tmp_path):
    own = {"class_path": name, "init_args": {}}
    if name == "MultiFidelityBandit":
        own["init_args"] = dict(zip(("means", "zeta", "costs"), BANDIT, strict=True))
    given = {"problem": own, "strategy": "RandomSearch", "capital": 100.0, "out": str(tmp_path)}
    assert [builder.build(builder.resolve_run({**given, "seed": seed}))[0].trial for seed in (0, 7)] == [0, 7]


def test_a_query_that_is_tried_again_keeps_its_noise():
    class Faulty(problems.Electrodes):
        """Every other evaluation fails."""

        failed = False

        def evaluate(self, x, fidelity):
            self.failed = not self.failed
            if self.failed:
                raise RuntimeError("a bad contact")
            return super().evaluate(x, fidelity)

    history = run(Faulty(), Walk(), 5.0, retries=1, charge_retries=False, progress=False)
    assert [r.retries for r in history] == [1] * 5
    undisturbed = run(problems.Electrodes(), Walk(), 5.0, progress=False)
    assert seen(history) == seen(undisturbed)


def test_a_noisy_run_of_a_folder_is_continued_as_if_never_stopped(tmp_path):
    def go(folder, capital, seed):
        given = {"problem": "Electrodes", "strategy": {"class_path": "toy.Walk"}, "seed": seed, "capital": capital}
        given["progress"] = False
        settings = builder.resolve_run({**given, "out": str(tmp_path / folder)})
        return execute(prepare(settings), picture=False).history

    go("resumed", 3.0, 0)
    stirred(5)
    assert seen(go("resumed", 8.0, 0)) == seen(go("whole", 8.0, 0))
    assert problems.Electrodes().trial is None
    exact = problems.Electrodes().evaluate
    noises = [[r.value - exact(r.query.x, 0) for r in go(f"seed {seed}", 8.0, seed)] for seed in (0, 1)]
    assert not np.isclose(*noises).any()
