"""Watching a call: which code ran, and what it did that a recorded step cannot do again."""

import builtins
import io
import random
import sys
import types

from smolder.compiler._world import is_library

# Modules whose Python functions answer differently each time, or act on the world outside.
_IMPURE_MODULES = {"os", "random", "logging", "secrets", "uuid", "tempfile", "subprocess", "threading", "socket"}
_IMPURE_BUILTIN_MODULES = {"time", "posix", "_random", "_socket", "_thread", "_io"}
_IMPURE_BUILTINS = {builtins.print, builtins.input, builtins.open, builtins.breakpoint, builtins.globals}
_IMPURE_BUILTINS |= {builtins.exec, builtins.eval}
_CLOCKS = {"now", "today", "utcnow"}


def _impure(function):
    """What a function in C does that cannot be recorded; None where it may be."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, types.ModuleType):
        impure = function in _IMPURE_BUILTINS or owner.__name__ in _IMPURE_BUILTIN_MODULES
    elif isinstance(owner, type):
        impure = owner.__module__ == "datetime" and function.__name__ in _CLOCKS
    else:
        impure = isinstance(owner, random.Random | io.IOBase)
    return f"{getattr(function, '__qualname__', 'a function')}()" if impure else None


class Watch:
    """`ran` is the code that ran while it was entered; `note` is told of what cannot be recorded."""

    def __init__(self, note):
        self.ran, self._note, self._before = set(), note, None

    def __enter__(self):
        self._before = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *exception):
        sys.setprofile(self._before)

    def _event(self, frame, event, arg):
        if event == "call":
            self.ran.add(frame.f_code)
            module = frame.f_globals.get("__name__")
            if module in _IMPURE_MODULES:
                self._note(f"{module}.{frame.f_code.co_name}()")
        elif event == "c_call" and (why := _impure(arg)) and not _ours(frame.f_code):
            self._note(why)

    def unseen(self, codes):
        """Code of the program that ran and is none of `codes`, as text; None if there is none."""
        for code in self.ran - codes:
            if not is_library(code.co_filename):
                return f"{code.co_qualname} ran, which no guard reaches"
        return None


def _ours(code):
    """Whether calls of code are no business of the function's: of this package, or importing a module."""
    return code.co_filename.startswith((__file__.rsplit("compiler", 1)[0], "<frozen importlib"))
