"""parallelize_module: styles for modules by their names."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from smolder._names import listing as _listing
from smolder.distributed import device_mesh as meshes
from smolder.distributed.tensor.parallel.style import ParallelStyle

if TYPE_CHECKING:
    from smolder.distributed.device_mesh import DeviceMesh
    from smolder.nn.module import Module

__all__ = ["parallelize_module"]
__dir__ = _listing(__name__)


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Divides a module over a mesh of one dimension: in one style, or its submodules each in the style of its path.

    A part of a path may be a pattern, `layers.*.w1`. The module is changed, and returned.
    """
    mesh = device_mesh or meshes.current()
    if mesh.ndim != 1:
        raise ValueError(f"Only support to apply a ParallelStyle over 1D device mesh, got {mesh}: slice it by name")
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        found = [module] if path == "" else _found(module, path.split("."))
        if not found:
            warnings.warn(f"parallelize_module: no submodule is at {path!r}", stacklevel=2)
        for one in found:
            parallelize_module(one, mesh, style, src_data_rank=src_data_rank)
    return module


def _found(module, parts):
    """The submodules at a path of patterns."""
    if not parts:
        return [module]
    return [m for name, child in module.named_children() if fnmatch(name, parts[0]) for m in _found(child, parts[1:])]
