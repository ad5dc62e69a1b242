"""The decorators of torch.onnx.symbolic_helper for functions that would export an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolder._names import listing as _listing
from smolder._typing import F

__all__ = ["parse_args", "quantized_args"]
__dir__ = _listing(__name__)


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """Decorates a function that would export an op, which stays as it is."""
    return lambda fn: fn


def quantized_args(
    *arg_q_descriptors: bool, scale: Any = None, zero_point: Any = None, quantize_output: bool = True
) -> Callable[[F], F]:
    """The same."""
    return lambda fn: fn
