"""Tensor parallel: how modules are divided over a dimension of a mesh, by a table of their names."""

from smolder._names import listing as _listing
from smolder.distributed.tensor.parallel.api import parallelize_module
from smolder.distributed.tensor.parallel.loss import loss_parallel
from smolder.distributed.tensor.parallel.style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]
__dir__ = _listing(__name__)
