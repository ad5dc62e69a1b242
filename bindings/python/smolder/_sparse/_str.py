"""Printing sparse tensors, in torch's form."""

from __future__ import annotations

from smolder import _core
from smolder._sparse import _parts
from smolder._tensor_str import PRINT_OPTS
from smolder._typing import Tensor

_INDENT = len("tensor(")
_NAMES = {_parts.COO: ("indices",), _parts.CSR: ("crow_indices", "col_indices")}
_NAMES |= {_parts.CSC: ("ccol_indices", "row_indices")}


def to_string(s: Tensor) -> str:
    """The repr() of a sparse tensor. It reads all elements, so it ends the step."""
    indices, shape, kind, _ = _core._sparse_parts(s)
    values = _core._sparse_values(s).detach()
    parts = [_part(name, x) for name, x in zip(_NAMES[kind], indices, strict=True)]
    text = (",\n" + " " * _INDENT).join([*parts, _part("values", values)])
    suffixes = [] if s._on_cpu else [f"device='{s.device}'"]
    suffixes.append(f"size={shape}")
    if not s.is_meta:
        suffixes.append(f"nnz={values.shape[0]}")
    if not _goes_without_saying(values.dtype):
        suffixes.append(f"dtype={values.dtype}")
    suffixes.append(f"layout={s.layout}")
    node = s.grad_fn
    if node is not None:
        suffixes.append(f"grad_fn=<{node.name()}>")
    elif s.requires_grad:
        suffixes.append("requires_grad=True")
    return _with_suffixes("tensor(" + text, suffixes, kind == _parts.COO)


def _goes_without_saying(dtype):
    """Whether the dtype is what numbers of its kind have where none is named."""
    default = _core._default_dtype()
    wide = _core.complex128 if default == _core.float64 else _core.complex64
    return dtype in (default, wide, _core.int64, _core.bool)


def _part(name, x):
    head = f"{name}=tensor("
    if x.is_meta:
        return f"{head}..., size={tuple(x.shape)})"
    if not x.numel():
        return f"{head}[], size={tuple(x.shape)})"
    indent = _INDENT + len(head)
    text = _core._tensor_text(
        x, "x" * (indent - 1), "smolder"
    )  # whose lines are as long as they are where the text goes
    return head + text[indent : text.rindex("]") + 1] + ")"


def _with_suffixes(text, suffixes, on_new_line):
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if on_new_line or length + len(suffix) + 2 > PRINT_OPTS.linewidth:
            text += ",\n" + " " * _INDENT + suffix
            length, on_new_line = _INDENT + len(suffix), False
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"
