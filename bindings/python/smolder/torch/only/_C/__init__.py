"""torch._C, torch's core in C++: the names in it that libraries touch, as Smolder has them."""

import importlib

from smolder import Generator, Size, _core, default_generator, device, dtype, layout, memory_format
from smolder._ops import BelowAutograd as _AutoDispatchBelowAutograd  # noqa: F401
from smolder._ops import Tag
from smolder.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, _state
from smolder.overrides import _disabled_torch_dispatch_impl as _disabled_torch_dispatch_impl
from smolder.overrides import _disabled_torch_function_impl as _disabled_torch_function_impl
from smolder.overrides import _is_torch_function_enabled as _is_torch_function_enabled
from smolder.torch.only._C import _functorch as _functorch
from smolder.torch.only._C import _nn as _nn
from smolder.torch.only._C._dispatch import DispatchKey, DispatchKeySet
from smolder.torch.only._C._dispatch import _ExcludeDispatchKeyGuard as _ExcludeDispatchKeyGuard

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Generator", "Size",
    "Tag", "TensorBase", "default_generator", "device", "dtype", "layout", "memory_format",
]  # fmt: skip

TensorBase = _TensorBase = Tensor = _core.Tensor
_TensorMeta = type(_core.Tensor)

_has_cuda = _has_mps = _has_xpu = _has_mkldnn = has_mkl = has_lapack = _has_distributed = False
has_openmp = has_cudnn = _has_cudnn = _has_kleidiai = False


def _log_api_usage_once(event):
    """Tells nobody of the use of a part of torch's: Smolder keeps no such log."""


def _get_tracing_state():
    """None: no function is being traced by TorchScript."""


def _get_privateuse1_backend_name():
    """The name of a type of devices that users may rename; there is none."""
    return "privateuseone"


def _are_functorch_transforms_active():
    """Whether smolder.func.vmap runs a function; transforms for gradients wrap nothing."""
    return _core._vmap_depth() > 0


def _is_torch_function_mode_enabled():
    """Whether a TorchFunctionMode is asked about calls."""
    return bool(_state.modes)


def _is_alias_of(a, b):
    """Whether tensors have the same storage."""
    return a._storage()[0] == b._storage()[0]


def _cuda_isCurrentStreamCapturing():
    from smolder import cuda

    return cuda.is_current_stream_capturing()


def _cuda_getDeviceCount():
    from smolder import cuda

    return cuda.device_count()


def _get_default_device():
    return str(_core._creation_mode())


def _is_tracing():
    return False


def _get_cudnn_enabled():
    from smolder import backends

    return backends.cudnn.enabled


def _jit_set_profiling_executor(on):
    """Returns the setting before: off. There is no TorchScript to run."""
    return False


_jit_set_profiling_mode = _jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_profiling_executor
_jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = _jit_set_profiling_executor


def __getattr__(name):
    if name in ("_fft", "_linalg", "_special"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(name)
