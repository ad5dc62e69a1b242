"""Whether backward refuses values that were written in place since they were recorded."""

from __future__ import annotations

from typing import Self

from smolder import _core
from smolder._names import listing as _listing

__all__ = ["set_version_checks"]
__dir__ = _listing(__name__)


class set_version_checks:
    """Turns torch's check of in-place writes on or off: at once as a function, until exit as a context manager.

    What backward needs is kept as it was, so a later write changes no gradient and programs that torch refuses work.
    With the check they raise torch's error here as well, for programs that must run there.
    """

    before: bool

    def __init__(self, mode: bool) -> None:
        self.before = _core._version_checks()
        _core._set_version_checks(bool(mode))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        _core._set_version_checks(self.before)
