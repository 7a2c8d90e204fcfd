"""Ax analyses of experiments with several fidelities."""

from __future__ import annotations

import math

import pandas as pd
from ax.adapter.base import Adapter
from ax.analysis.analysis import Analysis
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from plotly import graph_objects as go

from mfbo_torch.ax.best import node_of
from mfbo_torch.ax.goal import goal
from mfbo_torch.ax.history import AxHistory, read
from mfbo_torch.metrics import best_values, capital_spent
from mfbo_torch.utils.errors import SettingError


class ValueAgainstCost(Analysis):
    """Values of the objective against the cost spent, by fidelity, and the best feasible value at the target so far.

    ``client.compute_analyses([ValueAgainstCost()])``. The card's data have one row a trial: its index, fidelity, cost,
    the cost spent up to and including it, its status, its value (in the objective's own sign) and the best value so
    far. Where arms are averages so are these values: :func:`~mfbo_torch.ax.best_point` gives another optimum.
    """

    def validate_applicable_state(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> str | None:
        """The reason why there is nothing to show, ``None`` where there is something."""
        if experiment is None or generation_strategy is None:
            return "An experiment and a generation strategy are needed."
        try:
            node = node_of(generation_strategy)
            done = read(experiment, node.bound(experiment)[1]).history.done
        except SettingError as error:
            return str(error)
        return None if done else "No trial is completed."

    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> PlotlyAnalysisCard:
        """The card."""
        if experiment is None or generation_strategy is None:
            raise SettingError("experiment", experiment, "given, with a generation strategy")
        wanted = goal(experiment.optimization_config)
        codec = node_of(generation_strategy).bound(experiment)[1]
        space, metric = codec.space, wanted.metric
        frame = _table(read(experiment, codec), wanted.sign, space.target)
        figure = go.Figure()
        for fidelity, rows in frame.groupby("fidelity"):
            done = rows[rows["status"] == "done"]
            text = [f"trial {index}" for index in done["trial_index"]]
            name = space.fidelity_name(fidelity) if space.fidelities else f"fidelity {fidelity}"
            figure.add_scatter(x=done["spent"], y=done["value"], mode="markers", name=name, text=text)
        line = {"shape": "hv", "color": "black"}
        figure.add_scatter(x=frame["spent"], y=frame["best"], mode="lines", name="best at the target", line=line)
        figure.update_layout(xaxis_title="cost spent", yaxis_title=metric)
        return create_plotly_analysis_card(
            name=type(self).__name__,
            title=f"{metric} against cost",
            subtitle="Each completed trial at the cost spent up to and including it.",
            df=frame,
            fig=figure,
        )


def _table(read: AxHistory, sign: float, target: int) -> pd.DataFrame:
    """One row a trial, see :class:`ValueAgainstCost`."""
    rows = []
    spent, best = capital_spent(read.history).tolist(), best_values(read.history, target).tolist()
    for record, (index, _), paid, most in zip(read.history, read.sources, spent, best, strict=True):
        shown = [None if v is None or math.isinf(v) else sign * v for v in (record.value, most)]
        rows.append((index, record.query.fidelity, record.cost, paid, str(record.status), *shown))
    names = ["trial_index", "fidelity", "cost", "spent", "status", "value", "best"]
    return pd.DataFrame(rows, columns=names).astype({"value": float, "best": float})
