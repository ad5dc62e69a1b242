"""Errors between processes, under torch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import _core

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError"]

if TYPE_CHECKING:

    class DistError(RuntimeError):
        """Raised when something between processes goes wrong."""

    class DistBackendError(DistError):
        """Raised when a collective failed: a rank died, hung, or did something else."""

    class DistNetworkError(DistError):
        """Raised when there is no connection, or it ended."""

    class DistStoreError(DistError):
        """Raised when a store has not got what it is asked for."""

else:
    DistError = _core._DistError
    DistBackendError = _core._DistBackendError
    DistNetworkError = _core._DistNetworkError
    DistStoreError = _core._DistStoreError
