"""Torch's marks for NVIDIA's profilers, which raise: kernels are named after their ops, so profiles tell what ran."""

from smolder._names import listing as _listing
from smolder.cuda._refused import refused

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]
__dir__ = _listing(__name__)


_WHY = "kernels are named after the ops that they run"
mark = refused("cuda.nvtx.mark", _WHY)
range = refused("cuda.nvtx.range", _WHY)
range_end = refused("cuda.nvtx.range_end", _WHY)
range_pop = refused("cuda.nvtx.range_pop", _WHY)
range_push = refused("cuda.nvtx.range_push", _WHY)
range_start = refused("cuda.nvtx.range_start", _WHY)
