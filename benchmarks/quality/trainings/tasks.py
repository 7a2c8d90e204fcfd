"""Twenty-four real trainings of less than a second: small models on data of scikit-learn, or generated ones.

A task gives the loss on what is held out after each of :data:`EPOCHS` epochs. Rates reach from far too low to far too
high: trainings diverge, sprint and stall, or are best late. A loss that is not finite is :data:`WORST`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn import datasets
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from torch import Tensor, nn
from torch.nn import functional

EPOCHS, WORST, HELD_OUT_ROWS = 27, 50.0, 0.4

Settings = Mapping[str, float]
Losses = Iterator[float]
Data = tuple[Tensor, Tensor]


class Range(NamedTuple):
    """Between what a hyper-parameter lies, and on which scale."""

    lower: float
    upper: float
    log: bool = False
    integer: bool = False

    def at(self, u: float) -> float:
        """The value at ``u`` of the unit interval."""
        ratio, width = self.upper / self.lower if self.log else 1.0, self.upper - self.lower
        value = self.lower * ratio**u if self.log else self.lower + u * width
        return float(round(value)) if self.integer else value


class Task(NamedTuple):
    """The hyper-parameters of a training, and the losses of its epochs as they come."""

    ranges: Mapping[str, Range]
    train: Callable[[Settings], Losses]

    def curve(self, u: list[float]) -> list[float]:
        """The loss after each epoch at a design of the unit cube."""
        torch.manual_seed(0)
        settings = {name: one.at(x) for (name, one), x in zip(self.ranges.items(), u, strict=True)}
        losses = [min(loss, WORST) if math.isfinite(loss) else WORST for loss in islice(self.train(settings), EPOCHS)]
        return losses + losses[-1:] * (EPOCHS - len(losses))


RATE, MOMENTUM, DECAY = Range(1e-4, 2.0, log=True), Range(0.0, 0.99), Range(1e-7, 1e-1, log=True)
ADAM, COOLING, BATCH = Range(1e-5, 0.3, log=True), Range(0.75, 1.0), Range(16, 256, log=True, integer=True)
WIDTH, DROPOUT = Range(4, 96, log=True, integer=True), Range(0.0, 0.7)


@cache
def rows(name: str) -> Data:
    """Rows and what is to be told of them: whole numbers of classes, or a standardized value; 500 at most."""
    draw = np.random.default_rng(0)
    if name == "friedman":
        X, y = datasets.make_friedman1(500, 8, noise=1.0, random_state=0)
    elif name == "sparse":
        X, y = datasets.make_classification(400, 100, n_informative=8, n_redundant=10, flip_y=0.05, random_state=0)
    elif name == "spirals":
        t, y = 3 * draw.uniform(0.3, 1, 500), draw.integers(0, 2, 500)
        X = np.stack([t * np.cos(2.2 * t + math.pi * y), t * np.sin(2.2 * t + math.pi * y)], 1)
        X = X + 0.12 * draw.standard_normal(X.shape)
    else:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    kept = draw.permutation(len(X))[:500]
    X, y = X[kept], y[kept]
    X = (X - X.mean(0)) / (X.std(0) + 1e-9)
    if name in ("friedman", "diabetes"):
        return torch.tensor(X).float(), torch.tensor((y - y.mean()) / y.std()).float().unsqueeze(-1)
    return torch.tensor(X).float(), torch.tensor(y).long()


@cache
def images(name: str) -> Data:
    """Pictures of 8 x 8 and their classes."""
    if name == "digits":
        X, y = rows("digits")
        return X.reshape(-1, 1, 8, 8), y
    draw = torch.Generator().manual_seed(1)
    y = torch.randint(0, 4, (500,), generator=draw)
    at = torch.arange(8.0)
    phase = 6.3 * torch.rand(500, 1, 1, generator=draw)
    if name == "stripes":
        angle = (math.pi / 4 * y + 0.25 * torch.randn(500, generator=draw))[:, None, None]
        X = torch.sin(1.6 * (angle.cos() * at[:, None] + angle.sin() * at[None]) + phase)
    else:
        middle = 2 + 3 * torch.rand(2, 500, 1, 1, generator=draw)
        far = ((at[:, None] - middle[0]) ** 2 + (at[None] - middle[1]) ** 2).sqrt()
        X = torch.sin(far * (0.8 + 0.5 * y[:, None, None]))
    return (X + 0.8 * torch.randn(500, 8, 8, generator=draw)).unsqueeze(1), y


@cache
def sequences(name: str) -> Data:
    """Sequences of 16 steps with two channels, and what is to be told of each."""
    draw = torch.Generator().manual_seed(2)
    X = torch.rand(400, 16, 2, generator=draw)
    if name == "adding":
        X[:, :, 1] = 0
        for row, chosen in enumerate(torch.rand(400, 16, generator=draw).argsort(-1)[:, :2]):
            X[row, chosen, 1] = 1
        return X, (X[:, :, 0] * X[:, :, 1]).sum(1, keepdim=True) - 1
    if name == "first":
        return 2 * X - 1, (X[:, :3, 0].mean(1) > X[:, :3, 1].mean(1)).long()
    speed = 0.4 + 0.25 * (y := torch.randint(0, 4, (400,), generator=draw))
    angle = speed[:, None] * torch.arange(16.0) + 6.3 * torch.rand(400, 1, generator=draw)
    return torch.stack([angle.sin(), angle.cos()], -1) + 0.7 * torch.randn(400, 16, 2, generator=draw), y


def loss_of(output: Tensor, y: Tensor) -> Tensor:
    """The squared error of numbers, the cross entropy of classes."""
    if y.is_floating_point():
        return functional.mse_loss(output, y)
    return functional.cross_entropy(output, y)


def epochs(model: nn.Module, data: Data, settings: Settings, optimizer: torch.optim.Optimizer) -> Losses:
    """Train by batches; the loss on what is held out after each epoch."""
    X, y = data
    held = int(HELD_OUT_ROWS * len(X))
    batch, cooling, clip = int(settings["batch"]), settings.get("cooling", 1.0), settings.get("clip", 0.0)
    while True:
        model.train()
        for some in (held + torch.randperm(len(X) - held)).split(batch):
            optimizer.zero_grad()
            loss_of(model(X[some]), y[some]).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= cooling
        model.eval()
        with torch.no_grad():
            yield loss_of(model(X[:held]), y[:held]).item()


def _sgd(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=s["rate"], momentum=s["momentum"], weight_decay=s["decay"])


def _adam(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=s["rate"], weight_decay=s["decay"])


def _outputs(y: Tensor) -> int:
    return y.shape[-1] if y.is_floating_point() else int(y.max()) + 1


def perceptron(name: str, s: Settings) -> Losses:
    """One hidden layer, gradient descent with momentum."""
    X, y = rows(name)
    width = int(s["width"])
    layers = nn.Linear(X.shape[-1], width), nn.ReLU(), nn.Dropout(s["dropout"]), nn.Linear(width, _outputs(y))
    model = nn.Sequential(*layers)
    return epochs(model, (X, y), s, _sgd(model, s))


def deep(name: str, s: Settings) -> Losses:
    """Several hidden layers, Adam with a rate that cools."""
    X, y = rows(name)
    widths = [X.shape[-1], *[int(s["width"])] * int(s["depth"])]
    hidden = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.Tanh())]
    model = nn.Sequential(*hidden, nn.Linear(widths[-1], _outputs(y)))
    return epochs(model, (X, y), s, _adam(model, s))


def convolutional(name: str, s: Settings) -> Losses:
    """Two convolutions, gradient descent with momentum."""
    data, channels = images(name), int(s["channels"])
    first, second = nn.Conv2d(1, channels, 3, stride=2), nn.Conv2d(channels, 2 * channels, 2)
    head = nn.Flatten(), nn.Dropout(s["dropout"]), nn.Linear(8 * channels, _outputs(data[1]))
    model = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), *head)
    return epochs(model, data, s, _sgd(model, s))


def logistic(name: str, s: Settings) -> Losses:
    """Logistic regression from inputs on a scale of their own, gradient descent with momentum."""
    X, y = rows(name)
    model = nn.Linear(X.shape[-1], _outputs(y))
    return epochs(model, (s["scale"] * X, y), s, _sgd(model, s))


def recurrent(name: str, s: Settings) -> Losses:
    """A gated recurrent network of which the last state is read."""
    data = sequences(name)

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.GRU(2, int(s["width"]), batch_first=True)
            self.head = nn.Linear(int(s["width"]), _outputs(data[1]))

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.inner(x)[0][:, -1])

    model = Last()
    return epochs(model, data, s, _adam(model, s))


def autoencoder(name: str, s: Settings) -> Losses:
    """Rows through a narrow code and back, from noisy ones."""
    X, _ = rows(name)
    wide, width, code = X.shape[-1], int(s["width"]), int(s["code"])

    class Noise(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + s["noise"] * torch.randn_like(x) if self.training else x

    inward = Noise(), nn.Linear(wide, width), nn.Tanh(), nn.Linear(width, code)
    model = nn.Sequential(*inward, nn.Linear(code, width), nn.Tanh(), nn.Linear(width, wide))
    return epochs(model, (X, X), s, _sgd(model, s))


RATINGS = {"dense": (3, 0.5, 0.3), "scarce": (6, 0.15, 0.3), "noisy": (4, 0.3, 1.0)}
"""Rank, share of the entries that are known, and deviation of their noise."""


def factors(name: str, s: Settings) -> Losses:
    """A matrix of 60 x 40 as a product, gradient descent with momentum on the entries that are known."""
    rank, share, noise = RATINGS[name]
    draw = torch.Generator().manual_seed(3)
    A, B = torch.randn(60, rank, generator=draw), torch.randn(rank, 40, generator=draw)
    full = A @ B / math.sqrt(rank) + noise * torch.randn(60, 40, generator=draw)
    known, held = torch.rand(2, 60, 40, generator=draw) < torch.tensor([share, 0.3])[:, None, None]
    held = held & ~known
    size = s["scale"] / math.sqrt(s["rank"])
    U, V = (nn.Parameter(size * torch.randn(n, int(s["rank"]))) for n in (60, 40))
    parts = nn.ParameterList([U, V])
    optimizer, at = _sgd(parts, s), known.nonzero()
    while True:
        for some in at[torch.randperm(len(at))].split(int(s["batch"])):
            i, j = some.T
            optimizer.zero_grad()
            (0.5 * ((U[i] * V[j]).sum(-1) - full[i, j]).square().sum() / math.sqrt(len(i))).backward()
            optimizer.step()
        with torch.no_grad():
            yield (U @ V.T - full)[held].square().mean().item()


def trees(name: str, s: Settings) -> Losses:
    """Boosted trees, three an epoch."""
    X, y = (part.numpy() for part in rows(name))
    held, counts = int(HELD_OUT_ROWS * len(X)), {"max_depth": int(s["depth"]), "min_samples_leaf": int(s["leaf"])}
    kind: Any = GradientBoostingClassifier if y.ndim == 1 else GradientBoostingRegressor
    shares = {"learning_rate": s["rate"], "subsample": s["subsample"], "max_features": s["features"]}
    model = kind(n_estimators=3 * EPOCHS, random_state=0, **counts, **shares).fit(X[held:], y[held:].ravel())
    told = model.staged_predict_proba if y.ndim == 1 else model.staged_predict
    for output in islice(told(X[:held]), 2, None, 3):
        if y.ndim == 1:
            yield float(-np.log(np.clip(output[np.arange(held), y[:held]], 1e-12, 1)).mean())
        else:
            yield float(np.square(output - y[:held].ravel()).mean())


SGD = {"rate": RATE, "momentum": MOMENTUM, "decay": DECAY, "batch": BATCH}
COOLED = {"rate": ADAM, "cooling": COOLING, "decay": DECAY, "batch": BATCH}
LEAF = Range(1, 40, log=True, integer=True)
SHARE = Range(0.1, 1.0)
KINDS: dict[Callable[[str, Settings], Losses], tuple[tuple[str, ...], Mapping[str, Range]]] = {
    perceptron: (("digits", "breast_cancer", "friedman"), {**SGD, "width": WIDTH, "dropout": DROPOUT}),
    deep: (("spirals", "wine", "diabetes"), {**COOLED, "width": WIDTH, "depth": Range(1, 3, integer=True)}),
    convolutional: (
        ("digits", "stripes", "rings"),
        {**SGD, "channels": Range(2, 16, log=True, integer=True), "dropout": DROPOUT},
    ),
    logistic: (("digits", "breast_cancer", "sparse"), {**SGD, "scale": Range(0.01, 10, log=True)}),
    trees: (
        ("diabetes", "friedman", "breast_cancer"),
        {
            "rate": Range(0.005, 1.0, log=True),
            "depth": Range(1, 6, integer=True),
            "leaf": LEAF,
            "subsample": SHARE,
            "features": SHARE,
        },
    ),
    factors: (
        ("dense", "scarce", "noisy"),
        {
            **SGD,
            "rate": Range(1e-3, 1.0, log=True),
            "rank": Range(1, 16, log=True, integer=True),
            "scale": Range(0.01, 2.0, log=True),
        },
    ),
    recurrent: (("waves", "adding", "first"), {**COOLED, "width": WIDTH, "clip": Range(0.01, 10, log=True)}),
    autoencoder: (
        ("digits", "breast_cancer", "wine"),
        {**SGD, "width": WIDTH, "code": Range(1, 16, log=True, integer=True), "noise": Range(0.0, 1.0)},
    ),
}
TASKS = {
    f"{kind.__name__}-{name}": Task(ranges, partial(kind, name))
    for kind, (names, ranges) in KINDS.items()
    for name in names
}
HELD_OUT = (
    *(name for name in TASKS if name.startswith(("recurrent", "autoencoder"))),
    "perceptron-friedman",
    "convolutional-rings",
)
"""A third of the tasks, two whole kinds among them: named before the first run, looked at after the last choice."""
