"""dir() of a public module: the names that it offers, not those that it imports."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable


def listing(name: str, later: Iterable[str] = ()) -> Callable[[], list[str]]:
    """The __dir__ of a module: the names of its __all__, its public modules that are imported, and those of `later`."""

    def __dir__() -> list[str]:
        module = sys.modules[name]
        prefix = f"{name}."
        modules = {
            member
            for member, value in vars(module).items()
            if isinstance(value, types.ModuleType) and value.__name__ == prefix + member and member[0] != "_"
        }
        return sorted({*module.__all__, *modules, *(n for n in later if n[0] != "_")})

    return __dir__
