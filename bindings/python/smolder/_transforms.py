"""Fourier transforms without scale, by NumPy's pocketfft on the host, as functions with gradients. Reading the elements
ends the step. fft.py makes torch's functions of them.

Complex tensors go in and out as pairs of real and imaginary parts, along a last dimension of 2, so that their gradients
are those of real tensors. Axes count from the end, without that dimension.
"""

import numpy

from smolder import _core
from smolder._batches import with_leading_batches
from smolder._creation import from_numpy, ones
from smolder.autograd.function import Function


def _on_host(x):
    """The elements as an array; off the CPU the user is told of the way there."""
    if not x._on_cpu:
        _core.tell_fallback("smolder.fft on CUDA", "transforms go through the host")
    return x.detach().cpu().numpy()


def _back(array, like):
    """An array as a tensor where `like` is; complex numbers as pairs, in the precision of `like`."""
    if array.dtype.kind == "c":
        kind = numpy.complex64 if like.dtype == _core.float32 else numpy.complex128
        array = numpy.ascontiguousarray(array, dtype=kind).reshape(*array.shape, 1)  # of one axis at least
        array = array.view(array.real.dtype)
    else:
        array = array.astype("float32" if like.dtype == _core.float32 else "float64", copy=False)
    return from_numpy(numpy.array(array, order="C", copy=not array.flags.owndata)).to(like.device)


def _numbers(pairs):
    """Pairs as an array of complex numbers."""
    array = numpy.ascontiguousarray(pairs)
    return array.view(numpy.complex64 if array.dtype == numpy.float32 else numpy.complex128)[..., 0]


@with_leading_batches
def _complex(pairs, axes, forward):
    numbers = _numbers(_on_host(pairs))
    if forward:
        return _back(numpy.fft.fftn(numbers, axes=axes), pairs)
    return _back(numpy.fft.ifftn(numbers, axes=axes, norm="forward"), pairs)


@with_leading_batches
def _half(x, axis):
    return _back(numpy.fft.rfft(_on_host(x), axis=axis), x)


@with_leading_batches
def _whole(pairs, axis, size):
    return _back(numpy.fft.irfft(_numbers(_on_host(pairs)), size, axis=axis, norm="forward"), pairs)


class _ComplexTransform(Function):
    """Linear; its transpose, in parts, is the transform the other way."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, pairs, axes, forward):
        ctx.how = axes, forward
        return _complex(pairs, axes, forward)

    @staticmethod
    def backward(ctx, grad):
        axes, forward = ctx.how
        return _ComplexTransform.apply(grad.contiguous(), axes, not forward), None, None


class _HalfTransform(Function):
    """Transforms real numbers: the frequencies from 0 to the middle."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x, axis):
        ctx.how = axis, x.size(axis)
        return _half(x, axis)

    @staticmethod
    def backward(ctx, grad):
        axis, size = ctx.how
        rest = list(grad.shape)
        rest[axis - 1] = size - rest[axis - 1]
        whole = _core.cat([grad, grad.new_zeros(rest)], axis - 1)
        return _ComplexTransform.apply(whole, (axis,), False)[..., 0], None


class _RealTransform(Function):
    """The other way: frequencies from 0 to the middle stand for their conjugates as well."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, pairs, axis, size):
        ctx.how = axis, size, pairs.size(axis - 1)
        return _whole(pairs, axis, size)

    @staticmethod
    def backward(ctx, grad):
        axis, size, frequencies = ctx.how
        out = _HalfTransform.apply(grad.contiguous(), axis)
        twice = ones(size // 2 + 1, dtype=grad.dtype, device=grad.device) * 2
        twice[0] = 1
        if size % 2 == 0:
            twice[-1] = 1  # of even sizes the middle is its own conjugate
        out = out * twice.reshape([-1, *[1] * -axis])
        kept = min(frequencies, out.size(axis - 1))
        out = out.narrow(axis - 1, 0, kept)
        rest = list(out.shape)
        rest[axis - 1] = frequencies - kept
        return _core.cat([out, out.new_zeros(rest)], axis - 1), None, None


def complex_transform(x, axes, forward):
    """Sums over complex numbers along axes, negative ones, of x exp(-2 pi i jk / n), or of exp(+...) the other way."""
    return _core.view_as_complex(_ComplexTransform.apply(_core.view_as_real(x), axes, forward))


def half_transform(x, axis):
    """That forward of real numbers along an axis: its frequencies up to n // 2."""
    return _core.view_as_complex(_HalfTransform.apply(x, axis))


def real_transform(x, axis, size):
    """The other way: `size` real numbers along an axis of what half_transform returns."""
    return _RealTransform.apply(_core.view_as_real(x), axis, size)
