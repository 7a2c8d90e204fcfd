r"""Conditional max-value entropy search: queries with the most information about the maximum of ``f``."""

from __future__ import annotations

import math
from collections.abc import Callable

from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from mfbo_torch.acquisition.max_values import LEAST, gumbel, thompson
from mfbo_torch.acquisition.truncated_entropy import log_noisy_information, log_truncated_information
from mfbo_torch.models.indirect.deconditional import DeconditionalGP
from mfbo_torch.utils.validation import one_of, whole

SAMPLERS = {"thompson": thompson, "gumbel": gumbel}
FORMS = ("truncated", "noisy")


class ConditionalMaxValueEntropy(AcquisitionFunction):
    r"""The information :math:`I(z; f^* \mid a)` of a noisy average ``z`` about the maximum of ``f``.

    The samples of :math:`f^*` come from the posterior of ``f``, the rest is the posterior of ``g``
    [Zhang2024indirect]_ (Eq. 13). ``form="truncated"`` is Eq. 14, which leaves the noise out; ``form="noisy"`` that of
    Appendix A. Maximised over queries: ``X`` is ``b x 1 x p``.

    Args:
        model: The model of ``f`` and ``g``.
        candidate_set: ``n x d`` inputs over which ``f`` is maximised.
        num_max_value_samples: Number of samples of :math:`f^*`.
        sampler: ``"thompson"``, maxima of joint draws, or ``"gumbel"``.
        form: ``"truncated"`` or ``"noisy"``.
        cost: From ``b x p`` queries to ``b`` positive costs, by which the information is divided.
        noise: From ``b x p`` queries to ``b`` noise variances, for the noisy form; by default the model's.
        X_pending: ``p' x p`` pending queries. They condition the deviations and leave the means and the samples of
            :math:`f^*`.
        log: Return the logarithm, which has the same maximiser. Averages are often far below :math:`f^*`; the
            information is tiny then, and gradients of it lead nowhere.

    Raises:
        SettingError: An unknown sampler or form, or a number of samples below 1.
        BotorchTensorDimensionError: A candidate set of another shape.
        InputDataError: A cost that is not positive.
        UnsupportedError: A model of another class.
    """

    def __init__(
        self,
        model: DeconditionalGP,
        candidate_set: Tensor,
        num_max_value_samples: int = 10,
        *,
        sampler: str = "thompson",
        form: str = "truncated",
        cost: Callable[[Tensor], Tensor] | None = None,
        noise: Callable[[Tensor], Tensor] | None = None,
        X_pending: Tensor | None = None,
        log: bool = False,
    ) -> None:
        super().__init__(model=model)
        if not isinstance(model, DeconditionalGP):
            raise UnsupportedError(f"model = {type(model).__name__}: must be a DeconditionalGP")
        one_of("sampler", sampler, SAMPLERS)
        num_max_value_samples = whole("num_max_value_samples", num_max_value_samples)
        if candidate_set.dim() != 2 or len(candidate_set) == 0:
            raise BotorchTensorDimensionError(
                f"candidate_set of shape {tuple(candidate_set.shape)}: must be n x d, n from 1 on"
            )
        self.form, self.cost, self.noise, self.log = one_of("form", form, FORMS), cost, noise, log
        self.least_variance = LEAST * model.covar_module(candidate_set, diag=True).max().item()
        self.register_buffer("max_values", SAMPLERS[sampler](model, candidate_set, num_max_value_samples))
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the pending queries, in place of the former ones."""
        self._hallucinated = self.model.hallucinate(X_pending)
        self.X_pending = None if X_pending is None else X_pending.detach().clone()

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """Information per cost in nats, or its logarithm, at ``b x 1 x p`` queries, shape ``b``."""
        A = X.squeeze(-2)
        mean, variance = self._hallucinated.mean_variance(A)
        variance = variance.clamp_min(self.least_variance)
        gamma = (self.max_values.unsqueeze(-1) - mean) / variance.sqrt()
        if self.form == "truncated":
            logs = log_truncated_information(gamma)
        else:
            noise = self.model.noise if self.noise is None else self.noise(A)
            logs = log_noisy_information(gamma, variance / (variance + noise))
        logs = logs.logsumexp(0) - math.log(len(gamma))
        if self.cost is not None:
            cost = self.cost(A).reshape(logs.shape)
            if not (cost > 0).all():
                raise InputDataError(f"cost = {cost.min().item():g}: must be positive")
            logs = logs - cost.log()
        return logs if self.log else logs.exp()
