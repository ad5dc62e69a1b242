"""Fourier transforms, by NumPy's pocketfft on the host, as functions with gradients. Reading the elements
ends the step. fft.py makes torch's functions of them.

Complex tensors go in and out as pairs of real and imaginary parts, along a last dimension of 2, so that their gradients
are those of real tensors. Axes count from the end, without that dimension.
"""

import numpy

from smolder import _core
from smolder._batches import with_leading_batches
from smolder._creation import from_numpy, ones
from smolder._host_function import HostFunction

try:  # what numpy.fft calls: its own functions take numbers of single precision through double where nothing is scaled
    from numpy.fft._pocketfft_umath import fft, ifft, irfft, rfft_n_even, rfft_n_odd

    _is_plain = True
except ImportError:  # NumPy 1, which has double precision alone
    _is_plain = False

_FEW = 16384  # elements, which are copied in less time than their memory is shared


def _on_host(x):
    """The elements as an array; off the CPU the user is told of the way there."""
    if not x._on_cpu:
        _core.tell_fallback("smolder.fft on CUDA", "transforms go through the host")
    return x._to_numpy() if x.numel() <= _FEW else x.detach().cpu().numpy()


def _back(array, like):
    """An array as a tensor where `like` is; complex numbers as pairs, in the precision of `like`."""
    if array.dtype.kind == "c":
        kind = numpy.complex64 if like.dtype == _core.float32 else numpy.complex128
        array = numpy.ascontiguousarray(array, dtype=kind).reshape(*array.shape, 1)  # of one axis at least
        array = array.view(array.real.dtype)
    else:
        array = numpy.ascontiguousarray(array, dtype=numpy.float32 if like.dtype == _core.float32 else numpy.float64)
    if array.size <= _FEW:
        out = _core.from_numpy_copy(array)
    else:
        out = from_numpy(numpy.array(array, order="C", copy=not array.flags.owndata))
    return out if like._on_cpu else out.to(like.device)


def _numbers(pairs):
    """Pairs as an array of complex numbers."""
    array = numpy.ascontiguousarray(pairs)
    return array.view(numpy.complex64 if array.dtype == numpy.float32 else numpy.complex128)[..., 0]


def _transformed(function, x, axis, size, kind, scale):
    """The results of one of NumPy's functions along an axis, of which there are `size`, of an element type; complex ones
    as pairs."""
    shape = list(x.shape)
    shape[axis] = size
    real = _REAL[kind]
    pairs = out = numpy.empty(shape if real is kind else [*shape, 2], real)
    if real is not kind:
        out = _numbers(pairs)
    along = {} if axis == -1 else {"axes": [(axis,), (), (axis,)]}
    function(x, real(scale), out=out, **along)
    return pairs


_REAL = {t: t for t in (numpy.float32, numpy.float64)} | {
    numpy.complex64: numpy.float32,
    numpy.complex128: numpy.float64,
}


@with_leading_batches
def _complex(pairs, axes, forward, scale):
    x = _on_host(pairs)
    if not _is_plain:
        x = _numbers(x)
        return _back(
            (numpy.fft.fftn(x, axes=axes) if forward else numpy.fft.ifftn(x, axes=axes, norm="forward")) * scale, pairs
        )
    for axis in reversed(axes):  # the last is scaled
        numbers = _numbers(x)
        by = 1 if axis != axes[0] else scale
        x = _transformed(fft if forward else ifft, numbers, axis, x.shape[axis - 1], numbers.dtype.type, by)
    return _back(x, pairs)


@with_leading_batches
def _half(x, axis, scale):
    a, n = _on_host(x), x.size(axis)
    if not _is_plain:
        return _back(numpy.fft.rfft(a, axis=axis) * scale, x)
    kind = numpy.complex64 if a.dtype == numpy.float32 else numpy.complex128
    return _back(_transformed(rfft_n_odd if n % 2 else rfft_n_even, a, axis, n // 2 + 1, kind, scale), x)


@with_leading_batches
def _whole(pairs, axis, size, scale):
    x = _numbers(_on_host(pairs))
    if not _is_plain:
        return _back(numpy.fft.irfft(x, size, axis=axis, norm="forward") * scale, pairs)
    return _back(_transformed(irfft, x, axis, size, _REAL[x.dtype.type], scale), pairs)


class _ComplexTransform(HostFunction):
    """Linear; its transpose, in parts, is the transform the other way."""

    @staticmethod
    def forward(ctx, pairs, axes, forward, scale):
        ctx.how = axes, forward, scale
        return _complex(pairs, axes, forward, scale)

    @staticmethod
    def backward(ctx, grad):
        axes, forward, scale = ctx.how
        return _ComplexTransform.apply(grad.contiguous(), axes, not forward, scale), None, None, None


class _HalfTransform(HostFunction):
    """Transforms real numbers: the frequencies from 0 to the middle."""

    @staticmethod
    def forward(ctx, x, axis, scale):
        ctx.how = axis, x.size(axis), scale
        return _half(x, axis, scale)

    @staticmethod
    def backward(ctx, grad):
        axis, size, scale = ctx.how
        rest = list(grad.shape)
        rest[axis - 1] = size - rest[axis - 1]
        whole = _core.cat([grad, grad.new_zeros(rest)], axis - 1)
        return _ComplexTransform.apply(whole, (axis,), False, scale)[..., 0], None, None


class _RealTransform(HostFunction):
    """The other way: frequencies from 0 to the middle stand for their conjugates as well."""

    @staticmethod
    def forward(ctx, pairs, axis, size, scale):
        ctx.how = axis, size, pairs.size(axis - 1), scale
        return _whole(pairs, axis, size, scale)

    @staticmethod
    def backward(ctx, grad):
        axis, size, frequencies, scale = ctx.how
        out = _HalfTransform.apply(grad.contiguous(), axis, scale)
        twice = ones(size // 2 + 1, dtype=grad.dtype, device=grad.device) * 2
        twice[0] = 1
        if size % 2 == 0:
            twice[-1] = 1  # of even sizes the middle is its own conjugate
        out = out * twice.reshape([-1, *[1] * -axis])
        kept = min(frequencies, out.size(axis - 1))
        out = out.narrow(axis - 1, 0, kept)
        rest = list(out.shape)
        rest[axis - 1] = frequencies - kept
        return _core.cat([out, out.new_zeros(rest)], axis - 1), None, None, None


def complex_transform(x, axes, forward, scale=1.0):
    """Sums over complex numbers along axes, negative ones, of x exp(-2 pi i jk / n), or of exp(+...) the other way;
    times `scale`."""
    return _core.view_as_complex(_ComplexTransform.apply(_core.view_as_real(x), axes, forward, scale))


def half_transform(x, axis, scale):
    """That forward of real numbers along an axis: its frequencies up to n // 2."""
    return _core.view_as_complex(_HalfTransform.apply(x, axis, scale))


def real_transform(x, axis, size, scale):
    """The other way: `size` real numbers along an axis of what half_transform returns."""
    return _RealTransform.apply(_core.view_as_real(x), axis, size, scale)
