"""The models and acquisitions of this package in Ax's own, modular generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from ax.adapter.registry import Generators, MBM_X_trans
from ax.core.search_space import SearchSpaceDigest
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.surrogate import Surrogate, SurrogateSpec, submodel_input_constructor
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.models.transforms.input import Normalize
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import _DefaultType
from torch import Tensor

from mfbo_torch.acquisition import MultiFidelityUpperConfidenceBound, cost_thresholds, select_fidelity
from mfbo_torch.confidence import practical_beta
from mfbo_torch.history import History, Query
from mfbo_torch.models import PerFidelityGP
from mfbo_torch.models.multi_fidelity.base import at_fidelity
from mfbo_torch.space import checked_costs
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import Thresholds, adaptive_thresholds, impatience
from mfbo_torch.utils.errors import SettingError


@submodel_input_constructor.register(PerFidelityGP)
def _inputs(
    botorch_model_class: type[PerFidelityGP],
    model_config: ModelConfig,
    dataset: SupervisedDataset,
    search_space_digest: SearchSpaceDigest,
    surrogate: Surrogate,
) -> dict[str, Any]:
    """Constructor arguments of the model: the fidelities of the search space, designs on the unit cube."""
    lower, upper = torch.tensor(search_space_digest.bounds, dtype=dataset.X.dtype).mT
    options = {"num_fidelities": num_fidelities(search_space_digest), **model_config.model_options}
    features = search_space_digest.fidelity_features
    inputs = botorch_model_class.construct_inputs(dataset, fidelity_features=features, **options)
    transforms = model_config.input_transform_classes
    if isinstance(transforms, _DefaultType):
        indices, bounds = list(range(len(lower) - 1)), torch.stack([lower, upper])
        inputs["input_transform"] = Normalize(len(lower), indices=indices, bounds=bounds)
    elif transforms is not None:
        raise SettingError("input_transform_classes", transforms, "the default, which scales the designs, or None")
    return inputs


@fit_botorch_model.register(PerFidelityGP)
def _fit(model: PerFidelityGP, mll_class: Any = None, mll_options: Any = None) -> None:
    model.fit(optimizer_kwargs={"options": {"maxiter": 100}})


class MultiFidelityAcquisition(Acquisition):
    """MF-GP-UCB in Ax's modular generator: optimises the design, then selects the fidelity.

    For a :class:`~mfbo_torch.PerFidelityGP`, the fidelity last, with
    :class:`~mfbo_torch.MultiFidelityUpperConfidenceBound`. β, ζ and γ are computed from the model's data in their
    units, whether or not Ax has standardised the targets. With the recursive link γ is that of
    :func:`~mfbo_torch.cost_thresholds`. With the independent one ζ and γ start at 1 % of the range of the values, ζ is
    at least twice any larger difference between adjacent fidelities at one design, and γ is doubled as in MF-GP-UCB.
    Options of the acquisition function (``beta``, ``zeta``) override them.

    The options have ``M`` increasing costs, ``{"costs": [...]}``; other arguments are as in Ax.

    Raises:
        SettingError: There is not one cost a fidelity, there are outcome constraints, or see :func:`num_fidelities`.
    """

    X_pending: Tensor | None
    X_observed: Tensor | None

    def __init__(self, *, options: dict[str, Any] | None = None, **kwargs: Any) -> None:
        costs = (options or {}).get("costs")
        fidelities = num_fidelities(kwargs["search_space_digest"])
        if not isinstance(costs, Sequence) or len(costs) != fidelities:
            raise SettingError("acquisition_options.costs", costs, f"{fidelities} numbers, one a fidelity")
        if kwargs["torch_opt_config"].outcome_constraints is not None:
            wanted = "none here: a node that keeps to them is mfbo_torch.ax.StrategyNode(MFGPUCB(), costs)"
            raise SettingError("outcome_constraints", "some", wanted)
        self.costs: Sequence[float] = costs
        super().__init__(options=options, **kwargs)

    def _construct_botorch_acquisition(
        self, botorch_acqf_class: type[AcquisitionFunction], botorch_acqf_options: dict[str, Any], model: Model
    ) -> AcquisitionFunction:
        defaults: dict[str, Any] = {"beta": practical_beta(len(self._records()) + 1, self._gp.dim)}
        if self._gp.link == "independent":
            defaults["zeta"] = self._thresholds().zeta
        return super()._construct_botorch_acquisition(botorch_acqf_class, {**defaults, **botorch_acqf_options}, model)

    @property
    def _gp(self) -> PerFidelityGP:
        return self.surrogate.model

    def _records(self) -> History:
        """The generator's data as a history: observations in the order of their trials, then pending points."""
        history = History()
        (data,) = self.surrogate.training_data
        pending = [] if self.X_pending is None else self.X_pending.tolist()
        values = [*data.Y.view(-1).tolist(), *[None] * len(pending)]
        for row, value in zip(data.X.tolist() + pending, values, strict=True):
            history = history.asked(Query(tuple(row[:-1]), round(row[-1])), self.costs[round(row[-1])])
            if value is not None:
                history = history.updated(history.records[-1].done(value))
        return history

    def _thresholds(self) -> Thresholds:
        """ζ and γ in the units of the model's targets."""
        history = self._records()
        state = adaptive_thresholds(history, self.costs)
        top = len(self.costs) - 1
        step = state.zeta[top - 1]
        values = {(r.query.x, r.query.fidelity): r.value or 0.0 for r in history.done}
        for (x, m), value in values.items():
            gap = abs(value - values.get((x, m - 1), value))
            step = 2 * gap if gap > step else step
        return replace(state, zeta=tuple((top - m) * step for m in range(top + 1)))

    def optimize(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        inequality_constraints: list[tuple[Tensor, Tensor, float]] | None = None,
        equality_constraints: list[tuple[Tensor, Tensor, float]] | None = None,
        fixed_features: dict[int, float] | None = None,
        rounding_func: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``n`` points ``n x (d + 1)``, each with the ones before it pending; their values and weights."""
        dim = self._gp.dim
        fixed = dict(fixed_features or {})
        fidelity = fixed.pop(dim, None)
        designs = _designs(search_space_digest)
        points, scores = [], []
        for _ in range(n):
            pending, observed = self.X_pending, self.X_observed
            self.X_pending = self.X_observed = None  # Ax keeps discrete designs away from these, at any fidelity
            try:
                x, score, _ = super().optimize(
                    1,
                    designs,
                    inequality_constraints,
                    equality_constraints,
                    fixed or None,
                    rounding_func and (lambda X: rounding_func(at_fidelity(X, len(self.costs) - 1))[..., :-1]),
                    **kwargs,
                )
            finally:
                self.X_pending, self.X_observed = pending, observed
            point = at_fidelity(x, self._fidelity(x) if fidelity is None else fidelity)
            self.X_pending = point if pending is None else torch.cat([pending, point])
            self._instantiate_acquisition()
            points.append(point)
            scores.append(score.view(-1))
        return torch.cat(points), torch.cat(scores), torch.ones(n, dtype=self.dtype)

    def _fidelity(self, x: Tensor) -> int:
        beta, gp, pending = self.acqf.beta or 1.0, self._gp, self.X_pending
        if gp.link == "independent":
            gamma = list(self._thresholds().gamma)
        else:
            gamma = cost_thresholds(gp, x, beta, self.costs, impatience(self._records(), self.costs), pending)
        return select_fidelity(gp, x, beta, gamma, pending)


def modular_node(costs: Sequence[float], *, link: str = "recursive", name: str = "MF-GP-UCB") -> GenerationNode:
    """A node of Ax's modular generator that runs MF-GP-UCB, for after an initial design.

    Targets reach the model in their own units: it standardises them per fidelity itself.

    There are ``M`` increasing positive costs; the link is ``"recursive"`` or ``"independent"``.

    Raises:
        SettingError: The costs are not. At the first candidate: see :func:`num_fidelities`.
    """
    config = ModelConfig(botorch_model_class=PerFidelityGP, model_options={"link": link})
    settings = {
        "surrogate_spec": SurrogateSpec(model_configs=[config]),
        "acquisition_class": MultiFidelityAcquisition,
        "acquisition_options": {"costs": list(checked_costs(costs))},
        "botorch_acqf_class": MultiFidelityUpperConfidenceBound,
        "transforms": MBM_X_trans,
        "fit_tracking_metrics": False,
    }
    spec = GeneratorSpec(generator_enum=Generators.BOTORCH_MODULAR, generator_kwargs=settings)
    return GenerationNode(name=name, generator_specs=[spec], should_deduplicate=True)


def num_fidelities(digest: SearchSpaceDigest) -> int:
    """``M``, where the last parameter of a search space is its fidelity, from 0 to ``M - 1``, the target."""
    last = len(digest.bounds) - 1
    if digest.fidelity_features != [last]:
        names = [digest.feature_names[i] for i in digest.fidelity_features]
        raise SettingError("fidelity parameters", names, "one, the last parameter of the search space")
    name, target = digest.feature_names[last], digest.target_values.get(last)
    lower, upper = map(round, digest.bounds[last])
    if lower != 0:
        raise SettingError(f"{name}.lower", lower, "0, the cheapest fidelity")
    if target != upper:
        raise SettingError(f"{name}.target_value", target, f"{upper}, the last fidelity")
    return upper + 1


def _designs(digest: SearchSpaceDigest) -> SearchSpaceDigest:
    """A digest of the search space without its last column, the fidelity."""
    last = len(digest.bounds) - 1
    return replace(
        digest,
        feature_names=digest.feature_names[:last],
        bounds=digest.bounds[:last],
        ordinal_features=[i for i in digest.ordinal_features if i != last],
        discrete_choices={i: values for i, values in digest.discrete_choices.items() if i != last},
        fidelity_features=[],
        target_values={},
    )
