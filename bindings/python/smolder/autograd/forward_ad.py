"""Forward-mode differentiation is not supported: functional.jvp computes the same by two backward passes."""

from smolder._names import listing as _listing

__all__ = ["dual_level", "make_dual", "unpack_dual"]
__dir__ = _listing(__name__)


def _refuse(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(
            f"forward_ad.{name} is not supported: there is no forward-mode differentiation; use autograd.functional.jvp"
        )

    refuse.__name__ = name
    return refuse


dual_level, make_dual, unpack_dual = (_refuse(n) for n in __all__)
