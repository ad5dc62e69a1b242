"""A question of torch.backends.cpu."""

import pathlib

from smolder._names import listing as _listing

__all__ = ["get_cpu_capability"]
__dir__ = _listing(__name__)


def get_cpu_capability() -> str:
    """The widest vectors that the processor has, in torch's words: "AVX512", "AVX2" or "DEFAULT"."""
    try:
        flags = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return "DEFAULT"
    return "AVX512" if " avx512f " in flags else "AVX2" if " avx2 " in flags else "DEFAULT"
