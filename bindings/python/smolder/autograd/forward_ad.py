"""Forward-mode differentiation is not supported: functional.jvp computes the same by two backward passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder._names import listing as _listing

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["dual_level", "make_dual", "unpack_dual"]
__dir__ = _listing(__name__)


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(*args, **kwargs):
        raise NotImplementedError(
            f"forward_ad.{name} is not supported: there is no forward-mode differentiation; use autograd.functional.jvp"
        )

    refuse.__name__ = name
    return refuse


dual_level: Callable[..., Any] = _refuse("dual_level")
make_dual: Callable[..., Any] = _refuse("make_dual")
unpack_dual: Callable[..., Any] = _refuse("unpack_dual")
