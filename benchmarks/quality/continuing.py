"""The same network with and without ``continues: true``, at equal true epochs.

A study (:mod:`benchmarks.study`): ``continuing.csv``, the best loss at 27 epochs by epochs trained, which are the
capital, and ``continuing.md``. A perceptron on the digits of scikit-learn by 3, 9 and 27 epochs, to the least loss on
what is held out, other parts with each seed. ``MFGPUCB`` spends as many epochs either way; a training that goes on
gives the network that one from the beginning would have, to the last bit.
"""

from __future__ import annotations

import math
import pickle
import statistics
import warnings
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from benchmarks.common import markdown
from benchmarks.study import Job, Row, Study, read
from mfbo_torch import MFGPUCB
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import capital_spent, paid_for
from mfbo_torch.problems import UserProblem
from mfbo_torch.problems.trial import Trial

EPOCHS = (3, 9, 27)
PARAMETERS: dict[str, dict[str, Any]] = {
    "rate": {"lower": 1e-4, "upper": 1e-1, "log": True},
    "penalty": {"lower": 1e-6, "upper": 1e-1, "log": True},
    "neurons": {"lower": 4, "upper": 64, "log": True, "integer": True},
}


class Network:
    """Trains on seven tenths of the digits; ``trained`` counts the epochs that really ran."""

    def __init__(self, seed: int) -> None:
        X, y = load_digits(return_X_y=True)
        self.parts = train_test_split(X / 16, y, test_size=0.3, random_state=seed)
        self.trained = 0

    def goes_on(self, rate: float, penalty: float, neurons: int, epochs: int, trial: Trial) -> float:
        """From the checkpoint of the fidelity below."""
        model, done = None, 0
        if trial.below is not None:
            done = int(trial.below.at)
            model = pickle.loads((trial.folder / f"{done}.pickle").read_bytes())
        model, loss = self._train(model, done, rate, penalty, neurons, epochs)
        (trial.folder / f"{epochs}.pickle").write_bytes(pickle.dumps(model))
        return loss

    def anew(self, rate: float, penalty: float, neurons: int, epochs: int) -> float:
        """From the beginning."""
        return self._train(None, 0, rate, penalty, neurons, epochs)[1]

    def _train(
        self, model: Any, done: int, rate: float, penalty: float, neurons: int, epochs: int
    ) -> tuple[Any, float]:
        X, X_out, y, y_out = self.parts
        if model is None:
            model = MLPClassifier((neurons,), learning_rate_init=rate, alpha=penalty, batch_size=32, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(done, epochs):
                model.partial_fit(X, y, classes=range(10))
                self.trained += 1
        return model, float(log_loss(y_out, model.predict_proba(X_out)))


def execute(job: Job) -> list[Row]:
    """One run; the best loss at the target after each number of epochs."""
    network, on = Network(job.seed), job.method == "continues"
    train, settings = network.goes_on if on else network.anew, {"maximize": False, "continues": on}
    problem = UserProblem(train, PARAMETERS, fidelities={"epochs": list(EPOCHS)}, **settings)
    history = run(problem, MFGPUCB(hedge=False, seed=job.seed), float(max(job.capitals)), progress=False)
    if network.trained != history.spent:
        raise RuntimeError(f"{network.trained} epochs were trained, {history.spent:g} paid")
    rows: list[Row] = []
    for epochs, within in zip(job.capitals, paid_for(capital_spent(history), job.capitals).tolist(), strict=True):
        part = History(history.records[:within])
        losses = [-r.value for r in part if r.query.fidelity == 2 and r.value is not None]
        rows.append((*job[:3], epochs, min(losses, default=math.inf), within, len(losses)))
    return rows


def report(path: Path) -> None:
    """Medians by epochs, and in how many seeds going on is ahead, as Markdown."""
    rows = read(path)
    losses = {(r["method"], int(r["seed"]), int(r["capital"])): (float(r["loss"]), int(r["at_target"])) for r in rows}
    lines = ["Best held-out loss at 27 epochs, by epochs trained in all (median, worst; networks trained to 27)", ""]
    body = []
    for epochs in sorted({epochs for *_, epochs in losses}):
        seeds = [s for m, s, e in losses if m == "anew" and e == epochs and ("continues", s, e) in losses]
        if not seeds:
            continue
        cells = []
        for method in STUDY.methods:
            found, at_target = zip(*(losses[method, seed, epochs] for seed in seeds), strict=True)
            cells.append(f"{statistics.median(found):.4f}, {max(found):.4f}; {statistics.median(at_target):g}")
        ahead = sum(losses["continues", seed, epochs][0] < losses["anew", seed, epochs][0] for seed in seeds)
        body.append([str(epochs), str(len(seeds)), *cells, str(ahead)])
    lines += markdown(["epochs", "seeds", *STUDY.methods, "continues ahead"], body, left=0)
    text = "\n".join(lines) + "\n"
    path.with_suffix(".md").write_text(text)
    print(text)


STUDY = Study(
    "benchmarks.quality.continuing",
    "continuing",
    {"digits": load_digits},
    dict.fromkeys(("continues", "anew")),
    tuple(27 * n for n in (4, 6, 8, 10, 12)),
    ("loss", "queries", "at_target"),
    execute=execute,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
