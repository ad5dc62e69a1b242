"""The version, and that of CUDA's compiler where there is one."""

from smolder import _core
from smolder._version import __version__

__all__ = ["__version__", "cuda", "git_version", "hip", "rocm", "xpu"]  # noqa: F822 - cuda is asked for below

hip = rocm = xpu = None  # tensors are on no device of AMD's or Intel's
git_version = "Unknown"  # builds are told apart by __version__


def __getattr__(name):
    if name == "cuda":
        return _core._cuda_toolkit_version() or None if _core._cuda_is_available() else None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
