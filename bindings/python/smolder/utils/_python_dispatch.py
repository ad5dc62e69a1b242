"""Modes that see ops (TorchDispatchMode), and questions about tensor classes that libraries ask."""

from smolder._core import Tensor
from smolder._dispatch import TorchDispatchMode as TorchDispatchMode
from smolder._dispatch import current_modes


def is_traceable_wrapper_subclass(t):
    """Whether a tensor, or a class, holds other tensors and says which."""
    kind = t if isinstance(t, type) else type(t)
    flattens = hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")
    return issubclass(kind, Tensor) and kind is not Tensor and flattens


is_traceable_wrapper_subclass_type = is_traceable_wrapper_subclass


def return_and_correct_aliasing(func, args, kwargs, out):
    """Converts the result of an op of a tensor class: an op in place returns the very tensor it was given."""
    name = getattr(func, "__name__", "").partition(".")[0]
    return args[0] if args and name.endswith("_") and not name.endswith("__") else out


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that runs every op as it is."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode():
    modes = current_modes()
    return modes[-1] if modes else None


_get_current_dispatch_mode_stack = current_modes
