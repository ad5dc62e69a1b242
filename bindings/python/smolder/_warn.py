"""Warnings that name the user's line, however many of the package's own calls lie between."""

import os
import sys
import warnings

from smolder import _core

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn(message, category=UserWarning):
    """As warnings.warn, at the innermost line that is not the package's."""
    if _core._is_capturing():
        _core._note_break(f"a warning: {message}")  # a recorded step would tell nobody
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
