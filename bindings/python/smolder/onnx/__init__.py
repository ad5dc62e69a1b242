"""Export of models to ONNX: docs/onnx.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from smolder._graph import Graph, capture
from smolder._names import listing as _listing
from smolder._tensor import Tensor

__all__ = ["ONNXProgram", "OnnxExporterError", "UnsupportedOperatorError", "export", "is_in_onnx_export"]
__dir__ = _listing(__name__)

_FIRST_OPSET, _LAST_OPSET = 18, 22
_exports = 0  # that are running


class OnnxExporterError(RuntimeError):
    """A model could not be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """An op has no equivalent in ONNX."""


class ONNXProgram:
    """A model in ONNX's form."""

    def __init__(self, model_proto: Any) -> None:
        self.model_proto = model_proto

    def save(self, destination: Any) -> None:
        """Writes the model to a file."""
        import onnx

        onnx.save(self.model_proto, os.fspath(destination))

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        return f"ONNXProgram({', '.join(i.name for i in graph.input)}) of {len(graph.node)} nodes"


def is_in_onnx_export() -> bool:
    """Whether a model is being recorded to be exported."""
    return _exports > 0


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    export_params: bool = True,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Any = None,
    dynamic_shapes: Any = None,
) -> Any:
    """A module, a function or a `smolder.Graph` as an ONNX model, which is written to `f` if given.

    Names and meanings are those of torch.onnx.export. `dynamic_axes` is {input's name: {dimension: size's name}, or a
    list of dimensions}; `dynamic_shapes` is as smolder.capture takes it. Weights are initializers by their names in
    state_dict(); with export_params=False they are inputs. Raises UnsupportedOperatorError naming the op and the line
    where ONNX has none for it.
    """
    try:
        import onnx  # noqa: F401
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError(
            "smolder.onnx needs the package 'onnx', which is not installed: pip install onnx", name="onnx"
        ) from e
    opset = 20 if opset_version is None else opset_version
    if not isinstance(opset, int) or not _FIRST_OPSET <= opset <= _LAST_OPSET:
        raise ValueError(f"opset_version should be an integer from {_FIRST_OPSET} to {_LAST_OPSET}, got {opset!r}")
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise ValueError("give either dynamic_axes or dynamic_shapes")
    graph = _graph_of(model, args, kwargs or {}, input_names, dynamic_axes, dynamic_shapes)
    from smolder.onnx._export import model_of

    program = ONNXProgram(model_of(graph, opset, input_names, output_names, export_params))
    if f is not None:
        if hasattr(f, "write"):
            f.write(program.model_proto.SerializeToString())
        else:
            program.save(f)
    return program


def _graph_of(model, args, kwargs, input_names, dynamic_axes, dynamic_shapes):
    if isinstance(model, Graph):
        if args or kwargs or dynamic_axes or dynamic_shapes:
            raise ValueError(
                "a graph has its arguments and sizes already: args, kwargs and dynamic sizes are not for it"
            )
        return model
    args = (args,) if isinstance(args, Tensor) else tuple(args)
    if dynamic_axes is not None:
        dynamic_shapes = _shapes_of_axes(dynamic_axes, model, args, kwargs, input_names)
    was = [m for m in model.modules() if m.training] if hasattr(model, "modules") else []
    if was:
        model.eval()
    import smolder

    global _exports
    _exports += 1
    try:
        with smolder.no_grad():
            return capture(model, *args, dynamic_shapes=dynamic_shapes, **kwargs)
    finally:
        _exports -= 1
        for m in was:
            m.training = True


def _shapes_of_axes(dynamic_axes, model, args, kwargs, input_names):
    """dynamic_axes, by names of inputs, as dynamic shapes by argument."""
    from smolder._graph import _positional_names

    every = [*_positional_names(model, len(args)), *kwargs]
    given = [*args, *kwargs.values()]
    if not all(isinstance(a, Tensor) for a in given):
        raise ValueError("dynamic_axes is for arguments that are tensors: use dynamic_shapes for nested ones")
    called = dict(zip(input_names or every, every, strict=False))
    shapes = {}
    for name, axes in dynamic_axes.items():
        if name not in called:
            continue  # of an output, whose sizes follow
        axes = (
            {d: f"{name}_dynamic_axes_{i + 1}" for i, d in enumerate(axes)} if isinstance(axes, list | tuple) else axes
        )
        tensor = given[every.index(called[name])]
        shapes[called[name]] = {d % tensor.dim(): size for d, size in axes.items()}
    return shapes
