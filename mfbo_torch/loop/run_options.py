"""The options of a run, from the command line to the loop, and its capital."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfbo_torch.history.storage.captured_output import LONGEST
from mfbo_torch.loop import Kind
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.output_streams import logger
from mfbo_torch.utils.validation import number, one_of, whole

if TYPE_CHECKING:
    from mfbo_torch.loop.executors import Workers
    from mfbo_torch.loop.executors.resources import Placement
    from mfbo_torch.problems.base import Problem
    from mfbo_torch.strategies.base import Strategy

LOG = logger(__name__)


def _option(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


_LIMITS: dict[str, dict[str, Any]] = {
    "time_limit": {"above": 0, "wanted": "a number of seconds above 0"},
    "stop_at": {},
    "patience": {"above": 0, "wanted": "a capital above 0"},
    "stop_gain": {"above": 0, "below": 1},
}
"""The options that end a run early, with the bounds of each."""


@dataclass(frozen=True)
class RunOptions:
    """Options of evaluations. They may differ when a run is continued: its decisions depend on the history alone.

    Each field is a setting of ``mfbo run``, with its name, type, default and help. ``executor``, ``workers``,
    ``scheduler`` and ``timeout`` say what :meth:`start` starts, those from ``time_limit`` on when a run ends early.
    """

    max_pending: int | None = _option(None, "queries in flight at once; as many as workers")
    workers: int = _option(1, "evaluations at once; 1 process: this one")
    executor: Kind | Mapping[str, Any] = _option("processes", "what workers are, or kind and resources")  # noqa: RUF009
    scheduler: str | None = _option(None, "Dask or Ray cluster; one on this machine if not given")
    timeout: float | None = _option(None, "seconds after which an evaluation is ended, and failed")
    retries: int = _option(0, "how often an evaluation that failed is tried again")
    charge_retries: bool = _option(True, "whether each attempt costs as much again")
    charge_deciding: bool = _option(False, "whether deciding is paid for too, where costs are measured")
    time_limit: float | None = _option(None, "seconds after which nothing more is started")
    stop_at: float | None = _option(None, "a value at the target that is good enough")
    patience: float | None = _option(None, "capital after which a run ends that found no better value")
    output_limit: int = _option(20_000, "characters that are kept of what an evaluation prints; 0: none")
    stop_gain: float | None = _option(None, "part of the range of values that is not worth going on for")

    def __post_init__(self) -> None:
        if self.max_pending is not None:
            whole("max_pending", self.max_pending)
        whole("retries", self.retries, 0)
        whole("output_limit", self.output_limit, 0, LONGEST)
        for flag in ("charge_retries", "charge_deciding"):
            one_of(flag, getattr(self, flag), (True, False))
        for setting, bounds in _LIMITS.items():
            if getattr(self, setting) is not None:
                number(setting, getattr(self, setting), **bounds)

    @property
    def placement(self) -> Placement:
        """The executor, and the resources of evaluations on it."""
        from mfbo_torch.loop.executors.resources import Placement  # loads all executors

        return Placement.read(self.executor)

    def check(self, problem: Problem) -> None:
        """Refuse to charge for deciding where costs are not measured, resources of a fidelity that is not there, and to
        wait for a best value where there are several objectives, or for a gain where outcomes have limits."""
        self.placement.check(problem.space.num_fidelities)
        if self.charge_deciding and not problem.space.measured:
            raise SettingError("charge_deciding", True, "false, or the problem's costs: measured")
        for setting in ("stop_at", "patience", "stop_gain") if problem.space.objectives else ():
            if (given := getattr(self, setting)) is not None:
                names = ", ".join(one.name for one in problem.space.objectives)
                raise SettingError(setting, given, f"left out: it is about one best value, and there are {names}")
        if self.stop_gain is not None and problem.space.limits:
            wanted = "left out: its bound knows nothing of limits; patience waits for a best value that keeps them"
            raise SettingError("stop_gain", self.stop_gain, wanted)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> RunOptions:
        """Those among the resolved settings of a run."""
        return cls(**{option.name: settings[option.name] for option in fields(cls)})

    def start(self, folder: Path | None = None) -> AbstractContextManager[Workers | None]:
        """Where to evaluate, jobs kept in a folder; ``None`` in the context is here."""
        from mfbo_torch.loop import executors

        if self.scheduler is not None and self.workers != 1:
            raise SettingError("workers", self.workers, "left out, the scheduler has its own")
        workers = None if self.scheduler else self.workers
        found = executors.start(self.executor, workers, self.scheduler, self.timeout, folder)
        alone = self.placement.kind == "processes" and self.workers == 1 and self.timeout is None
        return nullcontext() if alone else found


def check_capital(problem: Problem, capital: float) -> float:
    """A capital that pays for a query of the problem at least."""
    found, cheapest = number("capital", capital), min(problem.space.costs)
    if problem.space.measured:
        return number("capital", found, above=0.0, wanted="a number of seconds above 0")
    return number("capital", found, cheapest, wanted=f"at least {cheapest:g}, the cost of the cheapest query")


def bound(strategy: Strategy, problem: Problem, capital: float) -> Strategy:
    """A strategy for a problem and a capital; a ``SettingError`` where it searches another space."""
    if strategy.own_space not in (None, problem.space):
        wanted = f"without a space of its own, as {type(strategy).__name__}(): that of the problem is another one"
        raise SettingError("strategy", type(strategy).__name__, wanted)
    return strategy.bind(problem.space, capital)


def warn_of_no_target(problem: Problem, capital: float) -> None:
    """Say so where a capital pays for no query of the target, and designs are wanted that were seen there."""
    from mfbo_torch.space import IndirectSpace  # loads torch

    space, cost = problem.space, problem.space.costs[-1]
    if capital < cost and not (space.measured or isinstance(space, IndirectSpace)):
        LOG.warning("capital = %g pays for no query of the target: give %g or more", capital, cost)
