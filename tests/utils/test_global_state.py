"""Decisions are made in the driver's own state, whatever an objective does to that of the process."""

import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from botorch import fit
from quiet_runs import quiet, timeless
from toy import Hill

from mfbo_torch import Parameter, Space, minimize
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.strategies import MFGPUCB, RandomSearch
from mfbo_torch.strategies.common.fit_schedule import seeded
from mfbo_torch.strategies.common.gp import single_task_gp
from mfbo_torch.utils.global_state import GlobalState
from mfbo_torch.utils.rng import PrivateDraws, private_retries


class Careless(Hill):
    """Leaves everything that an objective can leave behind."""

    def evaluate(self, x, fidelity):
        torch.manual_seed(int(100 * x[0]))
        random.seed(0)
        np.random.seed(0)
        torch.rand(3), np.random.rand(3)
        torch.set_default_dtype(torch.float16)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(True)
        np.seterr(all="raise")
        warnings.simplefilter("error")
        with torch.device("cpu"):
            return super().evaluate(x, fidelity)


@pytest.fixture
def restored():
    state = GlobalState()
    with state.restored():
        yield state
    torch.set_default_device(None)


@pytest.mark.parametrize("strategy", [MFGPUCB(), RandomSearch()], ids=lambda s: type(s).__name__)
def test_an_objective_cannot_change_decisions(strategy, restored, tmp_path):
    clean = timeless(quiet(Hill(), strategy, 23.0))
    with Journal(tmp_path / "a.sqlite") as journal:
        assert timeless(quiet(Careless(), strategy, 23.0, journal=journal)) == clean
    assert (torch.get_default_dtype(), torch.get_default_device().type) == (torch.float32, "cpu")  # as it was found


MIXED = Space([Parameter("x", 0.5, 8.0, log=True), Parameter("k", choices=["a", "b", "c"])], costs=[1, 5])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("device", ["meta", "cuda"])
def test_a_result_is_returned_whatever_device_an_objective_sets(device, workers, restored):
    """What is computed after an evaluation, recommendation and labels included, is computed where the run began."""

    def careless(x, k, fidelity):
        torch.set_default_dtype(torch.float16)
        torch.set_default_device(device)
        torch.set_grad_enabled(False)
        np.seterr(all="raise")
        warnings.simplefilter("error")
        return (x - 2) ** 2 + (k == "a") + 0.1 * (1 - fidelity)

    with ThreadPoolExecutor(workers) if workers else nullcontext() as executor:
        found = minimize(careless, MIXED, 30.0, executor=executor)
    assert found.success
    assert found.nfev == len(found.history.done)
    assert (torch.get_default_dtype(), torch.get_default_device().type) == (torch.float32, "cpu")


def test_the_callers_modes_change_no_decision(restored):
    def found(mode=nullcontext):
        with mode():
            return minimize(lambda x, fidelity: (x - 0.3) ** 2, Space({"x": (0, 1)}, costs=[1, 10]), 35).history

    usual = timeless(found())
    assert timeless(found(torch.no_grad)) == usual
    assert timeless(found(torch.inference_mode)) == usual
    torch.set_default_dtype(torch.float64)
    assert timeless(found()) == usual
    assert torch.get_default_dtype() == torch.float64


def test_an_objective_finds_what_it_has_set(restored):
    """Its settings hold for its own later evaluations, those from before the run for its first one."""
    found = []

    def objective(x):
        found.append((torch.get_default_device().type, torch.get_default_dtype(), np.geterr()["over"]))
        torch.set_default_dtype(torch.float64)
        np.seterr(over="ignore")
        return x

    torch.set_default_device("meta")
    assert minimize(objective, {"x": (0.0, 1.0)}, 4).success
    assert found == [("meta", torch.float32, "warn"), *[("meta", torch.float64, "ignore")] * 3]
    assert (torch.get_default_device().type, torch.get_default_dtype()) == ("meta", torch.float32)


def test_a_training_that_waits_finds_what_the_caller_has_set(restored):
    seen = []

    def training(parameters, trial):
        for _ in trial.epochs():
            seen.append((torch.empty(0).device.type, torch.is_grad_enabled(), np.geterr()["over"]))
            trial.report(0.0)

    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    np.seterr(over="raise")
    minimize(training, Space({"x": (0.0, 1.0)}, epochs=3), 3, strategy="RandomSearch", progress=False)
    assert {*seen} == {("meta", False, "raise")}


def test_deterministic_algorithms_that_only_warn_stay_so(restored):
    torch.use_deterministic_algorithms(True, warn_only=True)
    state = GlobalState()
    torch.use_deterministic_algorithms(False)
    with state.restored():
        assert torch.is_deterministic_algorithms_warn_only_enabled()


def test_decisions_beside_evaluations_in_threads_are_replayed(restored, tmp_path):
    """Objectives draw from PyTorch's generator while decisions are made; neither notices the other."""

    class Drawing(Hill):
        def evaluate(self, x, fidelity):
            for _ in range(300):
                torch.rand(10)
            return super().evaluate(x, fidelity)

    with Journal(tmp_path / "a.sqlite") as journal, ThreadPoolExecutor(2) as executor:
        quiet(Drawing(), MFGPUCB(), 30.0, executor=executor, max_pending=2, journal=journal)
        strategy = MFGPUCB().bind(Hill().space, 30.0)
        torch.manual_seed(5)
        before = torch.get_rng_state()
        for base, query in journal.replay():
            assert strategy.ask(base)[0] == query
        assert torch.equal(torch.get_rng_state(), before)


def test_private_numbers_are_those_of_a_seeded_generator():
    weights = torch.rand(7, dtype=torch.double)

    def draws():
        return [
            *(torch.rand(3), torch.randn(2, 2, dtype=torch.double), torch.randint(9, (4,)), torch.randint(3, 9, (4,))),
            *(torch.randperm(5), torch.multinomial(weights, 3), torch.normal(torch.zeros(3), torch.ones(3))),
            *(torch.rand_like(weights), torch.randn_like(weights), torch.empty(3).uniform_(), torch.empty(3).normal_()),
            *(torch.quasirandom.SobolEngine(2, scramble=True).draw(3), torch.bernoulli(weights)),
        ]

    torch.manual_seed(3)
    expected = draws()
    state = torch.get_rng_state()
    with PrivateDraws(3):
        found = draws()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, expected, found))


def test_botorch_seeds_private_draws_within_private_draws():
    from botorch.utils.sampling import manual_seed, sample_simplex

    with manual_seed(4):
        expected = torch.rand(2)
    outside = sample_simplex(3, 2, seed=4)
    state = torch.get_rng_state()
    with seeded(1):
        first = torch.rand(2)
        with manual_seed(4):
            assert torch.equal(torch.rand(2), expected)
        assert torch.equal(sample_simplex(3, 2, seed=4), outside)
        second = torch.rand(2)
        with seeded(1):
            assert torch.equal(torch.rand(2), first)
    with seeded(1):
        assert torch.equal(torch.rand(4), torch.cat([first, second]))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_fit_that_starts_again_draws_privately():
    X, Y = torch.rand(5, 2, dtype=torch.double), torch.randn(5, 1, dtype=torch.double)

    def drawn() -> torch.Tensor:
        model = single_task_gp(X, Y)
        before = torch.random.get_rng_state()
        with private_retries(0):
            fit.sample_all_priors(model)
        assert torch.equal(before, torch.random.get_rng_state())
        return model.covar_module.lengthscale

    first = drawn()
    torch.rand(3)
    assert torch.equal(first, drawn())
