"""The part of torch.fx.experimental that works on recorded ops: graphs of what a function does with tensors."""

from __future__ import annotations

from smolder._names import listing as _listing
from smolder.fx.experimental import proxy_tensor

__all__ = ["proxy_tensor"]
__dir__ = _listing(__name__)
