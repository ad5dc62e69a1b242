"""Questions about tensor classes that libraries ask torch.utils._python_dispatch."""

import smolder


def is_traceable_wrapper_subclass(t):
    """Whether a tensor, or a class, holds other tensors and says which."""
    kind = t if isinstance(t, type) else type(t)
    flattens = hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")
    return issubclass(kind, smolder.Tensor) and kind is not smolder.Tensor and flattens


is_traceable_wrapper_subclass_type = is_traceable_wrapper_subclass


def return_and_correct_aliasing(func, args, kwargs, out):
    """What an op of a tensor class returns: of one that writes in place, the very tensor it was given."""
    name = getattr(func, "__name__", "").partition(".")[0]
    return args[0] if args and name.endswith("_") and not name.endswith("__") else out
