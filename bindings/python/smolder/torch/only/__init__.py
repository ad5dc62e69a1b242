"""Modules of torch's that only programs written for it ask for: each is imported under torch's name, by the alias."""

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)
