"""What trains designs of the unit cube epoch by epoch: ours, Optuna's pruners, Syne Tune, random search.

Each begins or takes up trainings, is told every epoch's loss, and says whether that training goes on. Syne Tune is
imported when it runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import optuna

from benchmarks.quality.trainings.tasks import EPOCHS
from mfbo_torch import Optimizer, Parameter, Space
from mfbo_torch.history.learning_curves import steps


class Running(NamedTuple):
    """A training on a worker: its design, the epochs that it has behind it, and who is told of the next.

    ``told`` is given the number of an epoch and its loss, and says whether the next is trained.
    """

    u: list[float]
    done: int
    told: Callable[[int, float], bool]


class Method(Protocol):
    """Gives each free worker a training, ``None`` where it has no more."""

    def begin(self) -> Running | None: ...


class Ours:
    """A strategy of this package, asked and told; trainings go on where they paused."""

    def __init__(self, strategy: Any, dim: int, capital: float) -> None:
        space = Space([Parameter(f"x{i}", 0.0, 1.0) for i in range(dim)], epochs=EPOCHS)
        self.optimizer, self.capital = Optimizer(strategy.bind(space, capital)), capital

    def begin(self) -> Running | None:
        asked = self.optimizer.ask(capital=self.capital)
        if not asked:
            return None
        record, ends = asked[0], [int(step) for step in steps(self.optimizer.space)]
        x, end = record.query.x, ends[record.query.fidelity]
        done = max((ends[r.query.fidelity] for r in self.optimizer.history.done if r.query.x == x), default=0)
        curve: dict[float, float] = {}

        def told(epoch: int, loss: float) -> bool:
            curve[epoch] = -loss
            if epoch == end:
                self.optimizer.tell(record.id, -loss, curve=curve)
            return epoch < end

        return Running(list(x), done, told)


class Optuna:
    """A sampler and a pruner of Optuna, asked and told."""

    def __init__(self, sampler: Any, pruner: Any, dim: int) -> None:
        self.study = optuna.create_study(sampler=sampler, pruner=pruner, study_name="trainings")  # Hyperband hashes it
        self.ranges = {f"x{i}": optuna.distributions.FloatDistribution(0.0, 1.0) for i in range(dim)}

    def begin(self) -> Running:
        trial = self.study.ask(dict(self.ranges))

        def told(epoch: int, loss: float) -> bool:
            trial.report(loss, epoch)
            if epoch == EPOCHS:
                self.study.tell(trial, loss)
            elif trial.should_prune():
                self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                return False
            return epoch < EPOCHS

        return Running(list(trial.params.values()), 0, told)


class SyneTune:
    """A scheduler of Syne Tune, which draws from NumPy's and Python's own random numbers as well."""

    def __init__(self, name: str, dim: int, seed: int) -> None:
        from syne_tune.config_space import uniform
        from syne_tune.optimizer import baselines

        random.seed(seed)
        np.random.seed(seed)
        ranges = {f"x{i}": uniform(0.0, 1.0) for i in range(dim)}
        settings = {"metric": "loss", "time_attr": "epoch", "max_t": EPOCHS, "random_seed": seed}
        self.scheduler = getattr(baselines, name)(ranges, **settings)
        self.count = 0

    def begin(self) -> Running:
        from datetime import datetime

        from syne_tune.backend.trial_status import Trial

        suggestion = self.scheduler.suggest()
        trial = Trial(self.count, suggestion.config, datetime(2026, 1, 1))
        self.count += 1
        self.scheduler.on_trial_add(trial)

        def told(epoch: int, loss: float) -> bool:
            result = {"loss": loss, "epoch": epoch}
            if epoch == EPOCHS:
                self.scheduler.on_trial_complete(trial, result)
                return False
            if self.scheduler.on_trial_result(trial, result) != "CONTINUE":
                self.scheduler.on_trial_remove(trial)
                return False
            return True

        return Running([float(value) for value in suggestion.config.values()], 0, told)


class Random:
    """Designs at random, each trained to its end."""

    def __init__(self, dim: int, seed: int) -> None:
        self.draws, self.dim = np.random.default_rng(seed), dim

    def begin(self) -> Running:
        return Running(self.draws.random(self.dim).tolist(), 0, lambda epoch, loss: epoch < EPOCHS)
