"""What is recommended where values are noisy, and that it stays the best observation where they are not."""

import math
from dataclasses import replace

import pytest
import torch

from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query, Recommendation, Record, Status
from mfbo_torch.space import Space
from mfbo_torch.strategies import GPBUCB, GPUCB, MFGPUCB, ExpectedImprovement, ProbabilityOfImprovement

SPACE = Space.box([[0.0], [1.0]], [1.0, 4.0])
MAKERS = [MFGPUCB, ExpectedImprovement, ProbabilityOfImprovement, GPUCB, GPBUCB]
LUCKY = 3
"""An observation far from the best design that noise makes the best one."""


def value(x: float) -> float:
    return math.sin(2.0 * math.pi * x)


def seen(noise: float, lucky: float = 0.0, errors: list[float | None] | None = None) -> History:
    """Forty designs at each fidelity, evenly spaced, their values with normal noise of a standard deviation."""
    shocks = noise * torch.randn(80, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    shocks[40 + LUCKY] += lucky
    records = []
    for i, shock in enumerate(shocks.tolist()):
        x, fidelity = (i % 40 + 0.5) / 40, i // 40
        error = None if errors is None else errors[i % 40]
        query = Query((x,), fidelity, {"stage": "initial", "index": i})
        records.append(Record(i, query, SPACE.costs[fidelity], value(x) + shock, Status.DONE, standard_error=error))
    return History(records)


@pytest.mark.parametrize("make", MAKERS)
def test_noise_is_inferred_and_luck_is_not_recommended(make):
    strategy, history = make().bind(SPACE), seen(0.3, lucky=1.5)
    best = strategy.recommend(history)
    assert isinstance(best, Recommendation)
    assert best.best == history.best(1) == history.records[40 + LUCKY]
    assert value(best.x[0]) > 0.9 > value(best.best.query.x[0])
    assert best.x in {r.query.x for r in history}
    assert abs(best.mean - value(best.x[0])) < 4 * best.deviation < 1.0
    assert best.noise[1] == pytest.approx(math.sqrt(0.3**2 + 1.5**2 / 40), rel=0.3)
    assert (best.noise[0] is None) == (make is not MFGPUCB)
    assert strategy.recommend(History()) is None


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("errors", [None, [0.0] * 40])
def test_without_noise_the_best_observation_is_recommended(make, errors):
    history = seen(0.0, errors=errors)
    assert make().bind(SPACE).recommend(history) == history.best(1)


@pytest.mark.parametrize("make", MAKERS)
def test_known_noise_is_taken_into_account(make):
    """One value is vague: it is not recommended, however good, nor are the others taken for noisy."""
    history = seen(0.0, lucky=1.5, errors=[2.0 if i == LUCKY else 0.01 for i in range(40)])
    best = make().bind(SPACE).recommend(history)
    assert best.best == history.records[40 + LUCKY]
    assert value(best.x[0]) > 0.99
    assert best.mean == pytest.approx(value(best.x[0]), abs=0.05)
    some = History(replace(r, standard_error=None if r.id == 60 else r.standard_error) for r in history)
    bare = History(replace(r, standard_error=None) for r in history)
    inferred = (replace(make().bind(SPACE).recommend(seen), best=None) for seen in (some, bare))
    assert next(inferred) == next(inferred)


@pytest.mark.parametrize("noise", [1e-4, 0.09])
def test_the_noise_of_a_known_process_counts_beside_its_scale(noise):
    """The default noise of a prior is negligible, whatever the values that were found."""
    best = GPBUCB(prior=Prior(lengthscale=0.3, noise=noise)).bind(SPACE).recommend(seen(0.3, lucky=1.5))
    assert isinstance(best, Recommendation) == (noise > 1e-3)
    if isinstance(best, Recommendation):
        assert best.noise[1] == pytest.approx(0.3)


def test_a_model_of_known_noise_is_not_one_of_unknown_noise():
    """What is kept between decisions is not taken for another history's."""
    strategy, known = MFGPUCB().bind(SPACE), seen(0.1, errors=[0.1] * 40)
    model = lambda history: strategy.rule.model(strategy.snapshot(history))  # noqa: E731
    assert model(known).train_Yvar.unique().tolist() == pytest.approx([0.01])
    some = History([*known.records[:-1], replace(known.records[-1], standard_error=None)])
    assert model(some).train_Yvar is None
    X = torch.tensor([[0.3]], dtype=torch.double)
    torch.testing.assert_close(strategy.predict(some, X), MFGPUCB().bind(SPACE).predict(some, X), rtol=0, atol=0)
