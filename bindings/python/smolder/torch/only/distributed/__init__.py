"""Of torch.distributed what libraries call where they are imported."""

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)
