"""Settings of the libraries that compute for devices, under torch's names."""

from smolder.backends import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mps"]
