"""Settings of torch's that say how it may compute. Here results are deterministic whatever they say."""

from smolder import _core
from smolder._device import CPU, device, usable_device
from smolder._types import get_default_dtype
from smolder._warn import warn

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_default_device",
    "get_device_module",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "use_deterministic_algorithms",
]

_settings = {"deterministic": False, "warn_only": False}
_PRECISIONS = ("highest", "high", "medium")


def set_float32_matmul_precision(precision):
    """How precise products of float32 have to be: "highest" is all of float32.

    "high" and "medium" let products on CUDA be of TensorFloat32: they are backends.cuda.matmul.allow_tf32 as well. On the
    CPU products of float32 are in float32 whatever this says.
    """
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in _PRECISIONS:
        warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call has no "
            "effect."
        )
        return
    _core._set_matmul_precision(_PRECISIONS.index(precision))


def get_float32_matmul_precision():
    """How precise products of float32 have to be: "highest", "high" or "medium"."""
    return _PRECISIONS[_core._get_matmul_precision()]


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for results that repeat, which they always do."""
    _settings["deterministic"], _settings["warn_only"] = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled():
    """What use_deterministic_algorithms was told."""
    return _settings["deterministic"]


def is_deterministic_algorithms_warn_only_enabled():
    """What use_deterministic_algorithms was told."""
    return _settings["warn_only"]


def set_default_dtype(d):
    """The dtype of tensors made from Python floats, which is float32 and can be no other."""
    if not isinstance(d, _core.dtype) or not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if d != get_default_dtype():
        raise NotImplementedError(
            f"set_default_dtype: {d} is not supported: the default dtype is {get_default_dtype()}"
        )


def get_default_device():
    """The device of tensors that are made without one: the CPU at first."""
    where = _core._creation_device()
    return CPU if where == "cpu" else device(where)


def set_default_device(device):
    """Makes tensors lie on a device unless they say where; of this thread. None is the CPU."""
    _core._set_creation_device("cpu" if device is None else usable_device(device).type)


def get_device_module(device=None):
    """The module of a kind of device, such as smolder.cuda; without one that of the accelerator."""
    import smolder

    if device is None:
        return smolder.cuda
    if not isinstance(device, str | type(CPU)):
        raise RuntimeError(f"Invalid value of device '{device}', expect smolder.device, str, or None")
    kind = device.partition(":")[0] if isinstance(device, str) else device.type
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'smolder.{kind}'.")
    return getattr(smolder, kind)
