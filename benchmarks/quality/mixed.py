"""Tunings with choices, conditions and booleans, beside Optuna and SMAC3, at equal capital.

A study (:mod:`benchmarks.study`): ``mixed.csv``, and in ``mixed.md`` the median and the worst seed of each. The tunings
are real, on data that come with scikit-learn, and deterministic. What is maximised is the negative logarithm of the
cross entropy of held-out data, or of the share of wrong answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import median

import torch

from benchmarks.common import markdown
from benchmarks.quality.robust.peers import PEERS, Ledger, installed
from benchmarks.quality.robust.tunings import CLASSES, Array, boosted, digits, trained
from benchmarks.study import Job, Look, Row, Study, grouped
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import Problem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import MFGPUCB, ExpectedImprovement, RandomSearch, Strategy

DESCENTS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
}


class Optimisers(Problem):
    """A small neural network by epochs: 1, 3, 9 and 27 of them at as many units of cost, the target last.

    64 inputs, one hidden layer, ten classes, batches of 50.
    """

    epochs = (1, 3, 9, 27)

    def __init__(self) -> None:
        parameters = (
            Parameter("optimizer", choices=["sgd", "adam", "rmsprop", "adagrad"]),
            Parameter("rate", 1e-4, 10.0, log=True),
            Parameter("units", 4, 64, log=True, integer=True),
            Parameter("activation", choices=["relu", "tanh", "sigmoid"]),
            Parameter("momentum", 0.0, 0.99, when={"optimizer": "sgd"}),
        )
        self.space = Space(parameters, tuple(map(float, self.epochs)))

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        point, level = self.checked(x, fidelity)
        named = self.space.named(point)
        activation = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}[named["activation"]]
        kind, momentum = DESCENTS[named["optimizer"]], {k: named[k] for k in ("momentum",) if k in named}
        return trained(
            lambda: (torch.nn.Linear(64, named["units"]), activation(), torch.nn.Linear(named["units"], CLASSES)),
            lambda parameters: kind(parameters, lr=named["rate"], **momentum),
            self.epochs[level],
        )


class Kernels(Problem):
    """A support vector machine by share of the data: 120, 360 and all 1,200 digits, the target last."""

    sizes = (120, 360, 1200)

    def __init__(self) -> None:
        parameters = (
            Parameter("kernel", choices=["linear", "poly", "rbf", "sigmoid"]),
            Parameter("C", 1e-3, 1e3, log=True),
            Parameter("gamma", 1e-4, 10.0, log=True, when={"kernel": ["poly", "rbf", "sigmoid"]}),
            Parameter("degree", 2, 5, integer=True, when={"kernel": "poly"}),
            Parameter("coef0", -1.0, 1.0, when={"kernel": ["poly", "sigmoid"]}),
            Parameter("class_weight", choices=[None, "balanced"]),
        )
        self.space = Space(parameters, (1.0, 4.0, 20.0))

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        from sklearn.svm import SVC

        point, level = self.checked(x, fidelity)
        features, labels, others, truth = digits()
        size = self.sizes[level]
        model = SVC(**self.space.named(point), max_iter=20_000).fit(features[:size], labels[:size])
        wrong = float((model.predict(others) != truth).mean())
        return -math.log(wrong + 1 / (2 * len(truth)))


@cache
def tumours() -> tuple[Array, Array, Array, Array]:
    """Features and labels of 380 tumours to train on and of the other 189."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    features, labels = load_breast_cancer(return_X_y=True)
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(labels))
    features, labels = features[order], labels[order]
    return features[:380], labels[:380], features[380:], labels[380:]


class Booleans(Problem):
    """Sixty rounds of boosted trees by share of the data: 60, 150 and all 380 tumours, the target last."""

    sizes = (60, 150, 380)

    def __init__(self) -> None:
        parameters = (
            Parameter("rate", 0.01, 1.0, log=True),
            Parameter("leaves", 2, 32, integer=True),
            Parameter("features", 0.1, 1.0),
            Parameter("interact", choices=[True, False]),
            Parameter("balanced", choices=[True, False]),
            Parameter("early", choices=[True, False]),
            Parameter("patience", 1, 10, integer=True, when={"early": True}),
        )
        self.space = Space(parameters, (1.0, 2.5, 6.3))

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        point, level = self.checked(x, fidelity)
        named = self.space.named(point)
        return boosted(
            tumours(),
            self.sizes[level],
            learning_rate=named["rate"],
            max_leaf_nodes=named["leaves"],
            max_features=named["features"],
            interaction_cst=None if named["interact"] else "no_interactions",
            class_weight="balanced" if named["balanced"] else None,
            early_stopping=named["early"],
            n_iter_no_change=named.get("patience", 1),
            max_iter=60,
        )


TUNINGS = {"network": Optimisers, "svm": Kernels, "trees": Booleans}
OURS: dict[str, Callable[[int], Strategy]] = {
    "MFGPUCB": lambda seed: MFGPUCB(seed=seed),
    "EI": lambda seed: ExpectedImprovement(seed=seed),
    "Random": lambda seed: RandomSearch(seed=seed),
}
OTHERS = ("OptunaTPE", "OptunaHyperband", "SMACMultiFidelity")


def play(job: Job, problem: Problem, capital: float) -> History:
    """A run of a strategy or of a peer."""
    if job.method in OURS:
        return run(problem, OURS[job.method](job.seed), capital, progress=False)
    return Ledger(problem, capital).filled(PEERS[job.method], job.seed)


def measured(look: Look) -> Row:
    """``value``: the best at the target, empty before there is one."""
    target, part = look.problem.space.target, look.history
    best = part.best(target)
    value = "" if best is None else best.value
    return value, look.spent, len(part), part.queries_per_fidelity(target + 1)[-1], look.decision_seconds


def report(path: Path) -> None:
    """The median and the worst seed of the best value, for each problem and capital."""
    rows = grouped(path)
    lines = ["# Tunings with choices", "", "Median (worst seed) of the best value at the target; larger is better.", ""]
    methods = [method for method in STUDY.methods if any(key[1] == method for key in rows)]
    for problem in TUNINGS:
        capitals = sorted({capital for name, _, capital in rows if name == problem})
        if not capitals:
            continue
        body = []
        for capital in capitals:
            found = [[float(r["value"] or "-inf") for r in rows.get((problem, m, capital), [])] for m in methods]
            cells = [f"{median(v):.3f} ({min(v):.3f}), {len(v)}" if v else "-" for v in found]
            body.append([f"{capital:g}", *cells])
        lines += [f"## {problem}", "", *markdown(["capital", *methods], body, left=0), ""]
    text = "\n".join([*lines, "The last number of each entry is the number of seeds.", ""])
    path.with_suffix(".md").write_text(text, encoding="utf-8")


STUDY = Study(
    "benchmarks.quality.mixed",
    "mixed",
    TUNINGS,
    dict.fromkeys((*OURS, *OTHERS)),
    (5, 10, 20),
    ("value", "spent", "queries", "target_queries", "decision_seconds"),
    measured,
    minutes=20,
    play=play,
    report=report,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the table; the exit status."""
    given = STUDY.parser(__doc__).parse_args(arguments)
    given.methods = installed(given.methods)
    return STUDY.finish(given)


if __name__ == "__main__":
    raise SystemExit(main())
