"""Settings of products on CUDA: `matmul.allow_tf32` and how partial sums of halves are added."""

from smolder import _core

__all__ = ["is_built", "matmul"]


def is_built():
    """True: there is one build, which finds out when it runs whether there is a device."""
    return True


def _allow_tf32(on=None):
    """Whether float32 may be multiplied as TensorFloat32: False at first, and tied to the precision of products."""
    if on is None:
        return _core._get_matmul_precision() != 0
    if not isinstance(on, bool):
        raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(on).__name__}")
    _core._set_matmul_precision(1 if on else 0)


def _reduction(name, get, set):
    """Whether products of halves may add partial sums in halves: True at first."""

    def flag(on=None):
        if on is None:
            return get()
        if not isinstance(on, bool):
            if isinstance(on, (list, tuple)):
                raise NotImplementedError(f"{name}: a choice for split-K is not supported: a bool is")
            raise TypeError(f"{name} expects a bool or a tuple/list of bools, but got {type(on)}")
        set(on)

    return flag


_FLAGS = {"allow_tf32": _allow_tf32}
for _name, _half in (("fp16", "fp16_reduction"), ("bf16", "bf16_reduction")):
    _flag = f"allow_{_name}_reduced_precision_reduction"
    _FLAGS[_flag] = _reduction(_flag, getattr(_core, f"_get_{_half}"), getattr(_core, f"_set_{_half}"))


class _Matmul:
    """Of products by cuBLASLt; those on the CPU are in full precision whatever these say. They hold from the next step on."""

    def __getattr__(self, name):
        if name not in _FLAGS:
            raise AttributeError("Unknown attribute " + name)
        return _FLAGS[name]()

    def __setattr__(self, name, value):
        if name not in _FLAGS:
            raise AttributeError("Unknown attribute " + name)
        _FLAGS[name](value)

    def __dir__(self):
        return list(_FLAGS)


matmul = _Matmul()
