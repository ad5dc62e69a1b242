"""Tensors with tangents, by torch's names.

An op computes no tangent of its own: unpack_dual finds one when it is asked for, as the gradient of a gradient (J. Townsend,
"A new trick for calculating Jacobian vector products", 2017), so every op whose gradient has a gradient has it. It follows
that a dual tensor requires a gradient, that ops under no_grad pass no tangent on, and that a custom Function needs a
backward and no jvp.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from smolder import _core
from smolder._modes import enable_grad
from smolder._names import listing as _listing

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
__dir__ = _listing(__name__)


class UnpackedDualTensor(NamedTuple):
    """The values of a dual tensor, and its tangent: of the same shape and dtype, or None."""

    primal: _core.Tensor
    tangent: _core.Tensor | None


class _Duals:
    """The dual tensors of a level: each is of an input that only this level differentiates."""

    def __init__(self) -> None:
        from smolder.func._transforms import _Level  # imports autograd

        self.level = _Level()
        self.inputs: list[_core.Tensor] = []
        self.tangents: list[_core.Tensor] = []
        self.made: list[_core.Tensor] = []


_duals: _Duals | None = None


def enter_dual_level() -> int:
    """Begins a level, in which there can be dual tensors, and returns its number, 0: levels do not nest."""
    global _duals
    if _duals is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _duals = _Duals()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the level: no tensor has a tangent any more."""
    global _duals
    if _duals is None:
        raise RuntimeError("Dual level must be a positive number.")
    if level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _duals = None


@contextmanager
def dual_level() -> Iterator[int]:
    """A level for the block.

    >>> import smolder
    >>> from smolder.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(smolder.tensor([2.0, 3.0]), smolder.tensor([1.0, 0.0]))
    ...     print(forward_ad.unpack_dual(x * x).tangent)
    tensor([4., 0.])
    """
    number = enter_dual_level()
    try:
        yield number
    finally:
        exit_dual_level(level=number)


def make_dual(tensor: _core.Tensor, tangent: _core.Tensor, *, level: int | None = None) -> _core.Tensor:
    """The tensor with a tangent, of its shape. Both are of floats or complex numbers. What is computed of the result in
    this level has a tangent too."""
    if _duals is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for what, x in (("primal", tensor), ("tangent", tangent)):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {x.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if any(tensor._is_same(dual) for dual in _duals.made):
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    with enable_grad():
        x = _duals.level.enter(tensor)
        dual = x.view_as(x)  # which may be written in place, as no leaf may
    _duals.inputs.append(x)
    _duals.tangents.append(tangent.to(tensor.dtype))
    _duals.made.append(dual)
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor's values without its tangent, and its tangent: None where it was computed of no dual tensor."""
    if (
        _duals is None
        or level not in (None, 0)
        or not isinstance(tensor, _core.Tensor)
        or not tensor.requires_grad
        or not _duals.inputs
    ):
        return UnpackedDualTensor(tensor, None)
    from smolder import autograd

    leave = _duals.level.leave
    with enable_grad():
        seed = _duals.level.enter(_core.zeros_like(tensor).detach())
        found = autograd.grad([tensor], _duals.inputs, [seed], create_graph=True, allow_unused=True)
        pairs = [(g, t) for g, t in zip(found, _duals.tangents, strict=True) if g is not None]
        if not pairs:
            return UnpackedDualTensor(tensor, None)
        pairs = [(g, t) for g, t in pairs if g.requires_grad]
        products, tangents = [g for g, _ in pairs], [t for _, t in pairs]
        (tangent,) = (
            autograd.grad(products, [seed], tangents, create_graph=True, allow_unused=True) if pairs else (None,)
        )
    return UnpackedDualTensor(leave(tensor), leave(_core.zeros_like(tensor) if tangent is None else tangent))
