"""Torch's graphs of CUDA, which programs need not ask for: a step that comes again is replayed as one by itself."""

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


def is_current_stream_capturing():
    """False: programs capture nothing themselves."""
    return False


def _refused(name):
    def call(*_, **__):
        raise NotImplementedError(
            f"cuda.{name} is not supported: a step that comes again is captured as a graph and replayed by itself"
        )

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "Raises: a step that comes again is captured and replayed by itself."
    return call


CUDAGraph = _refused("CUDAGraph")
graph = _refused("graph")
graph_pool_handle = _refused("graph_pool_handle")
make_graphed_callables = _refused("make_graphed_callables")
