"""Shapes of tensors changed in place: the object becomes another view of its storage."""

from __future__ import annotations

from smolder import _core
from smolder._modes import inference_mode, set_grad_enabled
from smolder._tensor import _method


def _reshaped(self, name, view, *args):
    if self.requires_grad and self.is_leaf:
        if _core.is_grad_enabled():
            raise RuntimeError(f"{name}: a leaf Variable that requires grad is being used in an in-place operation.")
        self._set_data(getattr(self.detach(), view)(*args))  # it stays the leaf that it is
        return self
    # A change of shape keeps the history that there is, where none is recorded too.
    inference = _core.is_inference_mode_enabled() and not self.requires_grad
    recorded = _core.is_grad_enabled() or self.requires_grad
    with inference_mode(inference), set_grad_enabled(recorded):
        self._become(getattr(self, view)(*args))
    return self


@_method
def t_(self):
    """As t, of the tensor itself."""
    return _reshaped(self, "t_", "t")


@_method
def squeeze_(self, dim=None):
    """As squeeze, of the tensor itself."""
    return _reshaped(self, "squeeze_", "squeeze", *(() if dim is None else (dim,)))


@_method
def unsqueeze_(self, dim):
    """As unsqueeze, of the tensor itself."""
    return _reshaped(self, "unsqueeze_", "unsqueeze", dim)


@_method
def transpose_(self, dim0, dim1):
    """As transpose, of the tensor itself."""
    return _reshaped(self, "transpose_", "transpose", dim0, dim1)


@_method
def swapaxes_(self, axis0, axis1):
    """As swapaxes, of the tensor itself."""
    return _reshaped(self, "swapaxes_", "transpose", axis0, axis1)


@_method
def swapdims_(self, dim0, dim1):
    """As swapdims, of the tensor itself."""
    return _reshaped(self, "swapdims_", "transpose", dim0, dim1)
