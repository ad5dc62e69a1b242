"""Runs a graph and notes at its nodes what their values are like."""

from __future__ import annotations

import traceback
import typing
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import DType, Tensor
from smolder.fx.interpreter import Interpreter
from smolder.fx.node import map_aggregate

if TYPE_CHECKING:
    from smolder._typing import Size
    from smolder.fx.graph_module import GraphModule
    from smolder.fx.node import Node

__all__ = ["ShapeProp", "TensorMetadata"]
__dir__ = _listing(__name__)


class TensorMetadata(typing.NamedTuple):
    """The metadata of a tensor. No tensor is quantized here."""

    shape: Size
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """The metadata of a tensor."""
    import smolder

    formats = [smolder.contiguous_format]
    formats += {4: [smolder.channels_last], 5: [smolder.channels_last_3d]}.get(result.dim(), [])
    format = next((f for f in formats if include_contiguity and result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), format, False, {})


class ShapeProp(Interpreter):
    """Runs a module's graph; `meta["tensor_meta"]` of each node is what its tensors are like, and `meta["type"]` a class.

    Values are recorded and not computed, unless the graph reads one: shapes cost no time of a device. fake_mode is torch's,
    and has to be None.
    """

    real_module: GraphModule

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError("ShapeProp: fake_mode is not supported: what runs is recorded, and not computed")
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """Runs a node, and keeps the metadata of its result."""
        try:
            result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        found = []

        def note(value):
            if not isinstance(value, _core.Tensor):
                return value
            found.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph for these arguments."""
        return self.run(*args)
