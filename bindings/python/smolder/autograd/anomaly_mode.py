"""Anomaly mode: errors in backward name the forward line, and gradients that are nan are errors."""

from __future__ import annotations

import os
import traceback

from smolder import _core
from smolder._names import listing as _listing
from smolder._warn import warn

__all__ = ["detect_anomaly", "set_detect_anomaly"]
__dir__ = _listing(__name__)

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _trace():
    """The calls that led here, without the package's own."""
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(_PACKAGE)]
    return "".join(traceback.format_list(frames))


class set_detect_anomaly:
    """Turns anomaly mode on or off: at once as a function, until exit as a context manager."""

    before: tuple[bool, bool]

    def __init__(self, mode: str, check_nan: bool = True) -> None:
        self.before = _core.is_anomaly_enabled(), _core.is_anomaly_check_nan_enabled()
        _core._set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        _core._set_anomaly_enabled(*self.before)


class detect_anomaly:
    """Within it, an error in backward names the line that recorded the op, and a nan in a gradient is an error.

    Every gradient is read as it is computed, so each ends a step.
    """

    before: tuple[bool, bool]

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self.before = _core.is_anomaly_enabled(), _core.is_anomaly_check_nan_enabled()
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging."
        )

    def __enter__(self) -> None:
        self.before = _core.is_anomaly_enabled(), _core.is_anomaly_check_nan_enabled()
        _core._set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *exception: object) -> None:
        _core._set_anomaly_enabled(*self.before)
