"""Posteriors at a few points as captured launches: all but the capture, for which a call of the same stands here."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import BotorchWarning
from gaussian import draw, factor

from mfbo_torch.ops.cache import extend
from mfbo_torch.ops.posterior import graphs, mean_variance, reference
from mfbo_torch.ops.posterior.fused import Outputs


def called_again(work: Callable[[], torch.Tensor]) -> tuple[Callable[[], Any], torch.Tensor]:
    """What a capture does, by calling ``work`` at each replay and writing to where it wrote at first."""
    found = work()
    return lambda: found.copy_(work()), found


@pytest.fixture(autouse=True)
def captured(monkeypatch) -> list[Any]:
    """Points on the processor are taken; what was captured."""
    found: list[Any] = []

    class Anywhere(torch.Tensor):
        is_cuda = True

    takes = graphs.takes
    monkeypatch.setattr(graphs, "takes", lambda cache, X: takes(cache, X.detach().as_subclass(Anywhere)))
    monkeypatch.setattr(graphs, "capture", lambda work: found.append(work) or called_again(work))
    monkeypatch.setattr(graphs, "_graphs", graphs._Graphs())
    return found


def assert_agrees(cache, X, floor: float = 0.0, keepdim: bool = False) -> None:
    points = X.clone().requires_grad_()
    expected = reference.mean_variance(cache, points)
    by = [draw(*expected[0].shape, seed=seed) for seed in (5, 6)]
    (wanted,) = torch.autograd.grad(expected, points, by)
    ours = X.clone().requires_grad_()
    found = mean_variance(cache, ours, floor=floor, keepdim=keepdim)
    (gradient,) = torch.autograd.grad(found, ours, [w.unsqueeze(-1) for w in by] if keepdim else by)
    for a, b in zip((*found, gradient), (*expected, wanted), strict=True):
        assert (a.reshape(b.shape) - b).abs().max() <= 1e-10 * max(b.abs().max().item(), 1.0)


@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("kind", ["rbf", "matern32", "matern52"])
@pytest.mark.parametrize(
    ("batch", "n", "points"),
    [((), 1, (1,)), ((), 20, (10,)), ((), 33, (3, 1)), ((), 600, (5, 1)), ((2,), 7, (2, 5)), ((2,), 7, (4, 1, 5))],
)
def test_value_and_gradient(batch, n, points, kind, keepdim, captured):
    assert_agrees(factor(draw(*batch, n, 2), kind=kind, noise=0.1), draw(*points, 2, seed=1), keepdim=keepdim)
    assert captured


def test_one_capture_for_a_bucket(captured):
    """Other numbers of points and other factors go into the same buffers."""
    for n in (33, 40, 64):
        for m in (1, 5, 8):
            cache = factor(draw(n, 2, seed=n))
            assert_agrees(cache, draw(m, 2, seed=m))
            del cache
    assert len(captured) == 1
    assert_agrees(factor(draw(65, 2)), draw(5, 2))
    assert len(captured) == 2


def test_pending_points(captured):
    assert_agrees(extend(factor(draw(7, 2)), draw(3, 2, seed=5), torch.ones(3).double()), draw(6, 2, seed=1))
    assert captured


def test_a_backward_pass_is_that_of_its_forward_pass():
    """Others between the two, of the same factor and of others in the same buffers, change nothing."""
    caches = [factor(draw(20, 2, seed=seed)) for seed in range(graphs.SAME + 2)]
    points = [draw(5, 2, seed=seed).requires_grad_() for seed in range(len(caches))]
    sums = [sum(part.sum() for part in mean_variance(cache, X)) for cache, X in zip(caches, points, strict=True)]
    sums.append(sum(part.sum() for part in mean_variance(caches[0], points[0])))
    for i in (2, 0, 5, 1, 3, 4):
        (gradient,) = torch.autograd.grad(sums[i], points[i])
        wanted = sum(part.sum() for part in reference.mean_variance(caches[i], points[i]))
        assert torch.allclose(gradient, *torch.autograd.grad(wanted, points[i]))
    assert sum(map(len, graphs._graphs.kept.values())) == graphs.SAME


def test_no_more_than_so_many(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 3)
    for d in range(1, 6):
        assert_agrees(factor(draw(5, d)), draw(3, d, seed=1))
    assert sum(map(len, graphs._graphs.kept.values())) == 3


def test_results_stay(captured):
    cache = factor(draw(20, 2))
    first = mean_variance(cache, draw(5, 2, seed=1))
    again = [part.clone() for part in first]
    mean_variance(cache, draw(5, 2, seed=2))
    assert all(map(torch.equal, first, again))


@pytest.mark.parametrize("able", [True, False])
@pytest.mark.parametrize(("n", "points"), [(7, 1), (40, 64), (40, 150)])
def test_moments_on_arrays(n, points, able, captured, monkeypatch):
    """As those of a process on the processor, with and without a graph."""
    cache, X = factor(draw(n, 3), noise=0.1), draw(points, 3, seed=1).numpy()
    if not able:
        monkeypatch.setattr(graphs, "graph", lambda *_: None)
    by = [draw(points, seed=seed).numpy() for seed in (5, 6)]
    of_factor, of_process = Outputs([cache]), Outputs(cache.prepared.processes)
    assert of_factor.dim == of_process.dim == 3
    (*ours, found), (*wanted, kept) = of_factor.moments(X), of_process.moments(X, gradient=True)
    gradients = of_factor.gradient(found, *by), of_process.gradient(kept, *by)
    for a, b in [*zip(ours, wanted, strict=True), gradients]:
        assert abs(a - b).max() <= 1e-10 * max(abs(b).max(), 1.0)
    assert bool(captured) == able


@pytest.mark.parametrize("wrong", ["fails", "differs"])
def test_what_cannot_be_captured_is_launched_one_by_one(wrong, monkeypatch):
    def capture(work):
        if wrong == "fails":
            raise RuntimeError("not permitted when stream is capturing")
        replay, found = called_again(work)
        return lambda: [replay(), found.add_(1.0)], found

    monkeypatch.setattr(graphs, "capture", capture)
    cache = factor(draw(20, 2))
    with pytest.warns(BotorchWarning, match="one by one: (not permitted|a graph differs)"):
        mean_variance(cache, draw(5, 2))
    assert_agrees(cache, draw(5, 2))


@pytest.mark.parametrize(
    ("kind", "batch", "n", "points"),
    [
        ("matern12", (), 5, (3,)),
        ("rbf", (), 5, (65,)),
        ("rbf", (), 0, (3,)),
        ("rbf", (1,), 5, (4, 3)),
        ("rbf", (), 5, (0,)),
    ],
)
def test_what_is_not_taken(kind, batch, n, points, captured):
    mean_variance(factor(draw(*batch, n, 2), kind=kind), draw(*points, 2, seed=1))
    assert not captured


def test_the_processor_has_no_graphs(monkeypatch, captured):
    monkeypatch.undo()
    assert not graphs.takes(factor(draw(5, 2)), draw(3, 2))
