"""The version, and that of CUDA's compiler where there is one."""

from smolder import _core
from smolder._version import __version__

__all__ = ["__version__", "cuda", "hip"]  # noqa: F822 - cuda is asked for below

hip = None  # tensors are on no device of AMD's


def __getattr__(name):
    if name == "cuda":
        return _core._cuda_toolkit_version() or None if _core._cuda_is_available() else None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
