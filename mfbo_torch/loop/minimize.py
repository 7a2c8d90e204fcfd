"""A whole optimisation in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from mfbo_torch.history import History, Recommendation, Record, Status
from mfbo_torch.history.learning_curves import LearningCurve, learning_curves
from mfbo_torch.history.observation import Returned
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.front.solutions import KNEE, Solution, solutions
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.loop.runner import drive
from mfbo_torch.metrics.front import hypervolume as volume
from mfbo_torch.metrics.front import objective_values, reference_point
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.shown_history import ShownHistory
from mfbo_torch.problems.user.function import FunctionProblem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.objectives import objectives_of
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.by_name import strategy_of, usual
from mfbo_torch.strategies.explanation import Explanation
from mfbo_torch.utils import html_table
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.global_state import GlobalState
from mfbo_torch.utils.output_streams import logger, printable
from mfbo_torch.utils.validation import describe, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOG = logger(__name__)


Where = Space | Sequence[Parameter] | Mapping[str, Any]
"""A space; or the parameters of one with a single fidelity of cost 1, as a sequence or as
:func:`~mfbo_torch.space.shorthand.parameters_of` has them: ``{"x": (0, 1), "kernel": ["rbf", "linear"]}``."""

Names = Sequence[str] | Mapping[str, str]
"""A text for each objective, in their order or by name."""


@dataclass(frozen=True, repr=False)
class Result:
    """The result of an optimisation, with SciPy's names where SciPy has one.

    Attributes:
        x: The best design at the target, ``d`` values in the user's units; ``None`` for one that has no effect there.
        fun: The objective there, in its own sign; NaN where nothing was evaluated at the target.
        parameters: ``x`` by name.
        success: Whether there is a value at the target, and neither an interrupt nor ``time_limit`` ended the run.
        message: How it ended.
        nfev: Number of evaluations, failed ones included.
        spent: Their cost.
        recommended: The best design by the model where values are noisy, the best arm of a bandit; else ``None``.
        front: The designs at the target that no other one dominates, from the best value of the first objective on. Of
            several objectives ``x`` is its knee, and ``fun`` the first objective there.
        history: Every query. Values are to be maximised there: minus the objective's where that is minimised.
        problem: What was optimised.
    """

    x: tuple[Any, ...]
    fun: float
    parameters: dict[str, Any]
    success: bool
    message: str
    nfev: int
    spent: float
    recommended: Recommendation | None
    front: list[Solution]
    history: History = field(compare=False)
    problem: Problem = field(compare=False)

    @property
    def hypervolume(self) -> float:
        """The volume that the front dominates above the reference point, in the product of the objectives' units; NaN
        where there is no front."""
        space, records = self.problem.space, [self.history.records[solution.id] for solution in self.front]
        if not space.objectives or not records:
            return math.nan
        Y = objective_values(records, space.objectives)
        return volume(Y, reference_point(space, Y))

    @property
    def curves(self) -> list[LearningCurve]:
        """The learning curve of each training, in the order in which they were begun, in the objective's own sign; none
        where evaluations are no trainings."""
        trained = self.problem.space.continues or any(record.curve for record in self.history)
        found = learning_curves(self.history, self.problem.space) if trained else []
        return [curve.signed(self.problem.maximize) for curve in found]

    def explain(self, query: Record | int) -> str:
        """Why a query of the :attr:`history`, or the one of this number, was made, and what came of it.

        Raises:
            SettingError: There is no query of this number.
        """
        number = query.id if isinstance(query, Record) else whole("query", query, 0, len(self.history) - 1)
        record = self.history.records[number]
        return str(Explanation(record, self.history, self.problem.space, self.problem.signed))

    def plot(self) -> Figure:
        """Values against the capital spent, and where it went; of several objectives the front and its hypervolume."""
        from mfbo_torch.loop import plots  # matplotlib, which most calls do without

        if self.problem.space.objectives:
            from mfbo_torch.loop.front.pictures import plot_front

            return plot_front(self.history, self.problem, self.front)
        return plots.progress(self.history, self.problem)

    def plot_learning_curves(self) -> Figure:
        """The learning curves of all trainings: the best ones coloured, the others grey."""
        from mfbo_torch.loop.curve_plots import plot_learning_curves

        return plot_learning_curves(self.history, self.problem)

    def _rows(self) -> list[tuple[str, object]]:
        rows: list[tuple[str, object]] = [("message", self.message), ("success", self.success), ("fun", self.fun)]
        rows += self.parameters.items()
        if self.recommended is not None:
            rows.append(("recommended", self.problem.space.named(self.recommended.x)))
        return [*rows, ("nfev", self.nfev), ("spent", self.spent)]

    def __repr__(self) -> str:
        rows = [(printable(name), printable(value)) for name, value in self._rows()]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:>{width}}: {value}" for name, value in rows)

    def _repr_html_(self) -> str:
        return html_table.table(self.problem.name, ("", ""), self._rows())


def minimize(
    function: Callable[..., Returned],
    space: Where,
    capital: float,
    *,
    strategy: Strategy | str | None = None,
    seed: int | None = None,
    executor: Executor | None = None,
    max_pending: int | None = 1,
    journal: Journal | None = None,
    progress: bool = False,
    retries: int = 0,
    time_limit: float | None = None,
    stop_at: float | None = None,
    patience: float | None = None,
    stop_gain: float | None = None,
    callbacks: Sequence[Any] = (),
    objectives: Names | None = None,
    directions: Names | None = None,
    reference: Sequence[float] | Mapping[str, float] | None = None,
) -> Result:
    """Find where a function is smallest.

    Args:
        function: ``f(parameters, fidelity)``, the parameters as a mapping, or ``f(rate, width, fidelity)``, each by its
            name; with a single fidelity without that. It returns a number; ``{"value": ..., "standard_error": ...}``
            where its noise is known; with outcomes, ``{"value": ..., "latency": ...}``, where the space has limits. It
            may take a ``trial`` (:class:`~mfbo_torch.problems.trial.Trial`), and does where the space ``continues``.
        space: Where to search, and what an evaluation costs at each fidelity.
        capital: What may be spent, in the unit of the costs; the number of evaluations where there is one fidelity
            and no cost was given.
        strategy: How to search, or its name, ``"RandomSearch"``; if not given :class:`~mfbo_torch.MFGPUCB`, and for
            trainings, where the space has ``epochs``, :class:`~mfbo_torch.FreezeThaw`; for several objectives
            :class:`~mfbo_torch.MFEHVI`.
        seed: Seed of the random choices of a strategy that is named or not given; 0 if not given.
        executor: Where to evaluate; here if not given.
        max_pending: Evaluations in flight at once.
        journal: Where to keep the history; with one that has a history the call goes on where that ends.
        progress: Whether to show a progress bar.
        retries: How often an evaluation that fails is tried again, each time for its cost.
        time_limit: Seconds after which nothing more is started.
        stop_at: Ends the run once a value at the target is as good, in the function's own sign.
        patience: Ends it once this capital has brought nothing better.
        stop_gain: Ends it once what is left to gain is at most this part of the range of values, by the model.
        callbacks: Told of every query and result, and of the end: functions, as in ``[Callback(on_result=print)]``, or
            the loggers of :mod:`mfbo_torch.tracking`.
        objectives: Names of what is minimised where that is several numbers, ``("loss", "latency")``; the function then
            returns a mapping of these to numbers, or to pairs of one and its standard error.
        directions: ``"minimize"`` or ``"maximize"`` for each, in their order or by name.
        reference: The worst value of interest of each, in their order or by name, from where the hypervolume is
            counted; found from the observations if not given.

    Raises:
        SettingError: A setting cannot work.
        Hopeless: Every evaluation failed.
    """
    options = RunOptions(
        max_pending,
        retries=retries,
        time_limit=time_limit,
        stop_at=stop_at,
        patience=patience,
        stop_gain=stop_gain,
    )
    problem = _problem(function, space, False, objectives, directions, reference)
    return _optimize(problem, capital, options, strategy, seed, executor, journal, progress, callbacks)


def maximize(
    function: Callable[..., Returned],
    space: Where,
    capital: float,
    *,
    strategy: Strategy | str | None = None,
    seed: int | None = None,
    executor: Executor | None = None,
    max_pending: int | None = 1,
    journal: Journal | None = None,
    progress: bool = False,
    retries: int = 0,
    time_limit: float | None = None,
    stop_at: float | None = None,
    patience: float | None = None,
    stop_gain: float | None = None,
    callbacks: Sequence[Any] = (),
    objectives: Names | None = None,
    directions: Names | None = None,
    reference: Sequence[float] | Mapping[str, float] | None = None,
) -> Result:
    """Find where a function is largest; arguments and result are those of :func:`minimize`."""
    options = RunOptions(
        max_pending,
        retries=retries,
        time_limit=time_limit,
        stop_at=stop_at,
        patience=patience,
        stop_gain=stop_gain,
    )
    problem = _problem(function, space, True, objectives, directions, reference)
    return _optimize(problem, capital, options, strategy, seed, executor, journal, progress, callbacks)


def _problem(
    function: Callable[..., Returned], where: Where, maximize: bool, names: Any, directions: Any, reference: Any
) -> FunctionProblem:
    """The problem of one objective, or of several."""
    if not callable(function):
        raise SettingError("function", function, "a function of the parameters, as in f(parameters)")
    space = where if isinstance(where, Space) else Space(where, (1.0,))
    if maximize and (smaller := [one.name for one in space.objectives if not one.maximize]):
        raise SettingError(
            "objectives", smaller, "maximised too; where directions differ call minimize, which heeds them"
        )
    if names is None:
        for setting, given in (("directions", directions), ("reference", reference)):
            if given is not None:
                raise SettingError(setting, given, "given with objectives, the names that it is about")
        return FunctionProblem(function, space, maximize)
    for setting, given in (("objectives", names), ("directions", directions)):
        if isinstance(given, (set, frozenset)):
            raise SettingError(setting, given, "a list or a mapping: a set has no order")
    first, *others = found = objectives_of(names, directions, reference, maximize=maximize)
    if not others:
        return FunctionProblem(function, space, first.maximize, first.name)
    return FunctionProblem(function, replace(space, objectives=found), first.maximize, first.name)


def recommended(strategy: Strategy, history: History) -> Record | Recommendation | None:
    """What a bound strategy recommends; the best observation, and a warning, where its model cannot be made here. Of an
    observation that was repeated, as an arm is played again, the mean."""
    try:
        with GlobalState().restored():
            found = strategy.recommend(history)
    except Exception as error:  # a device that is not here, data that no model can be made of
        LOG.warning("the best observation is recommended, as the model failed: %s", describe(error))
        return history.best(strategy.space.target)
    if not isinstance(found, Record) or strategy.space.objectives:
        return found
    same = [r.value for r in history.select(Status.DONE, found.query.fidelity) if r.query.x == found.query.x]
    values = [value for value in same if value is not None]
    if len(values) < 2:
        return found
    return Recommendation(found.query.x, fmean(values), stdev(values) / math.sqrt(len(values)), best=found)


def _optimize(
    problem: Problem,
    capital: float,
    options: RunOptions,
    strategy: Strategy | str | None,
    seed: int | None,
    executor: Executor | None,
    journal: Journal | None,
    progress: bool,
    callbacks: Sequence[Any],
) -> Result:
    strategy = strategy_of(strategy, seed, usual(problem.space))
    history, finished, stopped = drive(
        problem, strategy, capital, options, executor, journal, progress, callbacks=callbacks
    )
    best, bound = history.best(problem.space.target), strategy.bind(problem.space, capital)
    front = solutions(history, problem, bound)
    if problem.space.objectives and best is not None:
        best = next(history.records[solution.id] for solution in front if KNEE in solution.labels)
    advised = recommended(bound, history)
    value = problem.value_of(best)
    message, rest = stopped, capital - history.spent
    if not message and finished and rest >= min(problem.space.costs):
        message = f"What is left of the capital, {rest:g}, does not pay for the next query."
    message = message or ("The capital is spent." if finished else "The run was interrupted.")
    if best is None:
        broken = history.select(Status.DONE, problem.space.target)
        message += " No design at the target keeps the limits." if broken else " Nothing was evaluated at the target."
        for status in (Status.FAILED, Status.STOPPED) if not broken else ():
            if some := history.select(status):
                message += f" {len(some)} {status}, the last: {some[-1].reason.partition(chr(10))[0]}."
    named = {} if best is None else problem.space.named(best.query.x)
    return Result(
        x=tuple(named.get(p.name) for p in problem.space.parameters) if named else (),
        fun=math.nan if value is None else value,
        parameters=named,
        success=finished and best is not None,
        message=message,
        nfev=sum(record.status != Status.PENDING and not record.given for record in history),
        spent=history.spent,
        recommended=advised if isinstance(advised, Recommendation) else None,
        front=front,
        history=ShownHistory(history, problem),
        problem=problem,
    )
