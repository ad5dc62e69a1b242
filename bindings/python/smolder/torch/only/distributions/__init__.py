"""The names of torch.distributions that libraries import."""

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)
