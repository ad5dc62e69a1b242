"""Modules that add elements around signals, images and volumes."""

from __future__ import annotations

from typing import Any

from smolder._names import listing as _listing
from smolder._typing import Ints, Tensor
from smolder.nn import functional as F
from smolder.nn.module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip
__dir__ = _listing(__name__)


class _Pad(Module):
    """Pairs of sizes from the last dimension on, or one for all."""

    _dims, _mode = 0, "constant"

    def __init__(self, padding: Ints) -> None:
        super().__init__()
        pairs = tuple(padding) if isinstance(padding, tuple | list) else (padding,) * (2 * self._dims)
        if len(pairs) != 2 * self._dims:
            raise ValueError(f"{type(self).__name__}: expected {2 * self._dims} sizes, got {padding}")
        self.padding = pairs

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    def __init__(self, padding: Ints, value: Any) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A number around signals."""

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """A number around images."""

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """A number around volumes."""

    _dims = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Ints) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Zeros around signals."""

    _dims = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around images."""

    _dims = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around volumes."""

    _dims = 3


class _ReflectionPadNd(_Pad):
    pass


class ReflectionPad1d(_ReflectionPadNd):
    """Signals seen in mirrors at their ends."""

    _dims, _mode = 1, "reflect"


class ReflectionPad2d(_ReflectionPadNd):
    """Images seen in mirrors at their edges."""

    _dims, _mode = 2, "reflect"


class ReflectionPad3d(_ReflectionPadNd):
    """Volumes seen in mirrors at their faces."""

    _dims, _mode = 3, "reflect"


class _ReplicationPadNd(_Pad):
    pass


class ReplicationPad1d(_ReplicationPadNd):
    """The ends of signals repeated."""

    _dims, _mode = 1, "replicate"


class ReplicationPad2d(_ReplicationPadNd):
    """The edges of images repeated."""

    _dims, _mode = 2, "replicate"


class ReplicationPad3d(_ReplicationPadNd):
    """The faces of volumes repeated."""

    _dims, _mode = 3, "replicate"


class _CircularPadNd(_Pad):
    pass


class CircularPad1d(_CircularPadNd):
    """Signals continued from their other end."""

    _dims, _mode = 1, "circular"


class CircularPad2d(_CircularPadNd):
    """Images continued from their other edge."""

    _dims, _mode = 2, "circular"


class CircularPad3d(_CircularPadNd):
    """Volumes continued from their other face."""

    _dims, _mode = 3, "circular"
