"""Settings of products on CUDA (`matmul.allow_tf32`, how partial sums of halves are added) and of attention."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._warn import warn

__all__ = [
    "allow_fp16_bf16_reduction_math_sdp", "cudnn_sdp_enabled", "enable_cudnn_sdp", "enable_flash_sdp",
    "enable_math_sdp", "enable_mem_efficient_sdp", "flash_sdp_enabled", "fp16_bf16_reduction_math_sdp_allowed",
    "is_built", "is_flash_attention_available", "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled",
    "preferred_blas_library", "preferred_linalg_library", "sdp_kernel",
]  # fmt: skip
__dir__ = _listing(__name__)


def is_built() -> bool:
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
    """Settings of products by cuBLASLt, from the next step on; those on the CPU are in full precision whatever these say."""

    def __getattr__(self, name: str) -> Any:
        if name not in _FLAGS:
            raise AttributeError("Unknown attribute " + name)
        return _FLAGS[name]()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _FLAGS:
            raise AttributeError("Unknown attribute " + name)
        _FLAGS[name](value)

    def __dir__(self) -> list[str]:
        return list(_FLAGS)


matmul: _Matmul = _Matmul()


# -- attention: see smolder.nn.attention


def _way(name: str, bit: int) -> tuple[Callable[[], bool], Callable[[bool], None]]:
    def enabled():
        return bool(_core._get_attention_ways() & bit)

    def enable(enabled):
        ways = _core._get_attention_ways()
        _core._set_attention_ways(ways | bit if enabled else ways & ~bit)

    enabled.__name__ = enabled.__qualname__ = f"{name}_sdp_enabled"
    enabled.__doc__ = f"Whether attention may be computed in the way {name}."
    enable.__name__ = enable.__qualname__ = f"enable_{name}_sdp"
    enable.__doc__ = f"Says whether attention may be computed in the way {name}."
    return enabled, enable


math_sdp_enabled: Callable[[], bool]
enable_math_sdp: Callable[[bool], None]
flash_sdp_enabled: Callable[[], bool]
enable_flash_sdp: Callable[[bool], None]
mem_efficient_sdp_enabled: Callable[[], bool]
enable_mem_efficient_sdp: Callable[[bool], None]
cudnn_sdp_enabled: Callable[[], bool]
enable_cudnn_sdp: Callable[[bool], None]
math_sdp_enabled, enable_math_sdp = _way("math", 1)
flash_sdp_enabled, enable_flash_sdp = _way("flash", 2)
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _way("mem_efficient", 4)
cudnn_sdp_enabled, enable_cudnn_sdp = _way("cudnn", 8)


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[dict[Any, Any]]:
    """Deprecated: smolder.nn.attention.sdpa_kernel()."""
    warn(
        "`smolder.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please "
        "see `smolder.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.",
        FutureWarning,
    )
    before = _core._get_attention_ways()
    given = (enable_math, enable_flash, enable_mem_efficient, enable_cudnn)
    _core._set_attention_ways(sum(1 << i for i, on in enumerate(given) if on))
    try:
        yield {}
    finally:
        _core._set_attention_ways(before)


def is_flash_attention_available() -> bool:
    """True: kernels that keep no scores are compiled when they are first needed."""
    return True


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """False: where scores of halves are in memory, they are added up in float32."""
    return False


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Takes False alone."""
    if enabled:
        raise NotImplementedError("allow_fp16_bf16_reduction_math_sdp(True) is not supported: sums are in float32")


def _preferred(what, names, taken) -> Callable[..., Any]:
    def preferred(backend=None):
        if backend is None or backend in ("default", taken):
            return taken
        if backend not in names:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(names)}.")
        raise NotImplementedError(f"preferred_{what}_library({backend!r}) is not supported: {taken} is used")

    preferred.__name__ = preferred.__qualname__ = f"preferred_{what}_library"
    preferred.__doc__ = f'The library that is used, "{taken}"; no other may be asked for.'
    return preferred


preferred_blas_library: Callable[..., Any] = _preferred(
    "blas", ("default", "cublas", "cublaslt", "hipblaslt", "ck"), "cublaslt"
)
preferred_linalg_library: Callable[..., Any] = _preferred(
    "linalg", ("default", "cusolver", "magma", "host"), "cusolver"
)
