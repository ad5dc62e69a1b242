"""Notes the names that a program asked for and that are not here, and where it did."""

import atexit
import importlib
import os
import sys

_places = {}
_watching = False
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_OURS = os.path.dirname(os.path.dirname(_HERE)) + os.sep
_IMPORTLIB = os.path.dirname(importlib.__file__) + os.sep


def watch() -> None:
    """Notes each name from here on, and prints them when the process ends."""
    global _watching
    if not _watching:
        _watching = True
        atexit.register(lambda: print(report(), end="", file=sys.stderr))


def note(name: str, what: str) -> None:
    """Notes a name that is missing or refused, with the line of the program that asked first."""
    if _watching and (name, what) not in _places and (place := _line()):
        _places[name, what] = place


def _line():
    """The line that asks; "" where it is Smolder's own."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_HERE, "<frozen", _IMPORTLIB)):
            return "" if file.startswith(_OURS) else f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def asked() -> list[tuple[str, str, str]]:
    """The names so far, as (name, "missing" or "refused", place)."""
    return [(name, what, place) for (name, what), place in sorted(_places.items())]


def report() -> str:
    """The same as text, a line each."""
    lines = [f"{name}  {what}  {place}" for name, what, place in asked()]
    return "\n".join([f"smolder.torch: {len(lines)} names were asked for that are not here", *lines]) + "\n"
