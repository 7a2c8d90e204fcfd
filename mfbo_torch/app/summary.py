"""The summary of a run: made once, and read by ``summary.json``, the terminal, ``mfbo best`` and the page."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

from mfbo_torch.history import History, Recommendation, Record, Status
from mfbo_torch.loop.eta import Forecast, forecast
from mfbo_torch.loop.front.solutions import KNEE, Solution, solutions
from mfbo_torch.loop.minimize import recommended
from mfbo_torch.problems.base import Problem
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.utils.output_streams import logger
from mfbo_torch.utils.validation import describe

LOGGER = logger(__name__)
PACKAGES = ("mfbo-torch", "torch", "botorch", "gpytorch")
"""Packages whose versions are noted."""


@dataclass(frozen=True)
class Summary:
    """A run and its results; what needs a model is computed once, when it is first read.

    The problem may be a stand-in that cannot be evaluated; the strategy is bound to its space and the capital.
    """

    settings: Mapping[str, Any]
    problem: Problem
    strategy: Strategy
    history: History
    stopped: str = ""
    """Why it ended before its capital was spent; empty where it did not."""
    finished: bool = False

    @cached_property
    def best(self) -> Record | None:
        """The best observation at the target; of several objectives the knee of the front."""
        knee = next((one.id for one in self.front if KNEE in one.labels), None)
        return self.history.best(self.problem.space.target) if knee is None else self.history.records[knee]

    @cached_property
    def front(self) -> list[Solution]:
        """The front of several objectives, empty of one."""
        return solutions(self.history, self.problem, self.strategy) if self.problem.space.objectives else []

    @cached_property
    def recommended(self) -> Record | Recommendation | None:
        """As :func:`~mfbo_torch.loop.minimize.recommended` has it."""
        return recommended(self.strategy, self.history)

    @cached_property
    def recommended_parameters(self) -> dict[str, Any] | None:
        """What the model recommends, by name: a design, or ``x1, x2, ...`` of an input; ``None`` for an observation."""
        if not isinstance(self.recommended, Recommendation):
            return None
        if self.recommended.best is None:
            return {f"x{i}": value for i, value in enumerate(self.recommended.x, 1)}
        return self.problem.space.named(self.recommended.x)

    @cached_property
    def expected(self) -> str:
        """What the model expects at the recommended design, in words; empty where it recommends none."""
        model = self.recommended
        if not isinstance(model, Recommendation):
            return ""
        feasible = "" if model.feasible is None else f", feasible with probability {model.feasible:.3g}"
        return f"{self.problem.signed(model.mean):.5g} ± {model.deviation:.2g} is expected{feasible}"

    @cached_property
    def noise(self) -> str:
        """The standard deviation of the noise at each fidelity where the model knows it, in words."""
        if not isinstance(self.recommended, Recommendation):
            return ""
        name, known = self.problem.space.fidelity_name, enumerate(self.recommended.noise)
        return ", ".join(f"{noise:.2g} at {name(m)}" for m, noise in known if noise is not None)

    @cached_property
    def explained(self) -> list[float] | None:
        """The share of the target's variance that each fidelity explains; ``None`` without a model that says it."""
        try:
            found = self.strategy.explained(self.history)
        except Exception as error:  # as above
            LOGGER.debug("no shares of the variance, as the model failed: %s", describe(error))
            return None
        return None if found is None else list(found)

    @cached_property
    def forecast(self) -> Forecast | None:
        """What the rest of the capital is likely to pay for; ``None`` where that is nothing, not known, or the run
        has ended."""
        workers = self.settings.get("max_pending") or self.settings.get("workers") or 1
        return (
            None
            if self.stopped or self.finished
            else forecast(self.strategy, self.history, self.settings["capital"], workers)
        )

    @cached_property
    def constraints(self) -> dict[str, dict[str, Any]]:
        """For each limit on an outcome: how many observations keep it, and its value at the best one."""
        found: dict[str, dict[str, Any]] = {}
        for limit in self.problem.space.limits:
            met = [r.outcomes[limit.name].met for r in self.history.done]
            at_best = None if self.best is None else self.best.outcomes[limit.name].value
            found[limit.name] = {"limit": str(limit), "kept": sum(met), "of": len(met), "at_best": at_best}
        return found

    @cached_property
    def values(self) -> dict[str, Any]:
        """All of it as JSON values; ``"recommended"`` is ``None`` where the model recommends an observation."""
        space, history, model = self.problem.space, self.history, self.recommended
        recommended = None
        if isinstance(model, Recommendation):
            recommended = {
                "parameters": self.recommended_parameters,
                "mean": self.problem.signed(model.mean),
                "deviation": model.deviation,
                "noise": list(model.noise),
                **({} if model.feasible is None else {"feasible": model.feasible}),
            }
        return {
            "problem": self.problem.name,
            "strategy": type(self.strategy).__name__,
            "best_parameters": None if self.best is None else space.named(self.best.query.x),
            "best_value": self.problem.value_of(self.best),
            "recommended": recommended,
            **({"front": [asdict(one) for one in self.front]} if space.objectives else {}),
            **({"constraints": self.constraints} if space.limits else {}),
            "capital": self.settings["capital"],
            "spent": history.spent,
            "stopped": self.stopped or None,
            "forecast": None if self.forecast is None else self.forecast._asdict(),
            "fidelities": None if space.fidelities is None else {space.fidelities.name: list(space.fidelities.values)},
            "queries_per_fidelity": history.queries_per_fidelity(space.num_fidelities),
            "explained": self.explained,
            "failures": len(history.select(Status.FAILED)),
            "decision_seconds": math.fsum(r.decision_seconds for r in history),
            "evaluation_seconds": math.fsum(r.evaluation_seconds for r in history),
            "seed": self.settings["seed"],
            "versions": {
                **{name.replace("-", "_"): version(name) for name in PACKAGES},
                "python": platform.python_version(),
            },
            "finished": self.finished,
        }
