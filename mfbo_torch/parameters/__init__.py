"""What an objective is called with: numbers and choices, the conditions and inequalities among them, their columns."""

from mfbo_torch.parameters.conditions import Conditions
from mfbo_torch.parameters.encoding import Encoding
from mfbo_torch.parameters.inequality import linear
from mfbo_torch.parameters.parameter import Label, Parameter, one_among, plain, shown, text

__all__ = ["Conditions", "Encoding", "Label", "Parameter", "linear", "one_among", "plain", "shown", "text"]
