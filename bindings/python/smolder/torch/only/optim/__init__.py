"""Modules and names of torch.nn that libraries import, for annotations mostly."""

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)
