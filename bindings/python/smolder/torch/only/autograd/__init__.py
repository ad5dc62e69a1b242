"""torch.autograd: what libraries import of its workings."""

from smolder._names import listing as _listing

__all__ = []
__dir__ = _listing(__name__)
