"""torch._dynamo.utils: the names in it that programs ask about."""

from collections import Counter, defaultdict

from smolder._core import _is_capturing

counters = defaultdict(Counter)


def is_compile_supported(device_type):
    """Whether smolder.compile runs on a type of devices."""
    return device_type in ("cpu", "cuda")


def is_compiling():
    """Whether a function is being recorded."""
    return _is_capturing()
