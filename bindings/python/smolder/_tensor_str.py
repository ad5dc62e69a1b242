"""Printing tensors, in torch's form: same rounding, summaries, scientific mode and line breaks."""

import dataclasses
import math

import numpy

from smolder import _core

__all__ = ["set_printoptions"]


@dataclasses.dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = _Options()
_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, threshold=1000, edgeitems=2),
    "full": _Options(threshold=math.inf),
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed; what is not given stays. profile: default, short or full."""
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile must be default, short or full, got {profile!r}")
        chosen = _PROFILES[profile]
        OPTIONS.precision, OPTIONS.threshold = chosen.precision, chosen.threshold
        OPTIONS.edgeitems, OPTIONS.linewidth = chosen.edgeitems, 80
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


class _Formatter:
    """One width and notation for all elements of an array."""

    def __init__(self, array):
        self.floating = array.dtype.kind == "f"
        self.integral, self.scientific, self.width = True, False, 1
        if not self.floating:
            self.width = max([1, *(len(str(v)) for v in array.ravel().tolist())])
            return
        values = array.ravel().astype(numpy.float64)
        values = values[numpy.isfinite(values) & (values != 0)]
        if values.size:
            self._choose(values)

    def _choose(self, values):
        magnitude = numpy.abs(values)
        low, high = magnitude.min(), magnitude.max()
        self.integral = bool((values == numpy.ceil(values)).all())
        with numpy.errstate(over="ignore"):
            wide = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
        self.scientific = bool(wide if OPTIONS.sci_mode is None else OPTIONS.sci_mode)
        spell = f"{{:.{OPTIONS.precision}{'e' if self.scientific else 'f'}}}"
        if self.integral and not self.scientific:
            self.width = max(len(f"{v:.0f}") + 1 for v in values.tolist())
        else:
            self.width = max(len(spell.format(v)) for v in values.tolist())

    def format(self, value):
        if not self.floating:
            text = str(value)
        elif self.scientific:
            text = f"{{:{self.width}.{OPTIONS.precision}e}}".format(value)
        elif self.integral:
            text = f"{value:.0f}"
            if math.isfinite(value):
                text += "."
        else:
            text = f"{{:.{OPTIONS.precision}f}}".format(value)
        return (self.width - len(text)) * " " + text


def _summary(array):
    """The edges of every axis: what a summarised print shows."""
    edge = OPTIONS.edgeitems
    for axis in range(array.ndim):
        n = array.shape[axis]
        if n > 2 * edge:
            keep = [*range(edge), *range(n - edge, n)]
            array = numpy.take(array, keep, axis)
    return array


def _vector(array, indent, summarize, formatter):
    edge = OPTIONS.edgeitems
    element = formatter.width + 2
    per_line = max(1, math.floor((OPTIONS.linewidth - indent) / element))
    if summarize and not edge:
        words = ["..."]
    elif summarize and array.shape[0] > 2 * edge:
        head, tail = array[:edge].tolist(), array[-edge:].tolist()
        words = [formatter.format(v) for v in head] + [" ..."] + [formatter.format(v) for v in tail]
    else:
        words = [formatter.format(v) for v in array.tolist()]
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _body(array, indent, summarize, formatter):
    if array.ndim == 0:
        return formatter.format(array.item())
    if array.ndim == 1:
        return _vector(array, indent, summarize, formatter)
    edge, n = OPTIONS.edgeitems, array.shape[0]
    if summarize and n > 2 * edge:
        rows = [_body(array[i], indent + 1, summarize, formatter) for i in range(edge)]
        rows.append("...")
        rows += [_body(array[i], indent + 1, summarize, formatter) for i in range(n - edge, n)]
    else:
        rows = [_body(row, indent + 1, summarize, formatter) for row in array]
    gap = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + gap.join(rows) + "]"


def _join(text, suffixes, indent):
    last = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if last + len(suffix) + 2 > OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            last = indent + len(suffix)
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text + ")"


def to_string(tensor):
    """What repr(tensor) is. Reads the value, so it ends the step."""
    prefix = "tensor(" if type(tensor).__name__ in ("Tensor", "Parameter") else type(tensor).__name__ + "("
    indent, suffixes = len(prefix), []
    if not tensor._on_cpu:
        suffixes.append(f"device='{tensor.device}'")
    if tensor.numel() == 0:
        text = "[]"
        if tensor.dim() != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype != _core.float32:
            suffixes.append(f"dtype={tensor.dtype}")
    else:
        array = tensor._to_numpy()
        summarize = tensor.numel() > OPTIONS.threshold
        if not OPTIONS.edgeitems:
            suffixes.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype not in (_core.float32, _core.int64, _core.bool):
            suffixes.append(f"dtype={tensor.dtype}")
        text = _body(array, indent, summarize, _Formatter(_summary(array) if summarize else array))
    node = tensor.grad_fn
    if node is not None:
        suffixes.append(f"grad_fn=<{node.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return _join(prefix + text, suffixes, indent)
