"""The names of torch.backends that smolder.backends has not got."""

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)
