"""Kullback and Leibler's divergence of two distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolder._names import listing as _listing
from smolder._typing import T, Tensor
from smolder._warn import warn
from smolder.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]
__dir__ = _listing(__name__)

_KL_REGISTRY: dict[tuple[type[Distribution], type[Distribution]], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[T], T]:
    """Decorates a function of two distributions that says their divergence.

    Args:
        type_p: The class of the first, and of classes under it.
        type_q: The class of the second.
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):  # mixins of distributions are taken too
            raise TypeError(f"Expected type_p and type_q to be Distribution subclasses but got {kind}")

    def decorate(function):
        _KL_REGISTRY[type_p, type_q] = function
        return function

    return decorate


def _found(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[Any, Any], Tensor] | None:
    """The function whose classes are nearest; where the first's and the second's nearest differ, it warns."""
    order_p, order_q = type_p.__mro__, type_q.__mro__
    pairs = [(p, q) for p, q in _KL_REGISTRY if p in order_p and q in order_q]
    if not pairs:
        return None
    left = min(pairs, key=lambda pair: (order_p.index(pair[0]), order_q.index(pair[1])))
    right = min(pairs, key=lambda pair: (order_q.index(pair[1]), order_p.index(pair[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean of log(p(x) / q(x)) of x of p, for each of the batch.

    Args:
        p: The distribution whose samples they are.
        q: The distribution that it is compared with.
    """
    function = _found(type(p), type(q))
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return function(p, q)


from smolder.distributions import _kl_across, _kl_within  # noqa: E402, F401  (they register what is known)
