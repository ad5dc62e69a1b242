"""torch._C._nn: functions of smolder.nn.functional under the path that torch has them by in C++."""

from smolder.nn import functional


def __getattr__(name):
    return getattr(functional, "logsigmoid" if name == "log_sigmoid" else name)


def _parse_to(*args, **kwargs):
    """(device, dtype, non_blocking, memory_format) of the arguments of a call of to()."""
    from smolder import Tensor, device, dtype

    where, kind = kwargs.get("device"), kwargs.get("dtype")
    for arg in args:
        if isinstance(arg, Tensor):
            where, kind = arg.device, arg.dtype
        elif isinstance(arg, dtype):
            kind = arg
        elif arg is not None and not isinstance(arg, bool):
            where = device(arg)
    flags = [arg for arg in args if isinstance(arg, bool)]
    blocking = kwargs.get("non_blocking", flags[0] if flags else False)
    return device(where) if where is not None else None, kind, blocking, kwargs.get("memory_format")
