"""Shapes of tensors changed in place: the object becomes another view of its storage."""

from __future__ import annotations

from smolder import _core
from smolder._tensor import _method


def _reshaped(self, name, changed):
    if self.requires_grad and self.is_leaf:
        raise RuntimeError(
            f"{name}: a leaf Variable that requires grad is being used in an in-place operation."
            if _core.is_grad_enabled()
            else f"{name} of a leaf that requires grad is not supported; assign {name[:-1]} of it to .data"
        )
    self._become(changed)
    return self


@_method
def t_(self):
    """As t, of the tensor itself."""
    return _reshaped(self, "t_", self.t())


@_method
def squeeze_(self, dim=None):
    """As squeeze, of the tensor itself."""
    return _reshaped(self, "squeeze_", self.squeeze() if dim is None else self.squeeze(dim))


@_method
def unsqueeze_(self, dim):
    """As unsqueeze, of the tensor itself."""
    return _reshaped(self, "unsqueeze_", self.unsqueeze(dim))


@_method
def transpose_(self, dim0, dim1):
    """As transpose, of the tensor itself."""
    return _reshaped(self, "transpose_", self.transpose(dim0, dim1))


@_method
def swapaxes_(self, axis0, axis1):
    """As swapaxes, of the tensor itself."""
    return _reshaped(self, "swapaxes_", self.transpose(axis0, axis1))


@_method
def swapdims_(self, dim0, dim1):
    """As swapdims, of the tensor itself."""
    return _reshaped(self, "swapdims_", self.transpose(dim0, dim1))
