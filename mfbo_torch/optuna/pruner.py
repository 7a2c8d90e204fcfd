r"""A pruner of Optuna that compares what trainings will come to, not what they have come to.

References:

.. [Li2020asha]
    L. Li, K. Jamieson, A. Rostamizadeh, E. Gonina, J. Ben-tzur, M. Hardt, B. Recht, A. Talwalkar. A System for
    Massively Parallel Hyperparameter Tuning. MLSys 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from optuna.pruners import BasePruner
from optuna.search_space import intersection_search_space
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from torch import Tensor

from mfbo_torch.models.learning_curves import LearningCurveGP
from mfbo_torch.optuna.codec import ONE_AT_A_TIME, StudyCodec
from mfbo_torch.space.fidelities import epoch_rungs
from mfbo_torch.strategies.trainings.curve_data import CurveScale
from mfbo_torch.strategies.trainings.successive_halving import REDUCTION
from mfbo_torch.utils.global_state import GlobalState
from mfbo_torch.utils.standardize import shift_scale
from mfbo_torch.utils.validation import whole

TRIALS, FITTED = 60, 64
"""Number of trials, the latest that have come as far, that a model is made of, and of their reports that its
hyper-parameters are fitted to at most."""


class Pruner(BasePruner):
    r"""Asynchronous successive halving [Li2020asha]_ by forecasts.

    After 1, 3, 9, ... reports a trial goes on if it is among the best third of all that have come as far, of one or two
    if it is the best. They are compared by what
    :class:`~mfbo_torch.models.learning_curves.LearningCurveGP` predicts that they have at the end: a slow training that
    will be the best goes on, one that has begun to overfit does not. As long as none has come further than this one,
    their present values are compared.

    It works with every sampler of Optuna and any storage, and with steps that begin at 0 or at 1: reports are counted.
    The parameters that all trials have in common are seen, at any width; without one, the present values are compared.

    Args:
        epochs: Number of reports of a training that is not pruned.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = whole("epochs", epochs)
        self._rungs = [round(float(str(rung))) for rung in epoch_rungs(self.epochs).values]
        self._state = GlobalState()

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether a trial is to end after what it has reported."""
        count = len(trial.intermediate_values)
        if count not in self._rungs[:-1]:
            return False
        states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
        known = [t for t in study.get_trials(deepcopy=False, states=states) if t.number != trial.number]
        rivals = [t for t in known if len(t.intermediate_values) >= count][-TRIALS:]
        if not rivals or not math.isfinite(_values(trial)[-1]):
            return bool(rivals)
        sign = -1.0 if study.direction == StudyDirection.MINIMIZE else 1.0
        ends = self._ends([*rivals, trial], count, sign)
        ahead = int((ends[:-1] > ends[-1]).sum())
        return ahead >= max(len(ends) // REDUCTION, 1)

    def _ends(self, trials: Sequence[FrozenTrial], count: int, sign: float) -> Tensor:
        """What each of some trials comes to, to be maximised."""
        now = torch.tensor([sign * _values(t)[count - 1] for t in trials], dtype=torch.double)
        common = {name: d for name, d in intersection_search_space(list(trials)).items() if not d.single()}
        codec = StudyCodec(common) if common else None
        found = [codec and codec.encode(trial.params) for trial in trials]
        if codec is None or None in found or all(len(t.intermediate_values) == count for t in trials):
            return now.nan_to_num(-math.inf, -math.inf, -math.inf)
        space = codec.space
        designs = space.to_unit(torch.tensor([[*one[0]] for one in found if one], dtype=torch.double))
        rows, values = list[Tensor](), list[float]()
        for design, trial in zip(designs, trials, strict=True):
            own = _values(trial)
            for step in {*self._rungs, len(own)}:
                if step <= len(own) and math.isfinite(own[step - 1]):
                    rows.append(torch.cat([design, design.new_tensor([math.log(step) / math.log(self.epochs)])]))
                    values.append(sign * own[step - 1])
        Y = torch.tensor(values, dtype=torch.double).unsqueeze(-1)
        Z = CurveScale.of(Y)(Y)
        shift, spread = shift_scale(Z)
        X, Z = torch.stack(rows), (Z - shift) / spread
        some = torch.linspace(0, len(Z) - 1, min(len(Z), FITTED)).round().long()
        with ONE_AT_A_TIME, self._state.restored():
            state = LearningCurveGP(X[some], Z[some], groups=space.groups).fit().state
            model = LearningCurveGP(X, Z, groups=space.groups, state=state)
            return model.predict(torch.cat([designs, torch.ones_like(now).unsqueeze(-1)], dim=-1))[0]


def _values(trial: FrozenTrial) -> list[float]:
    """What a trial has reported, in the order of its steps."""
    return [value for _, value in sorted(trial.intermediate_values.items())]
