"""Registrations with Ax's storage, JSON and SQL."""

from __future__ import annotations

from typing import Any

from ax.storage.botorch_modular_registry import register_acquisition, register_acquisition_function, register_model
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model

import mfbo_torch.acquisition
import mfbo_torch.models
from mfbo_torch.app.builder import strategy_to_settings
from mfbo_torch.ax.acquisition import MultiFidelityAcquisition
from mfbo_torch.ax.node import StrategyNode


def encode_node(node: StrategyNode) -> dict[str, Any]:
    """A node as values that Ax can store; :meth:`StrategyNode.deserialize_init_args` reads them."""
    return {
        "__type": StrategyNode.__name__,
        "strategy": strategy_to_settings(node.strategy),
        "costs": list(node.costs),
        "continues": node.continues,
        "name": node.name,
        "suggested_experiment_status": node.suggested_experiment_status,
        "transition_criteria": list(node.transition_criteria),
    }


def register() -> None:
    """Let Ax store and load strategy nodes, and this package's models and acquisitions in its own nodes."""
    CORE_ENCODER_REGISTRY[StrategyNode] = encode_node
    CORE_DECODER_REGISTRY[StrategyNode.__name__] = StrategyNode
    register_acquisition(MultiFidelityAcquisition)
    for room, base, register_class in (
        (mfbo_torch.models, Model, register_model),
        (mfbo_torch.acquisition, AcquisitionFunction, register_acquisition_function),
    ):
        for name in room.__all__:
            kind = getattr(room, name)
            if isinstance(kind, type) and issubclass(kind, base):
                register_class(kind)
