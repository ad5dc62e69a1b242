"""The functions of torch.onnx that libraries call at import: they say how their ops in C++ would be exported."""

from __future__ import annotations

from typing import Any

from smolder._names import listing as _listing

__all__ = ["register_custom_op_symbolic", "unregister_custom_op_symbolic"]
__dir__ = _listing(__name__)

_symbolics = {}


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Any, opset_version: int, custom_opsets: Any = None
) -> None:
    """Keeps how an op would be exported. smolder.onnx.export meets no op of torch's in C++, so that it asks for none."""
    _symbolics[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forgets it."""
    _symbolics.pop((symbolic_name, opset_version), None)
