"""A searcher of Ray Tune."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray.cloudpickle as cloudpickle
from ray.tune.search import Searcher as TuneSearcher

from mfbo_torch.history import History
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.ray.codec import codec_of, nested
from mfbo_torch.space.codec import Codec
from mfbo_torch.strategies import MFGPUCB
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.by_name import strategy_of
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import describe, number, one_of


class Searcher(TuneSearcher):
    """A strategy as the ``search_alg`` of Ray Tune.

    It chooses the parameters of each trial, and how far it goes: ``fidelity`` names the parameter that says so, of
    which short trials come first. No scheduler is needed to stop trials early, and none should: Tune does not say that
    it has stopped a trial, whose last value would be taken for that of the whole trial.

    Args:
        fidelity: The parameter whose values are the fidelities, as in ``{"epochs": tune.choice([3, 9, 27])}``.
        costs: What a trial costs at each of its values; the values themselves if not given.
        capital: What may be spent; without it Tune's ``num_samples`` ends the search, and strategies that plan for a
            capital take that number of trials at the target.
        strategy: How to search, or its name; :class:`~mfbo_torch.MFGPUCB` if not given.
        seed: Of a strategy that is named or not given; 0 if not given.
        metric: What is optimised; Tune's own if not given.
        mode: ``"min"`` or ``"max"``; Tune's own if not given.

    Raises:
        SettingError: A setting cannot work, or the search space has something that is none of a space here.
    """

    def __init__(
        self,
        fidelity: str | None = None,
        costs: Mapping[Any, float] | None = None,
        capital: float | None = None,
        strategy: Strategy | str | None = None,
        seed: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        self._metric: str | None
        self._mode: str | None
        self.fidelity, self.costs, self.capital = fidelity, costs, capital
        self.strategy = strategy_of(strategy, seed, MFGPUCB)
        self._config: dict[str, Any] = {}
        self._total = 0.0
        self._codec: Codec | None = None
        self._optimizer: Optimizer | None = None
        self._ids: dict[str, int] = {}
        self._unheard: set[str] = set()  # in flight when they were saved: Tune may have given them up
        self._refused: History | None = None  # after which no trial could begin

    @property
    def history(self) -> History:
        """All trials so far; their values are to be maximised."""
        return History() if self._optimizer is None else self._optimizer.history

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take over Tune's search space, once."""
        if self._optimizer is not None:
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if not isinstance(self._metric, str):
            raise SettingError("metric", self._metric, "the name of what trials report, in TuneConfig or here")
        one_of("mode", self._mode, ("min", "max"))
        self._config = config
        costs, samples = codec_of(*self._space).space.costs, spec.get("num_samples") or -1
        samples = samples if 0 < samples < sys.maxsize else 100  # -1, to Tune the largest, goes on until time is out
        self._total = samples * costs[-1] if self.capital is None else number("capital", self.capital, costs[0])
        self._begin(History())
        return True

    @property
    def _space(self) -> tuple[Any, ...]:
        return self._config, self.fidelity, self.costs

    def _begin(self, history: History) -> None:
        self._codec = codec_of(*self._space)
        self._optimizer = Optimizer(self.strategy.bind(self._codec.space, self._total), history=history)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The parameters of the next trial, none while it waits for values; Tune's ``FINISHED`` once the capital is
        spent."""
        if self._optimizer is None or self._codec is None:
            raise SettingError("param_space", None, "given to the Tuner, with something to search")
        known, waits, queried = self._optimizer.history, not self._ids.keys() <= self._unheard, []
        if known is not self._refused:
            decision = self._optimizer.deciding()()
            queried = self._optimizer.accept(decision, capital=self.capital or math.inf, waits=waits)
        if not queried:
            self._refused = known
            return None if waits else str(TuneSearcher.FINISHED)
        self._ids[trial_id] = queried[0].id
        query = queried[0].query
        return nested(self._codec.decode(query.x, query.fidelity))

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Note that a trial is in flight."""
        self._unheard.discard(trial_id)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Take in the last value of a trial, or that it has failed."""
        if self._optimizer is None or (id := self._ids.pop(trial_id, None)) is None:
            return
        value = (result or {}).get(self.metric)
        if error or value is None:
            self._optimizer.fail(id, "the trial failed" if error else f"it has not reported {self.metric}")
            return
        try:
            found = float(value)
        except Exception as wrong:  # of whatever kind: the value is the training's
            self._optimizer.fail(id, f"{self.metric} is no number: {describe(wrong)}")
        else:
            self._optimizer.tell(id, found if self.mode == "max" else -found)

    def save(self, checkpoint_path: str) -> None:
        """Keep what :meth:`restore` needs."""
        kept = self._metric, self._mode, self._config, self._total, [*self.history], self._ids
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(kept))

    def restore(self, checkpoint_path: str) -> None:
        """Go on where a saved search was; trials in flight then may come, but none is waited for until it reports."""
        kept = cloudpickle.loads(Path(checkpoint_path).read_bytes())
        self._metric, self._mode, self._config, self._total, records, self._ids = kept
        self._unheard = {*self._ids}
        self._begin(History(records))
