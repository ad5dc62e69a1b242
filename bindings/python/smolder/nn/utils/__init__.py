"""Helpers on the gradients and parameters of a model, and on sequences of different lengths."""

from __future__ import annotations

from typing import Any

from smolder._names import listing as _listing
from smolder.nn.utils import rnn
from smolder.nn.utils.clip import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from smolder.nn.utils.init import skip_init
from smolder.nn.utils.reparametrize import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm",
    "parameters_to_vector", "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init", "spectral_norm",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:
    if name in ("parametrizations", "parametrize", "prune"):  # which few programs ask for
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    if name == "fusion" or name.startswith("fuse_"):
        import importlib

        fusion = importlib.import_module(f"{__name__}.fusion")
        if name == "fusion" or name in fusion.__all__:
            return fusion if name == "fusion" else getattr(fusion, name)
    from smolder._missing import missing

    raise missing(__name__, name)
