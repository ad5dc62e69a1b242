"""Printing tensors, in torch's form: same rounding, summaries, scientific mode and line breaks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smolder import _core

if TYPE_CHECKING:
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
    """How tensors are printed; what is not given stays. profile: default, short or full."""
    options = dict(zip(_NAMES, _core._print_options(), strict=True))
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile must be default, short or full, got {profile!r}")
        options |= {**_PROFILES[profile], "linewidth": 80}
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options |= {name: value for name, value in given.items() if value is not None}
    _core._set_print_options(**options | {"sci_mode": sci_mode})


def _batched_string(tensor, level):
    """Of a tensor that stands for an element of a vmap: all of them."""
    before = _core._vmap_go(level)
    try:
        elements, spread = _core._vmap_elements(tensor)
    finally:
        _core._vmap_go(before)
    where = f"lvl={level}, bdim=0, " if spread else f"lvl={level}, "
    lines = to_string(elements).replace("\n", "\n    ")
    return f"{'BatchedTensor' if spread else 'GradTrackingTensor'}({where}value=\n    {lines}\n)"


def to_string(tensor: Tensor) -> str:
    """What repr(tensor) is. Reads the value, so it ends the step."""
    if level := _core._vmap_level(tensor):
        return _batched_string(tensor, level)
    kind = type(tensor).__name__
    text = _core._tensor_text(tensor, "tensor" if kind in ("Tensor", "Parameter") else kind)
    package = repr(tensor.dtype).partition(".")[0]  # torch under smolder.torch
    return text if package == "smolder" else text.replace("dtype=smolder.", f"dtype={package}.")
