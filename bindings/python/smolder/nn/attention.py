"""Which of torch's ways to compute attention may be used: here one way does what any of them does on a CPU."""

import contextlib
import enum

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """torch's ways to compute scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Within it, attention may be computed in these ways alone. MATH or FLASH_ATTENTION must be one; order says nothing."""
    if not isinstance(backends, list | SDPBackend):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION} & set(chosen):
        names = ", ".join(b.name for b in chosen) or "none"
        raise NotImplementedError(f"sdpa_kernel: {names}: attention is computed on the CPU, as MATH or FLASH_ATTENTION")
    yield {}
