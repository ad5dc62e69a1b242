"""How torch records calls: its functions in Python are recorded with all their arguments, defaults among them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from smolder._names import listing as _listing
from smolder.fx import _patches
from smolder.fx._naming import _IN_FUNCTIONAL, _IN_LOWRANK, place_of, words

__all__ = ["COMPARED", "METHODS", "OPERATORS", "as_torch"]
__dir__ = _listing(__name__)

# Methods that operators with a tensor on the left are.
OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "__floordiv__", "mod": "remainder",
    "pow": "pow", "matmul": "matmul", "and_": "__and__", "or_": "__or__", "xor": "__xor__", "lshift": "__lshift__",
    "rshift": "__rshift__",
}  # fmt: skip
COMPARED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}  # what a comparison is the other way round
METHODS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__matmul__": "matmul",
    "__truediv__": "div", "__mod__": "remainder", "__pow__": "pow", "__eq__": "eq", "__ne__": "ne", "__lt__": "lt",
    "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__neg__": "neg", "__abs__": "abs",
}  # fmt: skip

_IN_PYTHON = {*_IN_FUNCTIONAL, *_IN_LOWRANK} - {"chain_matmul"}
# Functions of nn.functional that are C++ in torch: a call of one is recorded as it was written.
_AS_WRITTEN = words(
    """adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear channel_shuffle conv1d conv2d conv3d
conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity gelu hardshrink linear logsigmoid one_hot
pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu scaled_dot_product_attention sigmoid softplus
softshrink tanh celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ threshold_"""
)
# Signatures, in torch, of functions that are bound to C++ here and so have none that inspect finds.
_SIGNATURES = {
    "batch_norm": "input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05",
    "group_norm": "input, num_groups, weight=None, bias=None, eps=1e-05",
    "instance_norm": (
        "input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05"
    ),
    "cdist": "x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'",
    "norm": "input, p='fro', dim=None, keepdim=False, out=None, dtype=None",
    "l1_loss": "input, target, size_average=None, reduce=None, reduction='mean'",
    "split": "tensor, split_size_or_sections, dim=0",
    "tensordot": "a, b, dims=2, out=None",
    "glu": "input, dim=-1",
    "softsign": "input",
    "tanhshrink": "input",
}


@functools.cache
def _signature(function):
    """The signature of a function whose calls are recorded in full; None of one whose are not."""
    found = place_of(function)
    if found is None:
        return None
    place, name = found
    in_python = name not in _AS_WRITTEN if place == "nn.functional" else not place and name in _IN_PYTHON
    if not in_python:
        return None
    if name in _SIGNATURES:
        return inspect.signature(eval(f"lambda {_SIGNATURES[name]}: None"))
    try:
        signature = inspect.signature(_patches.plain(function))
    except (TypeError, ValueError):
        return None
    return None if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()) else signature


def as_torch(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as torch records them: those without a default are positional, and all others are named."""
    signature = _signature(function)
    if signature is None:
        return args, kwargs
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return args, kwargs
    bound.apply_defaults()
    named, positional = {}, []
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            positional += bound.arguments[p.name]
        elif p.default is p.empty:
            positional.append(bound.arguments[p.name])
        else:
            named[p.name] = bound.arguments[p.name]
    return tuple(positional), named
