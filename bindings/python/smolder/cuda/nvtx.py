"""Torch's marks for NVIDIA's profilers, which raise: kernels are named after their ops, so profiles tell what ran."""

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _refused(name):
    def call(*_, **__):
        raise NotImplementedError(f"cuda.nvtx.{name} is not supported: kernels are named after the ops that they run")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "Raises: kernels are named after the ops that they run."
    return call


mark = _refused("mark")
range = _refused("range")
range_end = _refused("range_end")
range_pop = _refused("range_pop")
range_push = _refused("range_push")
range_start = _refused("range_start")
