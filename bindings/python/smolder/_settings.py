"""Settings of torch's that say how it may compute. Here results are deterministic whatever they say."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._device import CPU, device, usable_device
from smolder._typing import Device, DType, Tensor
from smolder._warn import warn

__all__ = [
    "are_deterministic_algorithms_enabled", "get_default_device", "get_deterministic_debug_mode", "get_device_module",
    "get_float32_matmul_precision", "is_deterministic_algorithms_warn_only_enabled", "set_default_device",
    "set_default_dtype", "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision",
    "use_deterministic_algorithms",
]  # fmt: skip

_settings = {"deterministic": False, "warn_only": False}
_PRECISIONS = ("highest", "high", "medium")


def set_float32_matmul_precision(precision: str) -> None:
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


def get_float32_matmul_precision() -> Any:
    """How precise products of float32 have to be: "highest", "high" or "medium"."""
    return _PRECISIONS[_core._get_matmul_precision()]


def use_deterministic_algorithms(mode: str, *, warn_only: bool = False) -> None:
    """Asks for results that repeat, which they always do."""
    _settings["deterministic"], _settings["warn_only"] = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether use_deterministic_algorithms(True) was called last."""
    return _settings["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether use_deterministic_algorithms was asked for with warn_only=True."""
    return _settings["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Asks for results that repeat, which they always do: 0 or "default", 1 or "warn", 2 or "error"."""
    modes = ("default", "warn", "error")
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in modes:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got " + debug_mode
            )
        debug_mode = modes.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """The setting as a number."""
    return 0 if not _settings["deterministic"] else 1 if _settings["warn_only"] else 2


def set_default_tensor_type(t: Tensor) -> None:
    """Deprecated: the dtype of tensors made from Python floats, and where they are made.

    t is a type such as smolder.FloatTensor and smolder.cuda.FloatTensor, or its name.
    """
    import smolder

    if isinstance(t, str):
        package, _, name = t.rpartition(".")
        place = {"smolder": smolder, "smolder.cuda": smolder.cuda, "torch": smolder, "torch.cuda": smolder.cuda}
        t = getattr(place.get(package), name, None)
    dtype = getattr(t, "dtype", None)
    if dtype is None:
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    warn(
        "smolder.set_default_tensor_type() is deprecated, please use smolder.set_default_dtype() and "
        "smolder.set_default_device() as alternatives."
    )
    set_default_dtype(dtype)
    set_default_device("cuda" if t.__module__.startswith("smolder.cuda") else None)


def set_default_dtype(d: DType) -> None:
    """The dtype of floats that nothing else says the dtype of: of tensors made from Python's floats or from sizes, of
    parameters, of integers beside Python's floats, and of quotients and functions of integers.

    Of the process. Complex numbers of Python's are of the dtype whose parts are of it.

    Arguments:
        d (dtype): a floating-point one
    """
    if not isinstance(d, _core.dtype) or not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _core._set_default_dtype(d)


def get_default_device() -> device:
    """The device of tensors that are made without one: the CPU at first."""
    where = _core._creation_device()
    return CPU if where == "cpu" else device(where)


def set_default_device(device: Device) -> None:
    """Makes tensors lie on a device unless they say where; of this thread. None is the CPU."""
    _core._set_creation_device("cpu" if device is None else str(usable_device(device)))


def get_device_module(device: Device = None) -> Any:
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
