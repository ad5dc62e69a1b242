"""Modules of torch.nn.modules that such programs alone import."""

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)
