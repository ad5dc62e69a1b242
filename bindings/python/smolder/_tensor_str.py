"""Printing tensors, in torch's form: same rounding, summaries, scientific mode and line breaks."""

from __future__ import annotations

import math
from typing import Any

from smolder import _core
from smolder._typing import Tensor

__all__ = ["set_printoptions"]

_NAMES = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors are printed; what is not given stays. profile: default, short or full; another changes nothing."""
    options = dict(zip(_NAMES, _core._print_options(), strict=True))
    if profile in _PROFILES:
        options |= {**_PROFILES[profile], "linewidth": 80}
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options |= {name: value for name, value in given.items() if value is not None}
    _core._set_print_options(**options | {"sci_mode": sci_mode})


def _batched_string(tensor, level):
    """Prints all elements of a vmap, for a tensor that stands for one."""
    before = _core._vmap_go(level)
    try:
        elements, spread = _core._vmap_elements(tensor)
    finally:
        _core._vmap_go(before)
    where = f"lvl={level}, bdim=0, " if spread else f"lvl={level}, "
    lines = to_string(elements).replace("\n", "\n    ")
    return f"{'BatchedTensor' if spread else 'GradTrackingTensor'}({where}value=\n    {lines}\n)"


def _without_elements(tensor: Tensor, kind: str) -> str:
    dtype = "" if tensor.dtype == _core._default_dtype() else f", dtype={tensor.dtype}"
    node = tensor.grad_fn
    grad = f", grad_fn=<{node.name()}>" if node else ", requires_grad=True" if tensor.requires_grad else ""
    return f"{kind}(..., device='meta', size={tuple(tensor.shape)}{dtype}{grad})"


def to_string(tensor: Tensor) -> str:
    """The text of repr(tensor). Reads the value, so it ends the step."""
    if level := _core._vmap_level(tensor):
        return _batched_string(tensor, level)
    kind = type(tensor).__name__
    kind = "tensor" if kind in ("Tensor", "Parameter", "Buffer") else kind
    if tensor.is_meta:
        return _without_elements(tensor, kind)
    return _core._tensor_text(tensor, kind, repr(tensor.dtype).partition(".")[0])  # torch under smolder.torch


class _PrintOptions:
    """The options by name, for programs that read them there."""

    def __getattr__(self, name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(name)
        return dict(zip(_NAMES, _core._print_options(), strict=True))[name]


PRINT_OPTS = _PrintOptions()


def _tensor_str(tensor: Tensor, indent: int) -> str:
    """The elements alone as text, whose lines after the first begin with so many spaces."""
    text = _core._tensor_text(tensor.detach(), "tensor", "smolder")
    body = text[len("tensor(") : text.rindex("]") + 1] if "]" in text else text[len("tensor(") : -1]
    return body.replace("\n" + " " * len("tensor("), "\n" + " " * indent)
