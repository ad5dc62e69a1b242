"""Wrappers of modules that compute activations again."""

from smolder._names import listing as _listing
from smolder.distributed.algorithms._checkpoint import checkpoint_wrapper

__all__ = ["checkpoint_wrapper"]
__dir__ = _listing(__name__)
