"""The history of an optimisation: its queries, what was observed, and the costs."""

from mfbo_torch.history.history import COLUMNS, History, column, payable
from mfbo_torch.history.observation import Observation, Observed, Outcome
from mfbo_torch.history.query import ENQUEUED, GIVEN, Query
from mfbo_torch.history.record import Recommendation, Record, Status
from mfbo_torch.history.tensors import noise_variances, points, values

__all__ = [
    "COLUMNS",
    "ENQUEUED",
    "GIVEN",
    "History",
    "Observation",
    "Observed",
    "Outcome",
    "Query",
    "Recommendation",
    "Record",
    "Status",
    "column",
    "noise_variances",
    "payable",
    "points",
    "values",
]
