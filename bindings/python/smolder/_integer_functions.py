"""Functions of integers, and of the parts that a floating-point number is made of."""

from __future__ import annotations

import functools

from smolder import _core
from smolder._call_errors import name_what_is_no_tensor
from smolder._creation import full_like, zeros_like
from smolder._functions import broadcast_tensors, result_type
from smolder._tensor import Tensor
from smolder._typing import T

__all__ = ["frexp", "gcd", "lcm", "nextafter"]

# The integer dtype that holds the bits of a number.
_BITS = {
    _core.float16: _core.int16,
    _core.bfloat16: _core.int16,
    _core.float32: _core.int32,
    _core.float64: _core.int64,
}


def _method(function: T) -> T:
    setattr(Tensor, function.__name__, function)
    return function


def _check_tensor(name, other):
    if not isinstance(other, Tensor):
        raise TypeError(f"{name}(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")


def _integers(name, input, other):
    _check_tensor(name, other)
    dtype = result_type(input, other)
    if dtype.is_floating_point or dtype.is_complex or dtype == _core.bool:
        kind = "Boolean" if dtype == _core.bool else str(dtype)
        raise NotImplementedError(f'"{name}" is not implemented for {kind}: it is of integers')
    a, b = broadcast_tensors(input.to(dtype), other.to(dtype))
    return a.abs(), b.abs()


@_method
def gcd(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisors of integers, by Euclid's steps; the largest operands say how many, so the step ends.

    The least integer has no magnitude: remainders of it are negative, as in torch.
    """
    a, b = _integers("gcd", input, other)
    while bool((b != 0).any()):
        left = b != 0
        a, b = _core.where(left, b, a), _core.where(left, _core.fmod(a, _core.where(left, b, 1)), 0)
    return a


@_method
def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiples of integers; 0 where one of them is 0. Ends the step, as gcd does."""
    a, b = _integers("lcm", input, other)
    divisor = gcd(a, b)
    return (a // _core.where(divisor == 0, 1, divisor) * b).abs()


@_method
def gcd_(self: Tensor, other: Tensor) -> Tensor:
    """gcd, written into self."""
    return self.copy_(gcd(self, other))


@_method
def lcm_(self: Tensor, other: Tensor) -> Tensor:
    """lcm, written into self."""
    return self.copy_(lcm(self, other))


@_method
def frexp(input: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers as mantissa * 2 ** exponent, with mantissas from 0.5 to 1; zeros, infinities and NaN have exponent 0."""
    if not input.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    wide = input.detach().double()
    plain = wide.isfinite() & (wide != 0)
    # Denormal numbers have no exponent of their own. float64's logarithm is one off at most, which the second step mends.
    small = plain & (wide.abs() < 2.0**-1000)
    size = _core.where(plain, _core.where(small, wide * 2.0**200, wide).abs(), 0.5)
    exponent = size.log2().floor() + 1.0
    half = size * (-(exponent / 2).floor()).exp2() * (-(exponent - (exponent / 2).floor())).exp2()
    exponent = exponent + (half >= 1.0).double() - (half < 0.5).double() - _core.where(small, 200.0, 0.0)
    exponent = _core.where(plain, exponent, 0.0)
    first = (exponent / 2).floor()
    whole = input.double()  # with its gradients
    mantissa = whole * (-first).exp2() * (first - exponent).exp2()
    from smolder.return_types import frexp

    return frexp(_core.where(plain, mantissa, whole).to(input.dtype), exponent.to(_core.int32))


@_method
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The numbers next to input, towards other. Looks at bits, so the step ends."""
    _check_tensor("nextafter", other)
    dtype = result_type(input, other)
    if dtype not in _BITS:
        raise NotImplementedError(f'"nextafter" is not implemented for {dtype}: it is of floating-point numbers')
    x, y = (t.contiguous() for t in broadcast_tensors(input.detach().to(dtype), other.detach().to(dtype)))
    bits = _BITS[dtype]
    # The bits of numbers of one sign are ordered as their sizes are.
    away = _core.where((y > x) == (x > 0), 1, -1).to(bits)
    moved = (x.view(bits) + away).view(dtype)
    smallest = zeros_like(x.view(bits)).add(1).view(dtype)
    moved = _core.where(x == 0, _core.where(y > 0, smallest, -smallest), moved)
    out = _core.where(x == y, y, moved)
    out = _core.where(x.isnan() | y.isnan(), full_like(x, float("nan")), out)
    if _core.is_grad_enabled() and (input.requires_grad or other.requires_grad):
        return _no_gradient().apply(out, input, other)
    return out


@functools.cache
def _no_gradient():
    from smolder.autograd import Function  # which imports this

    class NextAfter(Function):
        """The result, with a history that says that there is no gradient."""

        @staticmethod
        def forward(ctx, out, input, other):
            return out.clone()

        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError("the derivative for 'nextafter' is not implemented.")

    return NextAfter


name_what_is_no_tensor(globals())
