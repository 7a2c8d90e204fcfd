"""How long a call takes, side by side, and how that grows; what the machine can do; how much memory a call needs."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import accumulate
from statistics import median, quantiles
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile


def processor_seconds(call: Callable[[], Any]) -> float:
    """Seconds of processor time of a call."""
    started = time.process_time()
    call()
    return time.process_time() - started


@contextmanager
def timed(parts: Mapping[str, Sequence[tuple[Any, str]]], keeping: Collection[str]) -> Iterator[dict[str, float]]:
    """Processor seconds spent in the calls of each part, which are attributes of modules or classes.

    A part within another one is not counted as that, but whatever the parts ``keeping`` call is theirs.
    """
    spent, stack = dict.fromkeys(parts, 0.0), [time.process_time()]
    open_parts: list[str] = []

    def switch(part: str | None) -> None:
        now = time.process_time()
        if open_parts:
            spent[open_parts[-1]] += now - stack[0]
        stack[0] = now
        if part is None:
            open_parts.pop()
        else:
            open_parts.append(part)

    def watched(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def wrapper(*arguments: Any, **settings: Any) -> Any:
            switch(next((kept for kept in open_parts if kept in keeping), part))
            try:
                return call(*arguments, **settings)
            finally:
                switch(None)

        return wrapper

    with ExitStack() as patches:
        for part, places in parts.items():
            for owner, name in places:
                patches.enter_context(patch.object(owner, name, watched(part, getattr(owner, name))))
        yield spent


def seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    """Seconds a call of ``repeats`` in a row."""
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - started) / repeats


PATIENCE = 10.0
"""Seconds a case may take about, once there are :data:`FEWEST` rounds."""
FEWEST = 3


def side_by_side(calls: list[Callable[[], Any]], rounds: int, span: float) -> list[list[float]]:
    """Seconds of each call, in turn, ``rounds`` times or as often as there is patience for. In its turn a call runs
    for about ``span`` seconds."""
    repeats, total = [], 0.0
    for call in calls:
        call()  # the first call compiles and loads
        once = seconds(call)
        once = min(once, *(seconds(call) for _ in range(5))) if once < 0.1 else once
        repeats.append(min(max(int(span / once), 1), 1000))
        total += once * repeats[-1]
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(min(rounds, max(int(PATIENCE / total), FEWEST))):
        for call, count, row in zip(calls, repeats, found, strict=True):
            row.append(seconds(call, count))
    return found


def spread(row: list[float]) -> dict[str, float]:
    """Median and the middle 80 %."""
    tenths = quantiles(row, n=10, method="inclusive") if len(row) > 1 else [row[0]] * 9
    return {"median": median(row), "q10": tenths[0], "q90": tenths[-1]}


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of the logarithms by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def ceilings(device: str, dtype: torch.dtype, size: int | None = None) -> dict[str, float]:
    """Flops and bytes a second of a large matrix product and of a large copy, measured here."""
    size = size or (8192 if device == "cuda" else 1500)
    A = torch.rand(size, size, dtype=dtype, device=device)
    source = torch.empty(size * size * 4, dtype=dtype, device=device).fill_(1.0)
    target = torch.empty_like(source)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def quickest(call: Callable[[], Any]) -> float:
        return min(seconds(lambda: (call(), wait())) for _ in range(7))

    product, copy = quickest(lambda: A @ A), quickest(lambda: target.copy_(source))
    return {"flops": 2 * size**3 / product, "bytes": 2 * source.nbytes / copy}


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most bytes of tensors that were alive at once during a call, above those that were before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns()))
    return max(sizes, default=0)
