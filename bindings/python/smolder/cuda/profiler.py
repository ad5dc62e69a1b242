"""Where CUDA's own profilers begin and end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from smolder import _core
from smolder._device import usable_device
from smolder._names import listing as _listing

__all__ = ["profile", "start", "stop"]
__dir__ = _listing(__name__)


def start() -> None:
    """Runs what is recorded, and lets a profiler that waits for it begin."""
    _toggle(True)


def stop() -> None:
    """Runs what is recorded, and lets the profiler end."""
    _toggle(False)


def _toggle(on):
    usable_device("cuda")
    for index in range(_core._cuda_device_count()):
        _core._cuda_run_recorded("profiler", index)
    _core._cuda_profile(on)


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Profiles what is in it."""
    start()
    try:
        yield
    finally:
        stop()
