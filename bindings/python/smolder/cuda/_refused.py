"""Names of torch's that raise, where Smolder does by itself what programs would ask for, or cannot do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def refused(name, why) -> Callable[..., Any]:
    """A function that raises NotImplementedError, which names it and says why."""

    def call(*_, **__):
        raise NotImplementedError(f"{name} is not supported: {why}")

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__doc__ = f"Raises: {why}."
    call._why_refused = why
    return call


def refused_class(name, why, base=object) -> Any:
    """The same as a class, for isinstance and annotations: it is of nothing, since making an object raises."""
    short = name.rpartition(".")[2]
    members = {"__init__": refused(name, why), "__doc__": f"Raises: {why}.", "_why_refused": why}
    return type(short, (base,), members)
