"""The names of torch.jit that smolder.jit has not got: types in annotations."""

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)
