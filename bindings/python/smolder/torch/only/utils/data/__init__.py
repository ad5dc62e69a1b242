"""Parts of torch.utils.data that only programs written for torch see."""

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)
