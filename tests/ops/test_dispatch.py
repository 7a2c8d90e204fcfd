"""Which implementation runs, what is said where it cannot, and what happens when memory runs out."""

import pytest
import torch
from botorch.exceptions import UnsupportedError
from gaussian import draw, factor
from refusals import refused

from mfbo_torch.ops import _dispatch
from mfbo_torch.ops.posterior import chunked, fused, mean_variance, reference


class OnCuda:
    """As far as the dispatch can see a tensor on a CUDA device."""

    is_cuda = True
    device = torch.device("cuda")


@pytest.mark.parametrize(
    ("installed", "chosen", "why"),
    [
        ((3, 4), "torch", "Triton 3.4 has no float64 products of tensor cores; 3.5 has"),
        ((3, 5), "triton", "the tensor is on cuda"),
        ((3, 9), "triton", "the tensor is on cuda"),
    ],
)
def test_the_version_of_triton_decides(installed, chosen, why, monkeypatch):
    monkeypatch.setattr(_dispatch, "triton_installed", lambda: True)
    monkeypatch.setattr(_dispatch, "triton_version", lambda: installed)
    backend, reason = _dispatch.route("auto", OnCuda())
    assert backend == chosen
    assert reason.startswith(why)
    assert _dispatch.route("torch", OnCuda()) == ("torch", "requested")
    assert _dispatch.route("triton", OnCuda()) == ("triton", "requested")


def test_auto_follows_the_device(monkeypatch):
    monkeypatch.setattr(_dispatch, "triton_version", lambda: (3, 6))
    assert _dispatch.choose("auto", draw(2, 1)) == "torch"
    monkeypatch.setattr(_dispatch, "triton_installed", lambda: True)
    assert _dispatch.choose("auto", OnCuda()) == "triton"
    monkeypatch.setattr(_dispatch, "triton_installed", lambda: False)
    assert _dispatch.choose("auto", OnCuda()) == "torch"
    assert _dispatch.choose("torch", OnCuda()) == "torch"


def test_unknown_backends_and_triton_without_a_device_or_the_interpreter(monkeypatch):
    with pytest.raises(UnsupportedError, match="backend = 'numpy': must be one of auto, torch, triton"):
        mean_variance(factor(draw(4, 2)), draw(3, 2), backend="numpy")
    monkeypatch.setattr(_dispatch, "triton_installed", lambda: True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(UnsupportedError, match=r"backend = 'triton': the tensor is on cpu, must be on a CUDA device"):
        mean_variance(factor(draw(4, 2)), draw(3, 2), backend="triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert _dispatch.choose("triton", draw(2, 1)) == "triton"
    monkeypatch.setattr(_dispatch, "triton_installed", lambda: False)
    refused("Triton is not installed", _dispatch.choose, "triton", draw(2, 1), error=UnsupportedError)


class Small:
    """A device with room for ``room`` points: kernels that do what the reference does, or run out of memory."""

    def __init__(self, room: int) -> None:
        self.room, self.sizes = room, []

    def _fits(self, X: torch.Tensor) -> None:
        self.sizes.append(X.shape[-2])
        if X.shape[-2] > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")

    keeping = False

    def keeps(self, cache, X):
        return self.keeping

    def forward_kept(self, cache, X):
        raise torch.OutOfMemoryError("CUDA out of memory")

    def forward(self, cache, X):
        self._fits(X)
        return chunked.evaluate(cache, X)[:2]

    def backward(self, cache, X, grad_mean, grad_variance):
        self._fits(X)
        return chunked.backward(cache, X, grad_mean, grad_variance)


@pytest.fixture
def small(monkeypatch):
    """A device with room for 5 points."""
    device = Small(5)
    monkeypatch.setattr(fused, "MOST_BYTES", -1)
    monkeypatch.setattr(_dispatch, "choose", lambda backend, X: "triton")
    monkeypatch.setattr(_dispatch, "kernels", lambda operation: device)
    return device


@pytest.mark.parametrize("shape", [(1,), (4,), (40,), (3, 33), (11, 2, 1)], ids=str)
def test_once_more_in_pieces(small, shape):
    cache = factor(draw(2, 6, 2) if len(shape) == 2 else draw(6, 2))
    X = (draw(2, shape[1], 2) if len(shape) == 2 else draw(*shape, 2)).requires_grad_()
    found = mean_variance(cache, X)
    (gradient,) = torch.autograd.grad(found[0].sum() - 2 * found[1].sum(), X)
    expected = reference.mean_variance(cache, X)
    (right,) = torch.autograd.grad(expected[0].sum() - 2 * expected[1].sum(), X)
    torch.testing.assert_close((*found, gradient), (*expected, right), rtol=0, atol=1e-12)
    assert max(small.sizes[1:]) <= max(5, X.shape[-2])
    assert len(small.sizes) == (2 if X.shape[-2] <= 5 else 2 * (1 + -(-X.shape[-2] // -(-X.shape[-2] // 8))))


def test_nothing_is_kept_where_it_does_not_fit(small):
    small.keeping = True
    cache, X = factor(draw(6, 2)), draw(4, 2).requires_grad_()
    (gradient,) = torch.autograd.grad(mean_variance(cache, X)[1].sum(), X)
    assert torch.allclose(gradient, *torch.autograd.grad(reference.mean_variance(cache, X)[1].sum(), X))


def test_says_what_it_needed(small):
    message = r"1 processes with n = 6 at points of shape \(41, 2\) needs about [\d,]+ MiB; 8 pieces .* did not fit"
    refused(message, mean_variance, factor(draw(6, 2)), draw(41, 2), error=torch.OutOfMemoryError)
    assert small.sizes == [41, 6]
