"""Where CUDA's own profilers begin and end."""

import contextlib

from smolder import _core
from smolder._device import usable_device

__all__ = ["profile", "start", "stop"]


def start():
    """Runs what is recorded, and lets a profiler that waits for it begin."""
    _toggle(True)


def stop():
    """Runs what is recorded, and lets the profiler end."""
    _toggle(False)


def _toggle(on):
    usable_device("cuda")
    for index in range(_core._cuda_device_count()):
        _core._cuda_run_recorded("profiler", index)
    _core._cuda_profile(on)


@contextlib.contextmanager
def profile():
    """Profiles what is in it."""
    start()
    try:
        yield
    finally:
        stop()
