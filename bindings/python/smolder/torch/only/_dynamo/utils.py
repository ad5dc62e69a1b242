"""torch._dynamo.utils: the names in it that programs ask about."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator

from smolder._core import _is_capturing

counters = defaultdict(Counter)


def is_compile_supported(device_type):
    """Whether smolder.compile runs on a type of devices."""
    return device_type in ("cpu", "cuda")


def is_compiling():
    """Whether a function is being recorded."""
    return _is_capturing()


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Within it torch records a function however often it changes. Smolder does so always."""
    yield


def has_triton() -> bool:
    """Whether kernels may be Triton's: none here is."""
    return False
