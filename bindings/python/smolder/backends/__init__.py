"""Settings of the libraries that compute for devices, under torch's names."""

from smolder.backends import cuda, cudnn

__all__ = ["cuda", "cudnn", "mps"]


def __getattr__(name):
    if name == "mps":
        import importlib

        return importlib.import_module("smolder.backends.mps")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
